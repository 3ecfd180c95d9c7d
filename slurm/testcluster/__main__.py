"""A real SLURM of several nodes on one machine, for tests.

    python slurm/testcluster up            start (installs Debian's packages first when run as root)
    python slurm/testcluster status        daemons, nodes, queue
    python slurm/testcluster down          stop everything and remove the directory

    eval "$(python slurm/testcluster env)" SLURM's commands in this shell now talk to this cluster

For tests of failures: `kill n1` (node and all that runs on it, SIGKILL), `kill slurmd:n1` (the daemon alone),
`stop NAME` and `start NAME` of any daemon: munged, mariadbd, slurmdbd, slurmctld, n1, n2, …

Everything (keys, sockets, state, logs, database) is in one directory and on loopback. Two clusters in two
directories do not see each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Trouble


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python slurm/testcluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.environ.get("TESTCLUSTER", str(Path(tempfile.gettempdir()) / f"testcluster-{os.getuid()}"))
    top.add_argument("--base", type=Path, default=Path(default), help="the directory (environment: TESTCLUSTER)")
    verbs = top.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start the cluster")
    up.add_argument("--nodes", type=int, default=3)
    up.add_argument("--gpus", type=int, default=2, help="pretend GPUs a node")
    up.add_argument("--cpus", type=int, default=4, help="CPUs a node says it has")
    up.add_argument("--memory", type=int, default=8192, help="MB a node says it has")
    up.add_argument("--no-accounting", action="store_true", help="no database: `sacct` fails, as on many sites")
    up.add_argument("--no-install", action="store_true", help="never install packages")
    verbs.add_parser("down", help="stop the cluster and remove its directory")
    verbs.add_parser("status", help="daemons, nodes, queue; exit code 1 when it is not up")
    verbs.add_parser("env", help="the line that points a shell to the cluster")
    for verb in ("start", "stop", "kill"):
        verbs.add_parser(verb, help=f"{verb} one daemon or node").add_argument("name")
    return top


def main() -> int:
    asked = parser().parse_args()
    cluster = Cluster(asked.base)
    try:
        if asked.verb == "up":
            seconds = cluster.up(
                nodes=asked.nodes,
                gpus=asked.gpus,
                cpus=asked.cpus,
                memory=asked.memory,
                accounting=not asked.no_accounting,
                install=not asked.no_install,
            )
            print(f"{asked.nodes} nodes are up after {seconds:.1f} s. export SLURM_CONF={cluster.conf}")
        elif asked.verb == "down":
            cluster.down()
            print(f"Stopped; {asked.base} is removed.")
        elif asked.verb == "status":
            text, well = cluster.status()
            print(text)
            return 0 if well else 1
        elif asked.verb == "env":
            print(f"export SLURM_CONF={cluster.conf}")
        else:
            getattr(cluster, asked.verb)(asked.name)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 2
    return 0


sys.exit(main())
