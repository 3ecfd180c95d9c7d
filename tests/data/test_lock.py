"""The lock: the same bytes again, or a sentence with both hashes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from benchmark.data.get import lock
from benchmark.data.get.fetch import fetch, fetch_all
from benchmark.data.get.sources import Source
from benchmark.errors import UserError
from tests.data.hosts import HF, SHARES, TLL, tll_pacs

# -- the lock ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def changing(hosts) -> Callable[..., Source]:
    """A file of two hosts, without a published hash."""
    hosts.files |= {"one/usps.bz2": b"as it was", "two/usps.bz2": b"as it was"}
    urls = [f"{hosts.address}/{host}/usps.bz2" for host in ("one", "two")]
    return Source(suite="digits", file="usps.bz2", about="USPS", urls=urls)


def test_a_file_that_changed_since_the_first_fetch_is_refused_with_both_hashes(hosts, changing, tmp_path):
    first = fetch(changing, tmp_path)
    first.path.unlink()
    hosts.files |= {"one/usps.bz2": b"as it is now", "two/usps.bz2": b"as it is now"}
    with pytest.raises(UserError) as refusal:
        fetch(changing, tmp_path)
    said = str(refusal.value)
    assert first.sha256 in said
    assert len(set(re.findall(r"[0-9a-f]{64}", said))) == 2
    assert f"type: python -m benchmark data fetch --suite digits --data-root {tmp_path} --accept usps.bz2" in said
    assert not first.path.exists()
    assert lock.known(tmp_path, first.path)["sha256"] == first.sha256
    done = fetch_all([changing], tmp_path, accept=["usps.bz2"])
    assert done.failed == []
    assert first.path.read_bytes() == b"as it is now"
    assert fetch(changing, tmp_path).sha256 == lock.known(tmp_path, first.path)["sha256"] != first.sha256
    with pytest.raises(UserError, match=r"Did you mean 'usps\.bz2'"):
        fetch_all([changing], tmp_path, accept=["usps.bz"])


def test_a_changed_file_is_refused_and_no_other_route_takes_its_place(pacs, ask, tmp_path):
    root = tmp_path / "data"
    ask("fetch", "--suite", "pacs", "--data-root", str(root))
    (root / "downloads" / "pacs" / "photo.tgz").unlink()
    pacs.files[f"{TLL}/f/{SHARES['photo']}/?dl=1"] = tll_pacs("photos")
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", str(root))
    assert code == 1
    assert "photo.tgz (PACS, photo (copy of the Transfer-Learning-Library)) is not what it was" in err
    assert not any(HF in name for _, name in pacs.asked)
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", str(root), "--accept", "photo.tgz")
    assert code == 0, err


def test_a_mirror_that_still_has_the_first_file_is_taken(hosts, changing, tmp_path):
    first = fetch(changing, tmp_path)
    first.path.unlink()
    hosts.files["one/usps.bz2"] = b"as it is now"
    again = fetch(changing, tmp_path)
    assert (again.sha256, again.url) == (first.sha256, changing.urls[1])


def test_a_lock_of_another_machine_binds_this_one(hosts, changing, tmp_path):
    fetch(changing, tmp_path / "there")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / lock.NAME).write_bytes((tmp_path / "there" / lock.NAME).read_bytes())
    hosts.files |= {"one/usps.bz2": b"as it is now", "two/usps.bz2": b"as it is now"}
    with pytest.raises(UserError, match="is not what it was"):
        fetch(changing, tmp_path / "here")


def test_a_damaged_lock_is_said(tmp_path):
    (tmp_path / lock.NAME).write_text('{"x": 3}')
    with pytest.raises(UserError, match=r"fetch-lock\.json cannot be read"):
        lock.read(tmp_path)


def test_what_was_read_stays_marked_so_until_a_fetch_confirms_it(pacs, ask, tmp_path):
    root = str(tmp_path / "data")
    _, out, _ = ask("list", "--suite", "pacs", "--data-root", root)
    assert out.count("as read, not confirmed by a fetch") == 7
    ask("fetch", "--suite", "pacs", "--data-root", root)
    _, out, _ = ask("list", "--suite", "pacs", "--data-root", root)
    assert out.count("confirmed by a fetch on 20") == 5
    assert out.count("as read, not confirmed by a fetch") == 2
    assert "photo: tll (1 file), or huggingface (1 file)" in out
