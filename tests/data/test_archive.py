"""Archives from elsewhere: what is unpacked, and what is refused without a trace."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchmark.data.get.archive import Limits, unpack, verify
from benchmark.errors import UserError

GOOD = {"PACS/photo/dog/1.jpg": b"one", "PACS/photo/cat/2.jpg": b"two" * 100}


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def write_tar(path: Path, files: dict[str, bytes], *special: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in special:
            archive.addfile(info)
    return path


def write(path: Path, files: dict[str, bytes]) -> Path:
    return write_zip(path, files) if path.suffix == ".zip" else write_tar(path, files)


def nothing_was_unpacked(tmp_path: Path, archive: Path) -> bool:
    return [p for p in tmp_path.rglob("*") if p != archive] == []


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_good_archive_is_unpacked_whole(tmp_path, name):
    folder = unpack(write(tmp_path / name, GOOD), tmp_path / "out")
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == GOOD
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, "out"]


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("../evil.txt", "leads out of the folder"),
        ("PACS/../../evil.txt", "leads out of the folder"),
        ("/etc/evil.txt", "has an absolute name"),
        ("C:\\evil.txt", "has an absolute name"),
        ("..\\evil.txt", "leads out of the folder"),
    ],
)
def test_names_that_lead_out_are_refused(tmp_path, name, member, why):
    archive = write(tmp_path / name, {**GOOD, member: b"x"})
    with pytest.raises(UserError, match=rf"is refused: its member .*{why}"):
        unpack(archive, tmp_path / "out")
    assert nothing_was_unpacked(tmp_path, archive)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    info = tarfile.TarInfo("PACS/link")
    info.type, info.linkname = kind, "/etc/passwd"
    archive = write_tar(tmp_path / "a.tar.gz", GOOD, info)
    with pytest.raises(UserError, match=r"'PACS/link' is a link or a device"):
        unpack(archive, tmp_path / "out")
    assert nothing_was_unpacked(tmp_path, archive)


def test_links_in_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("PACS/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(info, "/etc/passwd")
    with pytest.raises(UserError, match="is a link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_bomb_is_refused_before_it_goes_off(tmp_path, name):
    archive = write(tmp_path / name, {"zeros": bytes(5_000_000)})
    with pytest.raises(UserError, match="5,000,000 or more, which no archive of pictures does"):
        unpack(archive, tmp_path / "out", Limits(small=1_000_000))
    assert nothing_was_unpacked(tmp_path, archive)


def test_a_bomb_does_not_go_off_while_its_contents_are_listed(tmp_path, monkeypatch):
    archive = write_tar(tmp_path / "a.tar.gz", {"zeros": bytes(80_000_000), "after": b"x"})
    read = []
    monkeypatch.setattr(tarfile.TarFile, "next", lambda self, next=tarfile.TarFile.next: read.append(1) or next(self))
    with pytest.raises(UserError, match="no archive of pictures"):
        verify(archive)
    assert len(read) == 2, "the header after the bomb was looked for, through the bomb"  # opening, first member


def test_a_zip_that_lies_about_its_size_is_stopped_while_unpacking(tmp_path):
    archive = write_zip(tmp_path / "a.zip", {"zeros": bytes(300_000)})
    content = archive.read_bytes().replace(struct.pack("<L", 300_000), struct.pack("<L", 10))
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged|more than it claims"):
        unpack(archive, tmp_path / "out")
    assert nothing_was_unpacked(tmp_path, archive)


def test_too_many_files_are_refused(tmp_path):
    archive = write_zip(tmp_path / "a.zip", {f"{i}.txt": b"" for i in range(30)})
    with pytest.raises(UserError, match="claims more than 20 files"):
        unpack(archive, tmp_path / "out", Limits(files=20))


def test_two_members_that_differ_in_case_only_are_refused(tmp_path):
    with pytest.raises(UserError, match="twice"):
        unpack(write_zip(tmp_path / "a.zip", {"A.txt": b"1", "a.txt": b"2"}), tmp_path / "out")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_truncated_archive_is_called_damaged_and_leaves_nothing(tmp_path, name):
    archive = write(tmp_path / name, {**GOOD, "big": bytes(range(256)) * 400})
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(UserError, match="damaged"):
        verify(archive)
    with pytest.raises(UserError, match="damaged"):
        unpack(archive, tmp_path / "out")
    assert nothing_was_unpacked(tmp_path, archive)


def test_an_existing_folder_is_not_written_over(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="is there already"):
        unpack(write_zip(tmp_path / "a.zip", GOOD), tmp_path / "out")


def test_unpacked_files_have_plain_permissions(tmp_path):
    info = zipfile.ZipInfo("run.sh")
    info.external_attr = (stat.S_IFREG | 0o4777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        out.writestr(info, "#!/bin/sh")
    mode = (unpack(tmp_path / "a.zip", tmp_path / "out") / "run.sh").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_IXUSR)
