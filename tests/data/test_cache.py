"""The cache: whole files or none, for many processes at once, where it can be written."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.cache import cache_root, digest, make_folder, recipe_key, replacing, source_hash, write_npz
from benchmark.errors import UserError


def test_the_cache_lies_in_the_data_root_when_that_can_be_written(tmp_path: Path) -> None:
    assert cache_root(tmp_path) == tmp_path / "cache"


def test_a_read_only_or_missing_data_root_leaves_the_users_own_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o555)
    for root in (shared, tmp_path / "nowhere"):
        assert cache_root(root) == tmp_path / "mine" / "msda-benchmark"


def test_the_environment_names_the_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARK_DATA_ROOT", str(tmp_path))
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("BENCHMARK_DATA_ROOT")
    assert cache_root() != tmp_path / "cache"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def _write(path: Path) -> None:
    write_npz(path, {"x": np.arange(200_000)})


def test_two_processes_that_write_the_same_file_both_leave_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.npz"
    workers = [multiprocessing.get_context("fork").Process(target=_write, args=(path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0, 0]
    with np.load(path, allow_pickle=False) as file:
        assert np.array_equal(file["x"], np.arange(200_000))
    assert [p.name for p in path.parent.iterdir()] == ["x.npz"]


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"cannot be made .* --data-root FOLDER"):
        make_folder(tmp_path / "file" / "cache")


def test_the_digest_sees_values_names_types_and_shapes() -> None:
    x = np.arange(6, dtype=np.uint8)
    variants = [("a", x), ("b", x), ("a", x[::-1]), ("a", x.reshape(2, 3)), ("a", x.astype(np.int16))]
    assert len({digest([v]) for v in variants}) == len(variants)
    assert digest([("a", x)]) == digest([("a", x.copy())])


def test_another_recipe_has_another_key(tmp_path: Path) -> None:
    file = tmp_path / "recipe.py"
    file.write_text("one")
    one = source_hash(str(file))
    file.write_text("two")
    two = source_hash(str(file))
    assert recipe_key(one, 1) == recipe_key(one, 1)
    assert len({recipe_key(one, 1), recipe_key(one, 2), recipe_key(two, 1)}) == 3
