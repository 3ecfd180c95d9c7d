"""The rules that keep files whole and loading safe, read from the source: they hold for code that is written tomorrow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WRITERS = {
    "write_text", "write_bytes", "savefig", "to_csv", "to_parquet", "savez", "savez_compressed", "save", "dump",
    "copyfile", "copy", "copy2", "copytree", "move", "open_memmap", "tofile",
}  # fmt: skip
MODES = ("w", "a", "x", "+")

# Where a file is written under its own name, and why that is right.
ALLOWED = {
    "benchmark/run/usage.py:Usage.__init__": "a switch of the kernel, not a file",
    "benchmark/records/lease.py:Lease._create": "a hidden name of its own, which a hard link then makes visible whole",
    "benchmark/records/lease.py:Lease._create_exclusive": "the fallback without hard links; a torn lease is nobody's",
    "benchmark/launch/submissions.py:launching": "a lock: exclusive creation is its purpose",
    "benchmark/data/get/archive.py:_write": "into a hidden folder that is renamed whole",
    "benchmark/data/made/pictures.py:write": "into a hidden folder that is renamed whole",
    "benchmark/data/get/download.py:Resumable._fill": "the note beside the .part file",
    "benchmark/data/get/download.py:Resumable._receive": "the .part file, which goes on where it stopped and is verified",
    "benchmark/data/decoded.py:_reserve": "takes room for the temporary file",
    "benchmark/data/get/shards.py:unpack": "into a hidden folder that is renamed whole",
    "benchmark/data/forms.py:_unpack": "into a hidden folder that is renamed whole",
    "benchmark/data/look/propose.py:write": "a new file by exclusive creation: one that is there is never touched",
    "benchmark/cli/handover.py:predict": "text in memory, which write_text puts in its place",
    "benchmark/records/track/channel.py:Channel.__init__": "a log, to which a tracker adds",
    "benchmark/records/track/turn.py:alone": "a lock: it holds nothing",
    "benchmark/records/track/child.py:main": "a pipe to the run, not a file",
    "benchmark/run/check/runs.py:Worlds.__init__": "into a temporary folder that goes with the check",
    "benchmark/cli/parts/describe.py:new": "a new file by exclusive creation: one that is there is never touched",
    "benchmark/run/loop.py:Run.stoppable": "the run's own save",
    "benchmark/run/loop.py:Run.train": "the run's own save",
    "benchmark/run/loop.py:Run.beat": "the run's own save",
    "benchmark/launch/slurm.py:_send": "the submission's own save, through write_json",
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call, str]]:
    """(function, call, source of the function) of a module."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()

    def inside(node: ast.AST, name: str, source: str) -> Iterator[tuple[str, ast.Call, str]]:
        for child in ast.iter_child_nodes(node):
            here, held = name, source
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                here = f"{name}.{child.name}".strip(".")
                held = "\n".join(lines[child.lineno - 1 : child.end_lineno])
            if isinstance(child, ast.Call):
                yield name, child, source
            yield from inside(child, here, held)

    yield from inside(ast.parse(text), "", text)


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("benchmark", "methods", "tsvdnet"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path


def writes(call: ast.Call) -> bool:
    """Whether a call puts something on the disk under a name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("open", "fdopen"):
        words = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant)]
        return any(isinstance(w, str) and len(w) <= 3 and any(m in w for m in MODES) for w in words)
    return name in WRITERS and isinstance(call.func, ast.Attribute)


def test_every_file_is_written_beside_its_name_and_replaced_whole() -> None:
    bare, used = [], set()
    for file, path in modules():
        for function, call, source in calls(path):
            target = ast.unparse(call)
            if not writes(call) or "replacing(" in source or "buffer" in target or ".copy()" in target:
                continue
            place = f"{file}:{function}"
            used.add(place)
            if place not in ALLOWED:
                bare.append(f"{file}:{call.lineno}: {target[:80]}")
    assert bare == []
    assert set(ALLOWED) <= used, f"no longer needed: {sorted(set(ALLOWED) - used)}"


def test_nothing_is_unpickled_anywhere() -> None:
    """torch.load reads weights only, np.load no objects; pickle, marshal, shelve, eval and exec are not used at all."""
    for file, path in modules():
        for _, call, _ in calls(path):
            name = ast.unparse(call.func)
            options = {k.arg: ast.unparse(k.value) for k in call.keywords}
            place = f"{file}:{call.lineno}"
            if name == "torch.load":
                assert options.get("weights_only") == "True", place
            if name in ("np.load", "numpy.load"):
                assert options.get("allow_pickle") == "False", place
            banned = (
                "pickle.load",
                "pickle.loads",
                "marshal.loads",
                "eval",
                "exec",
                "pd.read_pickle",
                "os.system",
                "joblib.load",
            )
            assert name not in banned, place
            assert options.get("shell") != "True", place
            assert not (name.endswith("yaml.load")), place
