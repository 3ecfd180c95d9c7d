"""`data links`: which links live, their sizes and hosts, and nothing fetched."""

from __future__ import annotations

import json
import re

import requests

from benchmark.__main__ import main
from tests.data.hosts import HF, HF_PACS, SHARES, TLL

# -- data links --------------------------------------------------------------------------------------------------------


def test_links_tells_size_and_host_of_every_link_and_fetches_nothing(pacs, ask):
    code, out, err = ask("links", "--suite", "pacs")
    assert code == 0, err
    size = len(pacs.files[HF_PACS])
    assert size > 10_000
    assert f"live {pacs.address} hf-pacs/train.parquet about 1 MB" in out
    assert "6 of 7 links live" in out  # ResNet-18 is not on Hugging Face here
    assert "DEAD" in out
    assert "it answers 404" in out
    assert "Everything has at least one live link." in out
    assert pacs.given < 100, "a byte or so a link"
    assert ("HEAD", HF_PACS) in pacs.asked
    assert any(verb == "GET" and name.startswith("store/") for verb, name in pacs.asked), "the store refuses HEAD"
    code, out, _ = ask("links", "--suite", "pacs", "--json")
    told = {row["file"]: row for row in json.loads(out)["links"]}
    assert told["hf-pacs/train.parquet"]["size"] == size


def test_links_has_help_with_an_example(capsys):
    assert main(["data", "links", "--help"]) == 0
    assert "python -m benchmark data links --suite pacs" in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_links_ends_with_code_1_and_names_what_nobody_gives(pacs, ask):
    pacs.dead = {HF}
    del pacs.files[f"{TLL}/f/{SHARES['photo']}/?dl=1"]
    code, out, err = ask("links", "--suite", "pacs")
    assert code == 1
    assert "it gives a web page instead of the file" in out
    assert "it cannot be reached" in out
    assert "pacs: photo has no live link: photo.tgz, hf-pacs/train.parquet" in err
    assert "cartoon" not in err


def test_links_asks_for_everything_unless_told_otherwise(hosts, ask):
    code, out, err = ask("links")
    assert code == 1
    for name in ("digits: mnist", "pacs: sketch", "domainnet: clipart (original)", "domainnet: real lists (cleaned)"):
        assert f"{name} has no live link" in err
    assert re.search(r"0 of \d+ links live, on 0 hosts: none", out)
    assert "Nothing answered" not in err, "a refusal is an answer"


def test_links_that_nobody_answers_ask_whether_the_machine_is_offline(ask, monkeypatch):
    def offline(*_: object, **__: object) -> None:
        raise requests.ConnectionError("no route to host")

    monkeypatch.setattr("requests.request", offline)
    code, _, err = ask("links", "--suite", "pacs")
    assert code == 1
    assert "Nothing answered: is this machine offline?" in err


def test_links_does_not_say_everything_where_only_weights_have_links(hosts, ask):
    hosts.files["download.pytorch.org/models/resnet50-0676ba61.pth"] = b"weights"
    code, out, _ = ask("links", "--suite", "image-clef")
    assert code == 0
    assert "Everything that has a link has at least one live link." in out
    assert "The images of image-clef have no link to ask" in out
    assert "data list --suite image-clef" in out


def test_a_size_that_is_not_as_read_is_said(hosts, ask):
    hosts.files[f"{HF}/timm/resnet18.tv_in1k/resolve/main/model.safetensors"] = b"x" * 1000
    _, out, _ = ask("links", "--suite", "pacs")
    assert "as read, not confirmed by a fetch: 46,800,000 bytes were read" in out
