"""The check of a method's contract finds what is planted, names it, and finds nothing where nothing is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent

import pytest
import torch
from torch.nn import functional as F

from benchmark.__main__ import main
from benchmark.run.check import CLAIMS, check
from benchmark.run.check.memory import difference
from benchmark.run.check.waits import watching
from methods.contract import load_method
from tests.methods.small import TOY

SOUND = """
import functools, gc, os, random, sys
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from benchmark.run.loop import Run
from methods.contract import Method, Range
from methods.one_network import OneNetwork
from methods.source_only import SourceOnly, source_loss

class Own(OneNetwork):
    name = "own"

    def __init__(self, task, hparams):
        super().__init__(task, hparams)
        {init}

    def update(self, sources, target, progress):
        features, unlabeled = self.forward_all(sources, target)
        loss = source_loss([self.classifier(f) for f in features], sources)
        p = self.classifier(unlabeled).softmax(1)
        loss = loss - 0.1 * (p * p.clamp(min=1e-8).log()).sum(1).mean()
        {update}
        self.descend(loss)
        {after}
        return {{"loss": loss}}

{rest}
"""


def findings(folder: Path, *, loop: bool = False, **parts: str) -> dict[str, str]:
    """{claim: the sentences} of what does not hold of a method with these lines in it."""
    places = {"init": "pass", "update": "pass", "after": "pass", "rest": "", **parts}
    indented = {
        key: indent(text, " " * 8).lstrip() if key != "rest" else indent(text, " " * 4) for key, text in places.items()
    }
    (folder / "own.py").write_text(SOUND.format(**indented), encoding="utf-8")
    found = [*check(f"{folder}/own.py:Own", toy=TOY, in_the_loop=loop)]
    assert {f.claim for f in found} <= set(CLAIMS)
    return {f.claim: " ".join(f.wrong) or f.open for f in found if not f.holds}


def test_a_sound_method_passes_every_claim(tmp_path: Path) -> None:
    assert findings(tmp_path, loop=True) == {}


# -- labels of the target, by three ways round the contract ------------------------------------------------------------

LEAKS = {
    "an object of the loop, found among all objects": (
        "global LABELS\nif progress == 0:\n"
        "    runs = [o for o in gc.get_objects() if type(o) is Run and getattr(o, 'method', None) is self]\n"
        "    LABELS = runs[0].dataset.domains['mm'].train.labels if runs else torch.zeros(1)\nlabels = LABELS"
    ),
    "the caller's variables": (
        "up = sys._getframe(1).f_locals.get('self')\n"
        "labels = up.dataset.domains[up.spec.target].train.labels if hasattr(up, 'dataset') else torch.zeros(1)"
    ),
    "the data folder": (
        "root = os.environ.get('BENCHMARK_DATA_ROOT')\n"
        "labels = torch.from_numpy(np.load(f'{root}/digits/mnistm.npz')['y_train']) if root else torch.zeros(1)"
    ),
    "the data folder, read once and kept": (
        "global LABELS\nroot = os.environ.get('BENCHMARK_DATA_ROOT')\n"
        "if root and 'LABELS' not in globals():\n"
        "    LABELS = torch.from_numpy(np.load(f'{root}/digits/mnistm.npz')['y_train'])\n"
        "labels = LABELS if root else torch.zeros(1)"
    ),
    "a cache that trainings before it have filled": "labels = self.kept()",
}
KEPT = """
@staticmethod
@functools.cache
def kept():
    root = os.environ.get('BENCHMARK_DATA_ROOT')
    return torch.from_numpy(np.load(f'{root}/digits/mnistm.npz')['y_train']) if root else torch.zeros(3)
"""


@pytest.mark.parametrize("way", LEAKS)
def test_labels_of_the_target_read_through_a_global_are_found(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCHMARK_DATA_ROOT", raising=False)
    leak = f"{LEAKS[way]}\nloss = loss * (1 + labels[:3].float().mean() / 100)"
    found = findings(tmp_path, loop=True, update=leak, rest=KEPT)
    assert set(found) == {"labels"}
    assert "the target's labels permuted" in found["labels"]


def test_a_run_that_fails_alone_in_its_process_is_said_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "global BEFORE\nif 'BENCHMARK_DATA_ROOT' not in os.environ:\n    BEFORE = True\n"
        "assert 'BEFORE' in globals(), 'nobody was here before'"
    )
    monkeypatch.delenv("BENCHMARK_DATA_ROOT", raising=False)
    found = findings(tmp_path, loop=True, update=lines)
    said = "In a process of its own its run fails: AssertionError: nobody was here before (own.py:27)."
    assert found == {"labels": said}


def test_a_run_that_fails_everywhere_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCHMARK_DATA_ROOT", raising=False)
    found = findings(tmp_path, loop=True, update="assert 'BENCHMARK_DATA_ROOT' not in os.environ, 'no'")
    assert set(found) == {"standards", "labels"}
    assert found["labels"] == "its run fails"


def test_a_run_that_differs_from_itself_says_nothing_about_labels(tmp_path: Path) -> None:
    found = findings(tmp_path, loop=True, update="loss = loss * (1 + random.random())")
    assert set(found) == {"bits", "resume", "labels"}
    assert found["labels"] == "Not decided: the same run twice gives other bits."


# -- one fault, one name -----------------------------------------------------------------------------------------------

FAULTS = {
    "a buffer that is no buffer": (
        {
            "init": "self.centre = torch.zeros(task.feature_dim)",
            "update": "loss = loss + (unlabeled.mean(0) - self.centre).square().mean()",
            "after": "self.centre = 0.5 * self.centre + 0.5 * unlabeled.detach().mean(0)",
        },
        {"state": "self.centre changes in training, and a checkpoint does not keep it", "resume": "gives other bits"},
    ),
    "a counter that matters later": (
        {"init": "self.steps = 0", "after": "self.steps += 1"},
        {"state": "self.steps changes in training"},
    ),
    "a counter in a helper that is called": (
        {
            "init": "class Count:\n    n = 0\n    def __call__(self):\n        self.n += 1\nself.count = Count()",
            "after": "self.count()",
        },
        {"state": "self.count.n changes in training"},
    ),
    "a buffer that is not kept": (
        {
            "init": "self.register_buffer('centre', torch.zeros(1), persistent=False)",
            "after": "self.centre += loss.detach()",
        },
        {"state": "self.centre changes in training"},
    ),
    "modules in a plain list": (
        {
            "init": "self.heads = [task.build('h', lambda: nn.Linear(task.feature_dim, task.num_classes))]\n"
            "self.optimisers['heads'] = task.optimiser(self.heads[0])",
            "update": "loss = loss + source_loss([self.heads[0](f) for f in features], sources)",
        },
        {"state": "self.heads changes in training", "resume": "gives other bits"},
    ),
    "an extractor that only the task has": (
        {
            "init": "task.extractor('second')\nself.optimisers['second'] = task.optimiser(task.extractor('second'))",
            "update": "loss = loss + self.task.extractor('second')(target.images).square().mean()",
        },
        {"state": "task.extractor('second') changes", "resume": "gives other bits"},
    ),
    "a generator of its own": (
        {"init": "self.rng = random.Random(0)", "update": "loss = loss * (1 + self.rng.random())"},
        {"state": "self.rng changes in training", "resume": "gives other bits"},
    ),
    "state that no checkpoint can hold": (
        {"rest": "def extra_state(self):\n    return {'what': Own}\n"},
        {"updates": "It does not train: UnpicklingError"},
    ),
    "a value that is saved and not loaded": (
        {
            "init": "self.steps = 0",
            "after": "self.steps += 1",
            "rest": "def extra_state(self):\n    return {'steps': self.steps}\n",
        },
        {"state": "self.steps changes", "resume": "is not what was saved after 1 updates: extra.steps"},
    ),
    "Python's random": (
        {"update": "loss = loss * (1 + random.random())"},
        {"bits": "Training draws from Python's `random`", "resume": "not the same bits twice"},
    ),
    "numpy's random": (
        {"update": "loss = loss * (1 + np.random.rand())"},
        {"bits": "Training draws from `numpy.random`", "resume": "not the same bits twice"},
    ),
    "the system's random numbers": (
        {"update": "loss = loss * (1 + os.urandom(1)[0] / 256 + id(loss) % 97)"},
        {"bits": "Two trainings from one seed differ after 1 updates", "resume": "not the same"},
    ),
    "weights from nowhere": (
        {"init": "self.head = nn.Linear(2, 2)"},
        {"bits": "modules.head.weight differs between two methods of one seed: build modules", "resume": "not the same"},
    ),
    "item": ({"update": "print(loss.item(), end='')"}, {"waits": "own.py:24 calls .item()"}),
    "a question": ({"update": "loss = loss if loss > 0 else -loss"}, {"waits": "own.py:24 asks a tensor whether it is"}),
    "numpy": ({"update": "np.mean(loss.detach().numpy())"}, {"waits": "own.py:24 calls .numpy()"}),
    "a mask": ({"update": "loss = loss + p[p > 0.2].mean()"}, {"waits": "own.py:24 uses a mask as an index"}),
    "a copy to the host": ({"update": "loss.detach().to('cpu')"}, {"waits": 'own.py:24 calls .to("cpu")'}),
    "rows by a tensor of counts": (
        {"update": "p.repeat_interleave(torch.ones(len(p), dtype=torch.long), 0)"},
        {"waits": "own.py:24 calls repeat_interleave with a tensor of counts and no output_size"},
    ),
    "a printed tensor": ({"update": "print(loss, end='')"}, {"waits": "own.py:24 prints a tensor"}),
    "an optimiser out of optimisers": (
        {
            "init": "del self.optimisers['classifier']\nself.opt = torch.optim.Adam(self.classifier.parameters())",
            "update": "self.opt.zero_grad()",
            "after": "self.opt.step()",
        },
        {"optimisers": "self.opt steps in update and does not stand in self.optimisers", "resume": "gives other bits"},
    ),
    "an optimiser of nobody": (
        {"after": "torch.optim.SGD(self.classifier.parameters(), lr=1e-3).step()"},
        {"optimisers": "an optimiser of kind SGD steps in update"},
    ),
    "an optimiser that comes later": (
        {"update": "self.optimisers.setdefault('late', self.task.optimiser(self.classifier))"},
        {"resume": "is not what was saved after 1 updates: optimisers.late"},
    ),
    "logits": (
        {"rest": "def probabilities(self, images):\n    return self.classifier(self.extractor(images))\n"},
        {"predictions": "Are they logits? Return logits.softmax(1)"},
    ),
    "log-probabilities": (
        {"rest": "def probabilities(self, images):\n    return super().probabilities(images).log()\n"},
        {"predictions": "these are not probabilities"},
    ),
    "predictions that are not finite": (
        {"rest": "def probabilities(self, images):\n    return super().probabilities(images) * float('nan')\n"},
        {"predictions": "is not finite", "batches": "depends on the images beside it"},
    ),
    "too few predictions": (
        {"rest": "def probabilities(self, images):\n    return super().probabilities(images)[:, :3]\n"},
        {"predictions": "gives (24, 3) for 24 images and 4 classes"},
    ),
    "predictions that are drawn": (
        {"rest": "def probabilities(self, images):\n    return torch.rand(len(images), 4).softmax(1)\n"},
        {"predictions": "draws random numbers", "batches": "depends"},
    ),
    "predictions that train": (
        {"rest": "def probabilities(self, images):\n    self.train()\n    return super().probabilities(images)\n"},
        {"predictions": "changes the method's state", "batches": "other neighbours change it"},
    ),
    "a graph over the batch": (
        {
            "rest": "def probabilities(self, images):\n    p = super().probabilities(images)\n"
            "    return 0.999 * p + 0.001 * p.mean(0, keepdim=True)\n"
        },
        {"batches": "The prediction of an image depends on the images beside it: other neighbours change it"},
    ),
    "features of another shape": (
        {"rest": "def embed(self, images):\n    return self.extractor(images).mean(1)\n"},
        {"predictions": "embed gives (24,) for 24 images"},
    ),
    "a number as a term": (
        {"rest": "def diagnostics(self):\n    return {}\n", "after": "return {'loss': 1.0}"},
        {"updates": "update returns 1.0 as 'loss'; a term is a 0-d tensor"},
    ),
    "a vector as a term": ({"after": "return {'p': p}"}, {"updates": "a tensor of shape (8, 4) as 'p'"}),
    "a loss that is lost": (
        {"after": "return {'loss': loss * float('inf')}"}, {"updates": "'loss' is not finite after 1 updates"},
    ),
    "no terms": ({"after": "return loss"}, {"updates": "update returns a Tensor, not a dictionary"}),
    "pseudo labels without a class": (
        {"after": "return {'pseudo_labels': torch.full((8,), 4)}"}, {"updates": "pseudo_labels are not (B,) int64"},
    ),
    "changed batches": ({"after": "target.images.mul_(2)"}, {"updates": "update changes the batches"}),
    "an error": ({"update": "raise ValueError('so be it')"}, {"updates": "ValueError: so be it (own.py:24)"}),
    "three sources and no other number": (
        {"init": "assert task.num_sources == 3, 'three'"},
        {"sources": "With 2 sources it fails: AssertionError: three (own.py:17). With 5 sources it fails"},
    ),
    "weights that are lost with two sources": (
        {"after": "if len(sources) == 2: self.classifier.weight.data.fill_(float('inf'))"},
        {"sources": "With 2 sources its weights are not finite"},
    ),
    "stages that leave something over": (
        {"rest": "def stages(self):\n    return [('a', 0.5), ('b', 0.4)]\n"}, {"declarations": "must be positive and sum"},
    ),
    "a seed that does nothing": (
        {
            "rest": "def update(self, sources, target, progress):\n    return {}\n",
            "init": "for p in self.parameters(): p.data.fill_(0.1)",
        },
        {"bits": "Another seed gives the same bits", "resume": "not the same bits"},
    ),
    "no update": (
        {"rest": "update = Method.update\n"}, {"declarations": "It has no update(self, sources, target, progress)"},
    ),
    "no probabilities": (
        {"rest": "probabilities = Method.probabilities\n"}, {"declarations": "It has no probabilities(self, images)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_named(tmp_path: Path, fault: str) -> None:
    parts, wanted = FAULTS[fault]
    found = findings(tmp_path, **parts)
    assert set(found) == set(wanted)
    for claim, words in wanted.items():
        assert words in found[claim]


DECLARED = {
    "standards = ()": "names no standard",
    "standards = ('multisource',)": "There is no standard 'multisource'; allowed: multi-source",
    "presets = {'x': {'weight': 1}}": "The preset 'x' cannot be: own has no hyper-parameter 'weight'",
    "ranges = {'weight': Range(0, 1)}": "tuned over 'weight', which is none of its hyper-parameters: lr_scale",
    "ranges = {'lr_scale': Range(2, 3)}": "The default of lr_scale, 1.0, lies outside the range",
}


@pytest.mark.parametrize("line", DECLARED)
def test_what_is_declared_and_is_not_there_is_named(tmp_path: Path, line: str) -> None:
    assert DECLARED[line] in findings(tmp_path, rest=line + "\n")["declarations"]


def test_a_standard_in_which_it_fails_is_named(tmp_path: Path) -> None:
    lines = "assert len(sources) > 1, 'one source'"
    found = findings(tmp_path, loop=True, update=lines, rest="standards = ('multi-source', 'combined')\n")
    assert set(found) == {"standards"}
    assert found["standards"] == "In the standard combined its run fails: AssertionError: one source (own.py:24)."


# -- what does not wait ------------------------------------------------------------------------------------------------


def test_what_no_gpu_waits_for_is_passed_over() -> None:
    found: dict[str, str] = {}
    weight = torch.nn.Parameter(torch.ones(3, 3))
    optimiser = torch.optim.Adam([weight], fused=False, foreach=False)
    with watching(found):
        loss = (weight @ F.one_hot(torch.tensor([0, 2]), 3).float().T).square().sum()
        loss.backward()
        optimiser.step()  # reads its own count, which is on the host
        loss.to(weight.device)  # the host only here
        loss.detach().to("cpu", non_blocking=True)
        weight.repeat_interleave(2, 0), weight.repeat_interleave(torch.tensor([1, 0, 2]), 0, output_size=3)
    assert found == {}


def test_a_difference_is_named_by_its_path() -> None:
    a = {"x": [1, {"y": torch.zeros(2)}], "z": float("nan")}
    assert difference(a, {"x": [1, {"y": torch.zeros(2)}], "z": float("nan")}) == ""
    assert difference(a, {"x": [1, {"y": torch.ones(2)}], "z": float("nan")}) == "x.1.y"
    assert difference(a, {"x": [1], "z": float("nan")}) == "x"
    assert difference(a, {"x": 1}) == "z"
    assert difference(torch.zeros(2), torch.zeros(2, dtype=torch.float64)) == "the whole"


# -- on the command line -----------------------------------------------------------------------------------------------


def test_the_command_says_what_is_wrong_and_with_which_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings(tmp_path, update="float(loss)")
    monkeypatch.chdir(tmp_path)
    assert main(["methods", "check", "own.py:Own", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["holds"] is False
    assert [f["claim"] for f in document["findings"]] == list(CLAIMS)
    (wrong,) = (f for f in document["findings"] if f["wrong"])
    assert wrong["claim"] == "waits"
    findings(tmp_path, update="raise ValueError('so be it')")
    assert main(["methods", "check", "own.py:Own"]) == 1
    said = capsys.readouterr().out
    assert "  WRONG  Every update gives finite 0-d terms" in said
    assert "         It does not train: ValueError: so be it (own.py:24)." in said
    assert "2 of 4 claims do not hold" in said


@pytest.mark.parametrize(
    "words, sentence",
    [
        ("new", "Say which. Type: python -m benchmark methods new my-method"),
        ("check", "Say which. Type: python -m benchmark methods check my_method.py:MyMethod"),
        ("chekc own.py:Own", "There is no question about methods 'chekc'. Did you mean 'check'?"),
        ("new ../own", "A method's name is letters and digits, words joined by -, not '../own'."),
        ("new dann", "There is a method dann already"),
        ("new random", "A file random.py here would stand in the way of what Python calls random."),
        ("new none", "A file none.py here would stand in the way"),
        ("new there", "there.py is there already, and nothing is written over it."),
        ("check own.py", "Say which class of own.py is the method"),
        ("check own.py:Own", "the method file own.py does not exist"),
        ("check dann:no", "There is no preset of dann 'no'"),
    ],
)
def test_what_cannot_be_started_or_checked_is_answered_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").write_text("mine")
    assert main(["methods", *words.split()]) == 2
    assert sentence in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["there.py"]
    assert (tmp_path / "there.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["my-method", "my_method", "MyMethod"])
def test_a_new_method_has_its_name_in_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["methods", "new", name]) == 0
    cls = load_method("my_method.py:MyMethod")
    assert (cls.name, cls.title, cls.HParams.__name__) == ("my-method", "MyMethod", "MyMethodHParams")
    assert "emplate" not in (tmp_path / "my_method.py").read_text(encoding="utf-8")
