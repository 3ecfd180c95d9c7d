"""Many runs: on this machine (`local`), or on SLURM (`slurm`, with a profile from `cluster`); `status` and `logs` look at
them, `worker` is what runs on a node, `doctor` says whether this machine is ready.
"""
