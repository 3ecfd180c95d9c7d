"""The public hosts, played on loopback with their real paths and formats: data links, fetch, prepare, the lock."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torchvision
from PIL import Image
from safetensors.torch import save

from benchmark.data.get import check, sources, weights
from benchmark.data.get.fetch import fetch_all
from benchmark.data.get.prepare import prepare
from benchmark.data.get.sources import Source, things
from benchmark.errors import UserError
from benchmark.run import networks
from benchmark.spec import NetworkSettings, load_suite
from benchmark.spec.network import with_weights
from tests.data.hosts import (
    BU,
    DIGIT_PATHS,
    HF,
    HF_PACS,
    MNISTM,
    PACS,
    SHARES,
    TLL,
    Hosts,
    hf_digits,
    hugging_face,
    images,
    picture,
)

DOMAINNET = load_suite("domainnet")


# -- fetch and prepare -------------------------------------------------------------------------------------------------


def test_pacs_comes_from_the_first_host_and_the_second_is_left_alone(pacs, ask, tmp_path):
    root = str(tmp_path / "data")
    code, out, err = ask("fetch", "--suite", "pacs", "--data-root", root)
    assert code == 0, err
    assert not any(HF in name for _, name in pacs.asked)
    assert sorted(p.name for p in (tmp_path / "data" / "downloads" / "pacs").glob("*.tgz")) == [
        f"{d}.tgz" for d in sorted(SHARES)
    ]
    code, out, err = ask("prepare", "--suite", "pacs", "--data-root", root)
    assert code == 0, err
    assert (tmp_path / "data" / "PACS" / "photo" / "dog" / "pic_001.jpg").is_file()
    assert "file names" not in out


def test_when_the_first_host_is_gone_pacs_comes_as_parquet_and_the_lost_names_are_said(pacs, ask, tmp_path):
    root = tmp_path / "data"
    del pacs.files[f"{TLL}/f/{SHARES['photo']}/?dl=1"]
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", str(root))
    assert code == 0
    assert "Another route was taken: photo.tgz" in err
    assert "it gives a web page instead of the file" in err
    code, out, err = ask("prepare", "--suite", "pacs", "--data-root", str(root))
    assert code == 0, err
    assert (root / "PACS" / "art_painting" / "dog" / "pic_001.jpg").is_file(), "what the first host gave is taken"
    found = sorted((root / "PACS" / "photo").rglob("*.jpg"))
    assert len(found) == 14
    assert re.fullmatch(r"photo_\d{6}\.jpg", found[0].name)
    table = pq.read_table(io.BytesIO(pacs.files[HF_PACS])).to_pylist()
    assert {p.read_bytes() for p in found} == {r["image"]["bytes"] for r in table if r["domain"] == "photo"}
    assert "56 of 56 pictures came without their file names" in out
    assert "--route tll" in out
    assert "14 images: published are 1,670" in out
    assert ask("check", "--suite", "pacs", "--data-root", str(root))[0] == 0
    assert ask("prepare", "--suite", "pacs", "--data-root", str(root))[0] == 0, "a second time"


def test_a_chosen_route_goes_before_the_others(pacs, ask, tmp_path):
    root = str(tmp_path / "data")
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", root, "--route", "huggingface")
    assert code == 0, err
    assert not any(TLL in name for _, name in pacs.asked)
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", root, "--route", "huggingfaces")
    assert code == 2
    assert "Did you mean 'huggingface'?" in err


def test_digits_of_dead_hosts_come_as_parquet(hosts, ask, tmp_path):
    root = tmp_path / "data"
    hosts.dead = {"ossci-datasets.s3.amazonaws.com", "cornell.box.com", "ufldl.stanford.edu"}
    for path, side, mode in DIGIT_PATHS.values():
        for part, n in (("train", 30), ("test", 20)):
            hosts.files[f"{HF}/datasets/{path.format(part, MNISTM[part])}"] = hf_digits(n, side, mode)
    code, _, err = ask("fetch", "--suite", "digits", "--data-root", str(root))
    assert code == 0, err
    assert "it cannot be reached" in err
    code, out, err = ask("prepare", "--suite", "digits", "--data-root", str(root))
    assert code == 0, err
    for domain, (_, side, mode) in DIGIT_PATHS.items():
        assert f"{domain}: made from Hugging Face parquet (hf-{domain}): 30 / 20 images" in out
        with np.load(root / "digits" / f"{domain}.npz") as stored:
            assert stored["x_train"].shape[1:] == ((side, side) if mode == "L" else (side, side, 3))
            assert stored["y_test"].tolist() == [i % 10 for i in range(20)]
            png = np.asarray(Image.open(io.BytesIO(picture(3, side=side, mode=mode, form="PNG"))))
            assert np.array_equal(stored["x_train"][3], png)


def domainnet(hosts: Hosts, path: Callable[[int], str | None] = lambda i: None) -> None:
    """Three training and two test pictures of two classes of each domain, in four shards; domains are numbers."""
    names = {"label": DOMAINNET.classes, "domain": [d.name for d in DOMAINNET.domains]}
    base = f"{HF}/datasets/wltjr1007/DomainNet/resolve/main/data"
    shards = {f"train-0000{i}-of-00003": 1 for i in range(3)} | {"test-00000-of-00001": 2}
    for shard, each in shards.items():
        where = [(d, k) for d in range(6) for k in (0, 344) for _ in range(each)]
        columns = {"image": images(len(where), path), "label": [k for _, k in where], "domain": [d for d, _ in where]}
        hosts.files[f"{base}/{shard}.parquet"] = hugging_face(columns, names)


def test_domainnet_comes_as_parquet_with_its_lists_and_is_counted(hosts, ask, tmp_path, monkeypatch):
    cleaned, original = load_suite("domainnet").folders.readings  # the one that the verbs see
    monkeypatch.setitem(cleaned.counts, "clipart", [6, 4])
    monkeypatch.setitem(original.counts, "painting", [10])
    domainnet(hosts)
    root = tmp_path / "data"
    stale = "".join(f"clipart/zigzag/clipart_345_{i:06}.jpg 344\n" for i in range(3))
    (root / "downloads" / "domainnet" / "cleaned").mkdir(parents=True)
    (root / "downloads" / "domainnet" / "cleaned" / "clipart_train.txt").write_text(stale)
    hosts.files["download.pytorch.org/models/resnet101-63fe2227.pth"] = b"weights"
    code, _, err = ask("fetch", "--suite", "domainnet", "--data-root", str(root))
    assert code == 0, err
    for again in (False, True):
        code, out, err = ask("prepare", "--suite", "domainnet", "--data-root", str(root))
        assert code == 0, err
        for words in (
            "counts of the cleaned version",
            "count of the original version",
            "neither the cleaned version's",
        ):
            assert (f"6 / 4 images: the {words}" in out or f"6 / 4 images: {words}" in out) is not again
        tree = root / "DomainNet"
        lists = tree / "cleaned"  # by their length, which is the cleaned version's here
        lines = (lists / "clipart_train.txt").read_text().splitlines()
        assert len(lines) == 6
        assert all((tree / line.rpartition(" ")[0]).is_file() for line in lines)
        assert (lists / "clipart_test.txt").read_text().count("\n") == 4
    assert sorted(p.name for p in (tree / "quickdraw").iterdir()) == sorted([DOMAINNET.classes[0], "zigzag"])


def test_domainnets_counts_tell_the_version(tmp_path):
    train, test = (sum(n[i] for n in DOMAINNET.folders.readings[0].counts.values()) for i in (0, 1))
    assert (train, test) == (409_832, 176_743), "Hugging Face's copy is the cleaned version"
    assert check.count_words(DOMAINNET, "clipart", 33_525, 14_604).endswith("the counts of the cleaned version")
    assert check.count_words(DOMAINNET, "clipart", 34_019, 14_818).endswith("the count of the original version")
    assert check.count_words(DOMAINNET, "real", 1, 2).endswith("nor the original's 172,947")
    assert check.count_words(load_suite("pacs"), "photo", 1_670, 0) == "1,670 images: as published"


def test_pictures_that_have_names_keep_them_and_published_lists_fit(hosts, ask, tmp_path):
    domainnet(hosts, lambda i: f"pic_{i:03}.jpg")
    root = tmp_path / "data"
    fetch_all(_played(hosts, tmp_path, "domainnet"), root, route="huggingface")
    done = prepare(DOMAINNET, root)
    names = sorted(p.name for p in (root / "DomainNet" / "clipart" / "zigzag").iterdir())
    assert "pic_001.jpg" in names
    assert any(re.fullmatch(r"clipart_\d{6}\.jpg", n) for n in names), "a name that is taken is not taken again"
    assert "came without their file names" in done.notes[0]


def _played(hosts: Hosts, folder: Path, reader: str) -> list[Source]:
    found = sources.sources(reader, file=hosts.write_list(folder / "played.toml"))
    sources._document.cache_clear()
    return found


def test_lists_of_the_other_host_are_taken_when_the_publishers_are_dead(hosts, tmp_path, write_pictures):
    hosts.dead = {BU, HF}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        for d in DOMAINNET.domains:
            for part in ("train", "test"):
                out.writestr(f"image_list/{d.name}_{part}.txt", f"{d.name}/zigzag/pic_00.jpg 344\n")
    hosts.files[f"{TLL}/f/90ecb35bbd374e5e8c41/?dl=1"] = stream.getvalue()
    done = fetch_all([s for s in _played(hosts, tmp_path, "domainnet") if s.route != "huggingface"], tmp_path)
    assert [g.path.name for g in done.got] == ["image_list.zip"]
    asked = {words.partition(" ")[0] for words in done.passed}
    assert asked == {"cleaned/clipart_train.txt", "cleaned/clipart_test.txt"}, "what is here is not asked for again"
    write_pictures(tmp_path / "mine", tuple(d.name for d in DOMAINNET.domains), ("zigzag",), each=1)
    prepare(DOMAINNET, tmp_path, tmp_path / "mine")
    prepare(DOMAINNET, tmp_path)
    assert (tmp_path / "DomainNet" / "real_train.txt").read_text() == "real/zigzag/pic_00.jpg 344\n"


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_of_the_other_host_are_the_same_numbers_in_the_networks_own_file(pacs, ask, tmp_path):
    state = torchvision.models.resnet18(weights=None).state_dict()
    pacs.files[f"{HF}/timm/resnet18.tv_in1k/resolve/main/model.safetensors"] = save(state)
    pacs.dead = {"download.pytorch.org"}
    root = tmp_path / "data"
    code, _, err = ask("fetch", "--suite", "pacs", "--data-root", str(root))
    assert code == 0, err
    code, out, _ = ask("prepare", "--suite", "pacs", "--data-root", str(root))
    assert "resnet18.pth: made from resnet18.safetensors: 122 tensors" in out
    extractor = networks.resnet18()
    networks.load_weights(extractor, "resnet18", root / "weights" / "resnet18.pth")
    assert torch.equal(extractor.trunk.state_dict()["layer4.1.conv2.weight"], state["layer4.1.conv2.weight"])
    assert weights.convert(root) == {}, "once"


def test_weights_alone_are_fetched_without_the_images(pacs, ask, tmp_path):
    pacs.files[f"{HF}/timm/resnet18.tv_in1k/resolve/main/model.safetensors"] = save({"x": torch.zeros(1)})
    pacs.dead = {"download.pytorch.org"}
    code, out, err = ask("fetch", "--suite", "pacs", "--only", "weights", "--data-root", str(tmp_path))
    assert code == 0, err
    assert [p.name for p in tmp_path.rglob("*.*") if p.suffix in (".safetensors", ".parquet", ".zip")] == [
        "resnet18.safetensors"
    ]
    assert "By hand" not in out
    assert "data prepare" not in out
    for words, said in (
        ("pacs --only images", "There is no part of a suite that can be fetched alone 'images'"),
        ("digits --only weights", "digits has no weights to fetch: pacs, domainnet, "),
    ):
        code, _, err = ask("fetch", "--suite", *words.split(), "--data-root", str(tmp_path))
        assert code == 2
        assert said in " ".join(err.split())


def test_weights_that_are_not_there_name_the_suite_that_has_them(tmp_path):
    for network, suite in (("resnet18", "pacs"), ("resnet101", "domainnet"), ("resnet50", "office-31")):
        with pytest.raises(UserError, match=rf"data fetch --suite {suite} --only weights\)"):
            networks.load_weights(None, network, tmp_path / "none.pth")
        assert [s.file for s in sources.sources(suite) if network in s.gives]


def test_weights_of_other_networks_are_left_as_they_are(tmp_path, write_pictures):
    """What a file holds is part of a run's identity: resnet34 from another file would be another run."""
    state = torchvision.models.resnet34(weights=None).state_dict()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "resnet34.safetensors").write_bytes(save(state))
    (tmp_path / "weights" / "vit_small.safetensors").write_bytes(save({"cls_token": torch.zeros(3)}))
    network = NetworkSettings(name="resnet34", weights="imagenet")
    before = with_weights("images", network, tmp_path)
    write_pictures(tmp_path / "mine", tuple(d.name for d in PACS.domains), PACS.classes, each=1)
    assert prepare(PACS, tmp_path, tmp_path / "mine").refused == []
    assert sorted(p.name for p in (tmp_path / "weights").iterdir()) == ["resnet34.safetensors", "vit_small.safetensors"]
    assert with_weights("images", network, tmp_path) == before


def test_weights_that_are_none_are_refused(tmp_path):
    (tmp_path / "weights").mkdir()
    file = tmp_path / "weights" / "resnet18.safetensors"
    file.write_bytes(b"\x10\0\0\0\0\0\0\0{nothing")
    with pytest.raises(UserError, match="cannot be read as safetensors"):
        weights.convert(tmp_path)
    file.write_bytes(save({"stem.weight": torch.zeros(3)}))
    with pytest.raises(UserError, match=r"is not a ResNet in torchvision's naming; it has: stem\.weight"):
        weights.convert(tmp_path)
    (tmp_path / "downloads" / "pacs").mkdir(parents=True)
    assert "is not a ResNet" in prepare(PACS, tmp_path).refused[0]


# -- the list ----------------------------------------------------------------------------------------------------------


def test_everything_has_two_independent_hosts_but_domainnets_original_version():
    def hosts_of(reader: str, version: str) -> dict[str, set[str]]:
        found = things(sources.sources(reader, version))
        return {t.name: {urlsplit(u).netloc for way in t.order() for s in way for u in s.urls} for t in found}

    for reader in ("digits", "pacs", "domainnet"):
        assert all(len(hosts) >= 2 for hosts in hosts_of(reader, "cleaned").values()), reader
    single = {name for name, hosts in hosts_of("domainnet", "original").items() if len(hosts) < 2}
    assert {"clipart", "painting"} <= single
    assert "yann.lecun.com" not in sources.FILE.read_text()
