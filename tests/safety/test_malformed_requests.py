"""Malformed suite files, cluster profiles and command lines: each is refused with a sentence."""

from __future__ import annotations

import contextlib
import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from benchmark.__main__ import main
from benchmark.launch.cluster import load_profile
from benchmark.spec import load_suite
from tests.safety import malformed as bad
from tests.safety.fuzz import EXAMPLES, fuzz, refused_by
from tests.safety.small import SUITE


def test_the_malformed_inputs_of_a_test_run_are_at_least_2000() -> None:
    assert sum(EXAMPLES.values()) >= 2000


# -- what a user writes ---------------------------------------------------------------------------------------------

SUITE_DOCUMENT = tomllib.loads(SUITE)
REQUIRED = [
    ("name",), ("title",), ("protocol",), ("reader",), ("classes",), ("columns",), ("domains",), ("tiers",),
    ("domains", 0, "id"), ("domains", 1, "name"), ("domains", 2, "title"), ("tiers", "lite", "data"),
    ("tiers", "lite", "batch"), ("tiers", "lite", "updates"), ("tiers", "lite", "network"),
    ("tiers", "lite", "optimiser"), ("tiers", "lite", "network", "name"), ("tiers", "lite", "optimiser", "lr_extractor"),
]  # fmt: skip
OUT_OF_RANGE: list[tuple[bad.Path, Any]] = [
    (("tiers", "lite", "batch"), 1), (("tiers", "lite", "batch"), 10**9), (("tiers", "lite", "updates"), 0),
    (("tiers", "lite", "updates"), 10**12), (("tiers", "lite", "eval_points"), 10**9), (("tiers", "lite", "val_images"), 0),
    (("tiers", "lite", "network", "width"), 0.0), (("tiers", "lite", "network", "width"), 7.0),
    (("tiers", "lite", "network", "name"), "resnet19"), (("tiers", "lite", "optimiser", "lr_extractor"), -1.0),
    (("tiers", "lite", "optimiser", "lr_classifier"), float("inf")), (("protocol",), 0), (("name",), "../up"),
    (("name",), "Small"), (("domains", 0, "id"), "../m"), (("domains", 0, "id"), "sv"), (("domains", 0, "name"), "a/b"),
    (("columns",), ["mt", "up"]), (("columns",), ["mt", "up", "up"]), (("classes",), ["0"]), (("classes",), ["0", "0"]),
    (("title",), "\x1b[2J"), (("reader",), "os.system"), (("default_tier",), "huge"), (("tiers",), {}),
]  # fmt: skip


def suite_files() -> st.SearchStrategy[bytes]:
    document = SUITE_DOCUMENT
    tables = [(), ("tiers", "lite"), ("tiers", "lite", "network"), ("tiers", "lite", "optimiser"), ("domains", 0)]
    unknown_key = st.tuples(st.sampled_from(tables), bad.text.map(lambda t: "x-" + t)).map(
        lambda pair: bad.put(document, (*pair[0], pair[1]), 1)
    )
    documents = st.one_of(
        st.sampled_from(REQUIRED).map(lambda path: bad.without(document, path)),
        bad.wrong_types(document, list(bad.paths(document))),
        st.sampled_from(OUT_OF_RANGE).map(lambda pair: bad.put(document, *pair)),
        unknown_key,
    )
    whole = SUITE.encode()
    return st.one_of(
        documents.map(bad.toml_file),
        bad.torn(whole, whole.index(b"optimiser =") + 10),
        st.binary(min_size=1).filter(lambda b: b.strip()),
        st.integers(1000, 100_000).map(lambda n: b"a = " + b"[" * n),
    )


def test_malformed_suite_files(tmp_path: Path) -> None:
    load_suite.cache_clear()

    def read(path: Path) -> None:
        load_suite.cache_clear()
        load_suite(str(path))

    fuzz("suites", suite_files(), refused_by(read, tmp_path / "suite.toml"))


def test_every_network_of_ours_that_a_suite_may_name_is_there() -> None:
    from benchmark.run.networks import NETWORKS
    from benchmark.spec.network import OURS

    assert set(OURS) == set(NETWORKS)


PROFILE: dict[str, Any] = {
    "title": "ours", "partition": "gpu", "gpus": 1, "cpus": 4, "memory_gb": 8.5, "time": "1:00:00", "parallel": 8,
    "pack_minutes": 30, "pack_runs": 10, "margin": 1.5, "max_requeues": 3, "retries": 1, "signal_seconds": 60,
    "setup": ["module load x"], "device": "auto", "allow_changed_code": False, "sbatch": {"nice": 5},
    "tiers": {"paper": {"gpus": 1, "time": "2-00:00:00"}},
}  # fmt: skip


def test_malformed_cluster_profiles(tmp_path: Path) -> None:
    ranges: list[tuple[bad.Path, Any]] = [
        (("gpus",), -1), (("gpus",), 99), (("cpus",), 0), (("memory_gb",), 0.0), (("memory_gb",), float("inf")), (("time",), 0),
        (("time",), "soon"), (("time",), "1:2:3:4"), (("parallel",), 0), (("margin",), 0.5), (("retries",), 99),
        (("signal_seconds",), 1), (("device",), "tpu"), (("sbatch",), {"array": "1-5"}), (("sbatch",), {"wrap": "rm"}),
        (("tiers", "huge"), {}), (("tiers", "paper", "gpus"), -3), (("tiers", "paper", "time"), "never"),
    ]  # fmt: skip
    # a time may be a number or a text; an option of sbatch may be of any plain type
    typed = [p for p in bad.paths(PROFILE) if "time" not in p and p[0] != "sbatch"]
    unknown_key = st.tuples(st.sampled_from([(), ("tiers", "paper")]), bad.text.map(lambda t: "x-" + t)).map(
        lambda pair: bad.put(PROFILE, (*pair[0], pair[1]), 1)
    )
    documents = st.one_of(
        bad.wrong_types(PROFILE, typed),
        st.sampled_from(ranges).map(lambda pair: bad.put(PROFILE, *pair)),
        unknown_key,
    )
    contents = st.one_of(documents.map(bad.toml_file), st.binary(min_size=1).filter(_no_toml))
    fuzz("profiles", contents, refused_by(load_profile, tmp_path / "profile.toml"))


def _no_toml(content: bytes) -> bool:
    try:
        return bool(tomllib.loads(content.decode()))
    except ValueError:
        return True


# -- the command line -------------------------------------------------------------------------------------------------

WORD = bad.text.filter(lambda t: not t.startswith("-") and t.strip() and "," not in t)
MISTAKES = st.one_of(
    st.tuples(st.just("--suite"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--suite"), WORD.map(lambda t: f"{t}.toml")),
    st.tuples(st.just("--tier"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"{t}.py:Class")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"tsvdnet:no {t}")),
    st.tuples(st.just("--targets"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--standards"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--split"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--seeds"), st.one_of(WORD.map(lambda t: f"x{t}"), st.sampled_from(["5-1", "0-99999999999", "-1", "1e3"]))),
    st.tuples(st.just("--set"), st.one_of(WORD.filter(lambda t: "=" not in t), WORD.map(lambda t: f"tsvdnet.no {t}=1"))),
    st.tuples(st.just("--set"), st.sampled_from(["run.batch=0", "run.nothing=1", "tsvdnet.lam=nan", "tsvdnet.lam=x",
                                                 "run.precision=7", "run.optimiser.lr_extractor=1e999",
                                                 "dann.x=1", "run.updates=2.5"])),
    st.tuples(st.just("--limit-steps"), st.one_of(WORD.map(lambda t: f"x{t}"), st.integers(max_value=0).map(str))),
    st.tuples(st.just("--stage-budget"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--threads"), st.sampled_from(["0", "-3", "many", "1.5"])),
    st.tuples(st.just("--tuned"), WORD.map(lambda t: f"/no/such/{t}")),
    st.tuples(bad.text.map(lambda t: f"--no-{t}"), st.just("1")),
)  # fmt: skip
VERBS = ["status", "audit", "methods", "doctor", "verify", "publish", "plan", "run"]
OTHERS = st.one_of(
    WORD.map(lambda t: (f"no {t}",)),  # no such verb
    st.tuples(st.sampled_from(VERBS), bad.text.map(lambda t: f"--no-{t}")),
    WORD.map(lambda t: ("methods", f"no {t}")),
    WORD.map(lambda t: ("audit", f"/no/such/{t}")),
    WORD.map(lambda t: ("verify", f"no {t}", "--results", "/no/such/folder")),
    WORD.map(lambda t: ("publish", f"../{t}", "--results", "/no/such/folder")),
    WORD.map(lambda t: ("explain", f"no {t}")),
    st.just(("plan",)),
    st.just(("run", "--suite")),
)  # fmt: skip


def test_malformed_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    valid = ["--suite", "digits", "--methods", "tsvdnet", "--results", str(tmp_path / "runs")]
    requests = MISTAKES.map(lambda words: ["plan", *valid, *words])

    def refuse(words: Any) -> None:
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = main(list(words))
        assert code in (1, 2), (words, said.getvalue())
        assert complained.getvalue().strip()
        assert "Traceback" not in complained.getvalue()

    fuzz("commands", st.one_of(requests, requests, OTHERS), refuse)
    assert not (tmp_path / "runs").exists()
