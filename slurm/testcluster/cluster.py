"""Start, stop and hurt a SLURM cluster that lives in one directory. Standard library only."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from packages import Trouble, install_missing

HERE = Path(__file__).parent
TAG = "TESTCLUSTER_DAEMON"  # in the environment of every daemon: <base>:<name>; so only our own are ever signalled


class Cluster:
    """Daemons of one cluster: munged, mariadbd, slurmdbd (accounting), slurmctld, and one slurmd a node.

    There are no pid files to go stale: a daemon is a process whose environment carries our tag.
    """

    def __init__(self, base: Path) -> None:
        self.base = base.absolute()
        self.conf = self.base / "slurm.conf"

    # -- the whole -------------------------------------------------------------------------------------------------

    def up(self, *, nodes: int, gpus: int, cpus: int, memory: int, accounting: bool, install: bool) -> float:
        """Start everything; seconds until all nodes are idle. A cluster that is already up stays as it is."""
        started = time.monotonic()
        if self.running():
            raise Trouble(f"A cluster is up in {self.base} already. Stop it first: python slurm/testcluster down")
        install_missing(accounting, allowed=install)
        if len(str(self.base)) > 60:
            raise Trouble(f"{self.base} is too long a path for sockets (60 characters); choose another with --base.")
        shutil.rmtree(self.base, ignore_errors=True)
        self._write(nodes, gpus, cpus, memory, accounting)
        for name in self.names():
            self.start(name)
        return time.monotonic() - started

    def down(self) -> None:
        """Stop everything, jobs too, and remove the directory."""
        for pid in list(self._processes()):
            _signal(pid, signal.SIGKILL)
        _wait("the processes to end", lambda: not list(self._processes()), 20)
        shutil.rmtree(self.base, ignore_errors=True)

    def names(self) -> list[str]:
        """The daemons in the order in which they start."""
        try:
            plan = json.loads((self.base / "plan.json").read_text())
        except FileNotFoundError:
            raise Trouble(f"There is no cluster in {self.base}. Start one: python slurm/testcluster up") from None
        database = ["mariadbd", "slurmdbd"] if plan["accounting"] else []
        return ["munged", *database, "slurmctld", *plan["nodes"]]

    def running(self) -> dict[str, int]:
        """{name of a daemon: pid}."""
        return {name: pid for pid, name in self._daemons()}

    def status(self) -> tuple[str, bool]:
        """Words for a person, and whether all daemons are there."""
        running = self.running()
        names = self.names() if running else []
        lines = [f"{name:10} {f'pid {running[name]}' if name in running else 'not running'}" for name in names]
        if "slurmctld" in running:
            for command in (["sinfo", "-N", "-o", "%N %P %T %C %m %G"], ["squeue", "-o", "%i %P %j %T %N %r"]):
                lines += ["", self._client(*command).strip()]
        return "\n".join(lines) or f"No cluster is up in {self.base}.", bool(names) and set(names) <= set(running)

    # -- one daemon ------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start one daemon and wait until it answers."""
        if name in self.running():
            return
        command, ready = self._recipe(name)
        environment = {
            "PATH": "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/"),
            "SLURM_CONF": str(self.conf),
            "MYSQL_UNIX_PORT": str(self.base / "db.socket"),
            TAG: f"{self.base}:{name}",
        }
        with (self.base / "log" / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=self.base, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

        def answers() -> bool:
            if process.poll() is not None:
                raise Trouble(f"{name} ended at once with code {process.returncode}; see {self.base}/log/{name}*")
            return ready()

        _wait(f"{name} to answer (see {self.base}/log)", answers, 60)

    def stop(self, name: str) -> None:
        """Ask one daemon to end, and wait until it has."""
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """SIGKILL. A node's name takes with it all that runs there; `slurmd:n1` takes the daemon alone."""
        if name.startswith("slurmd:"):
            return self._end(name.removeprefix("slurmd:"), signal.SIGKILL)
        self._end(name, signal.SIGKILL)
        for pid in list(self._processes(node=name)):
            _signal(pid, signal.SIGKILL)

    def _end(self, name: str, how: signal.Signals) -> None:
        if name not in self.names():
            raise Trouble(f"There is no daemon {name!r}. Daemons: {', '.join(self.names())}.")
        pid = self.running().get(name)
        if pid is not None:
            _signal(pid, how)
            _wait(f"{name} to end", lambda: name not in self.running(), 20)

    def _recipe(self, name: str) -> tuple[list[str], Callable[[], bool]]:
        """Command line of a daemon, in the foreground, and the question whether it is ready."""
        base = self.base
        if name == "munged":
            key, socket_ = base / "munge" / "key", base / "munge" / "socket"
            files = [f"--{what}-file={base}/munge/{what}" for what in ("key", "log", "pid", "seed")]
            if not key.exists():
                key.write_bytes(os.urandom(128))
                key.chmod(0o400)
            ask = ["munge", "-n", "-S", str(socket_)]
            return ["munged", "--foreground", "--force", f"--socket={socket_}", *files], lambda: _succeeds(ask)
        if name == "mariadbd":
            if not (base / "db").exists():
                fill = ["mariadb-install-db", "--no-defaults", f"--user={_user()}", f"--datadir={base}/db"]
                done = subprocess.run([*fill, "--skip-test-db"], capture_output=True, text=True)
                if done.returncode != 0:
                    said = "; ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
                    raise Trouble(f"The database could not be made: {said}")
            ask = ["mariadb", "--no-defaults", f"--socket={base}/db.socket", "-e", "select 1"]
            options = [f"--datadir={base}/db", f"--socket={base}/db.socket", f"--pid-file={base}/run/db.pid"]
            small = ["--skip-networking", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]
            return ["mariadbd", "--no-defaults", f"--user={_user()}", *options, *small], lambda: _succeeds(ask)
        if name == "slurmdbd":
            return ["slurmdbd", "-D"], lambda: self._answers("sacctmgr", "-n", "show", "user")
        if name == "slurmctld":
            return ["slurmctld", "-D"], lambda: self._answers("scontrol", "ping", saying="UP")
        ask = ["sinfo", "-h", "-n", name, "-o", "%T"]
        return ["slurmd", "-D", "-N", name], lambda: self._answers(*ask, saying="idle|mixed|allocated")

    # -- parts -----------------------------------------------------------------------------------------------------

    def _write(self, nodes: int, gpus: int, cpus: int, memory: int, accounting: bool) -> None:
        """The directory, with the three configuration files filled in."""
        for folder in ("munge", "state", "spool", "run", "log", "dev"):
            (self.base / folder).mkdir(parents=True)
        for index in range(gpus):
            (self.base / "dev" / f"nvidia{index}").symlink_to("/dev/null")
        host, names = socket.gethostname().split(".")[0], [f"n{index + 1}" for index in range(nodes)]
        ctld_port, dbd_port, *ports = _free_ports(2 + nodes)
        values = {
            "base": self.base,
            "host": host,
            "user": _user(),
            "ctld_port": ctld_port,
            "dbd_port": dbd_port,
            "last_gpu": gpus - 1,
            "nodes": "\n".join(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                f"CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus}"
                for name, port in zip(names, ports, strict=True)
            ),
            # AccountingStoragePass is the path of munge's socket: with a private socket, calls hang without it
            "accounting": (
                "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
                f"AccountingStoragePort={dbd_port}\nAccountingStoragePass={self.base}/munge/socket"
                if accounting
                else "AccountingStorageType=accounting_storage/none"
            ),
        }
        for file in ("slurm.conf", "slurmdbd.conf", "gres.conf"):
            target = self.base / file
            target.write_text((HERE / file).read_text().format_map(values))
            target.chmod(0o600 if file == "slurmdbd.conf" else 0o644)
        (self.base / "plan.json").write_text(json.dumps({"nodes": names, "accounting": accounting}))

    def _client(self, *command: str) -> str:
        """What a SLURM command prints when it talks to this cluster."""
        done = subprocess.run(
            command, env={**os.environ, "SLURM_CONF": str(self.conf)}, capture_output=True, text=True, timeout=30
        )
        return done.stdout if done.returncode == 0 else ""

    def _answers(self, *command: str, saying: str = "") -> bool:
        said = self._client(*command)
        return any(word in said for word in saying.split("|")) if said else False

    def _daemons(self) -> Iterator[tuple[int, str]]:
        """(pid, name) of each daemon. Their helpers (slurmstepd, slurmscriptd) inherit the tag and are left out."""
        for pid, environment in _environments():
            base, _, name = environment.get(TAG, "").rpartition(":")
            program = name if name in ("munged", "mariadbd", "slurmdbd", "slurmctld") else "slurmd"
            if base == str(self.base) and _program_of(pid) == program:
                yield pid, name

    def _processes(self, node: str | None = None) -> Iterator[int]:
        """Everything of this cluster or of one of its nodes: daemons, job steps, and the jobs' own processes."""
        for pid, environment in _environments():
            tag, job = environment.get(TAG, ""), environment.get("SLURMD_NODENAME", "")
            ours = environment.get("SLURM_CONF") == str(self.conf) and bool(job)
            of_cluster = ours or tag.startswith(f"{self.base}:")
            of_node = (ours and job == node) or tag == f"{self.base}:{node}"
            if of_cluster if node is None else of_node:
                yield pid


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    """Environment with which each process was started; zombies and other people's have none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                raw = (entry / "environ").read_bytes()
            except OSError:
                continue
            if raw:
                pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
                yield int(entry.name), {key: value for key, _, value in pairs}


def _program_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _signal(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different: kept bound until the last one is known."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait(what: str, question: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise Trouble(f"Waited {seconds:.0f} s for {what}.")
        time.sleep(0.05)
