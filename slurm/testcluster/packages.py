"""Debian's packages of SLURM: are they there, may they be installed, install them without starting any daemon."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NEEDED = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}
ACCOUNTING = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server-core", "mariadb": "mariadb-client-core"}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where the daemons are, and where a user's PATH does not look


class Trouble(Exception):
    """Something a person can mend: the message is a sentence."""


def missing(accounting: bool) -> list[str]:
    """Packages whose programs are not on this machine."""
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    wanted = {**NEEDED, **(ACCOUNTING if accounting else {})}
    return [package for program, package in wanted.items() if shutil.which(program, path=path) is None]


def install_missing(accounting: bool, *, allowed: bool) -> None:
    """Install what is missing, or say in one sentence why that cannot be done."""
    packages = missing(accounting)
    if not packages:
        return
    if not allowed or os.getuid() != 0 or shutil.which("apt-get") is None:
        names = " ".join(packages)
        raise Trouble(f"SLURM is not complete on this machine. As root on Debian: apt-get install {names}")
    with (Path(tempfile.gettempdir()) / "testcluster-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two clusters that start at once the second waits, and finds it done
        if packages := missing(accounting):
            _install(packages)


def _install(packages: list[str]) -> None:
    install = ["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *packages]
    with tempfile.TemporaryDirectory() as folder:
        # packages start their daemons on installation unless this program, looked up by PATH, says no (101)
        refuse = Path(folder) / "policy-rc.d"
        refuse.write_text("#!/bin/sh\nexit 101\n")
        refuse.chmod(0o755)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": f"{folder}:{os.environ['PATH']}"}
        for command in (["apt-get", "update"], install):
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise Trouble(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
