"""What the replays are made of: a small network, batch normalisation, Adam and the usual losses, as formulas.

A replay writes one method's algorithm down a second time, from the formulas of its paper and the order of its updates,
in plain loops and double precision, and runs it on the same images from the same initial weights as the method of this
repository. After the last update every parameter and every batch-norm statistic must agree within `TOLERANCE`.

Nothing here is taken from `methods`: no loss, no optimiser, no fused pass. Gradients come from autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.run.networks import BatchNorm1d, Extractor, NormPoolReLU
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, build_hparams, load_method

TOLERANCE = 1e-9  # largest difference in any number; rounding alone leaves 1e-16 to 1e-11 (Adam divides by ‖g‖ + 1e-8)
UPDATES = 5  # of methods without stages
CLASSES, CHANNELS, HIDDEN, FEATURES = 4, 4, 8, 6
RATE, HEAD_RATE, DECAY = 0.01, 0.02, 5e-3  # of extractors, of everything else; two rates, so that a mix-up is seen


# -- ours: the method under test, in double precision and without dropout ------------------------------------------


def network() -> Extractor:
    """images (N, 3, 6, 6) → (N, 6): the digit network's kinds of layers, its dropout left out."""
    trunk = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, padding=1), NormPoolReLU(CHANNELS), nn.Flatten())
    trunk.extend([nn.Linear(9 * CHANNELS, HIDDEN), BatchNorm1d(HIDDEN), nn.ReLU()])
    last = nn.Sequential(nn.Linear(HIDDEN, FEATURES), BatchNorm1d(FEATURES), nn.ReLU())
    return Extractor(trunk, last, HIDDEN, FEATURES)


def pair(name: str, preset: str = "", sources: int = 1, budget: int = UPDATES, **changes: Any) -> tuple[Any, Plain]:
    """The method, and the tensors of its replay: equal at the start."""
    cls = load_method(name)
    task = Task(
        num_classes=CLASSES,
        num_sources=sources,
        network=NetworkSpec(),
        optimiser=OptimiserSpec(lr={"extractor": RATE, "classifier": HEAD_RATE}, weight_decay=DECAY),
        budget=budget,
        seed=0,
        batch_size=8,
        extractor_factory=network,
    )
    method = cls(task, build_hparams(cls, cls.presets[preset] if preset else {}, changes)).double()
    # β = 0 before a layer that takes means off has the gradient 0 ± rounding, which Adam would make a step of any size
    g = torch.Generator().manual_seed(0)
    for part in method.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5, generator=g)
            nn.init.normal_(part.bias, 0, 0.5, generator=g)
    return method, Plain(method)


def batches(t: int, sizes: Sequence[int], target: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
    """Images of update t: domain m has an offset and a contrast of its own, each class its own mean."""
    g = torch.Generator().manual_seed(t)
    centres = torch.randn(CLASSES, 3, 6, 6, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    drawn = []
    for m, size in enumerate([*sizes, target]):
        labels = torch.randint(CLASSES, (size,), generator=g)
        noise = torch.randn(size, 3, 6, 6, generator=g, dtype=torch.float64)
        drawn.append(LabeledBatch((1 + 0.3 * m) * centres[labels] + noise + 0.5 * m, labels))
    return drawn[:-1], UnlabeledBatch(drawn[-1].images)


class Once(FullPass):
    """A full pass over a domain that is handed out in the given batches."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def __iter__(self) -> Any:
        return iter(self.parts)

    def __len__(self) -> int:
        return sum(len(part.images) for part in self.parts)


# -- the replay's network and optimiser ----------------------------------------------------------------------------


class Plain:
    """A method's tensors by name, in double precision; layers are functions of a name, Adam is written out."""

    def __init__(self, method: Method) -> None:
        self.trained = {name for name, _ in method.named_parameters()}
        self.w: dict[str, Tensor] = {}
        for name, value in nn.Module.state_dict(method).items():
            self.w[name] = value.detach().clone().contiguous().requires_grad_(name in self.trained)
        self.start = {name: value.detach().clone() for name, value in self.w.items()}
        self.adam: dict[str, tuple[int, Tensor, Tensor]] = {}

    def linear(self, name: str, x: Tensor) -> Tensor:
        """y = W x + b; without b where the layer has none."""
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def convolution(self, name: str, x: Tensor) -> Tensor:
        """3×3, zeros around: y_o(r, c) = b_o + Σ_i Σ_ab W_oi(a, b) x_i(r + a − 1, c + b − 1)."""
        weight, (n, _, rows, columns) = self.w[f"{name}.weight"], x.shape
        padded = x.new_zeros(n, x.shape[1], rows + 2, columns + 2)
        padded[:, :, 1:-1, 1:-1] = x
        y = self.w[f"{name}.bias"].view(1, -1, 1, 1)
        for a in range(3):
            for b in range(3):
                y = y + torch.einsum("oi,nirc->norc", weight[:, :, a, b], padded[:, :, a : a + rows, b : b + columns])
        return y

    def normalise(self, name: str, x: Tensor, training: bool, track: bool) -> Tensor:
        """γ (x − μ) / √(σ² + 1e-5) + β over all but channels. In training μ, σ² are the batch's (σ² biased), and with
        `track` the running ones become 0.9 of themselves + 0.1 of the batch's (σ² unbiased)."""
        shape = (1, -1, *([1] * (x.dim() - 2)))
        mean, variance = self.w[f"{name}.running_mean"], self.w[f"{name}.running_var"]
        if training:
            number = x.numel() // x.shape[1]
            axes = [0, *range(2, x.dim())]
            batch_mean = x.sum(axes) / number
            batch_variance = ((x - batch_mean.view(shape)) ** 2).sum(axes) / number
            if track:
                unbiased = batch_variance.detach() * number / (number - 1)
                self.w[f"{name}.running_mean"] = 0.9 * mean + 0.1 * batch_mean.detach()
                self.w[f"{name}.running_var"] = 0.9 * variance + 0.1 * unbiased
            mean, variance = batch_mean, batch_variance
        centred = (x - mean.view(shape)) / (variance.view(shape) + 1e-5).sqrt()
        return self.w[f"{name}.weight"].view(shape) * centred + self.w[f"{name}.bias"].view(shape)

    def trunk(self, name: str, x: Tensor, training: bool = True, track: bool = True) -> Tensor:
        """Convolution, batch norm, ReLU, then pooling, as the papers' networks have it; linear, batch norm, ReLU."""
        x = relu(self.normalise(f"{name}.trunk.1", self.convolution(f"{name}.trunk.0", x), training, track))
        x = pooled(x).reshape(len(x), -1)
        return relu(self.normalise(f"{name}.trunk.4", self.linear(f"{name}.trunk.3", x), training, track))

    def block(self, name: str, x: Tensor, training: bool = True, track: bool = True) -> Tensor:
        """Linear, batch norm, ReLU: the extractor's last part."""
        return relu(self.normalise(f"{name}.1", self.linear(f"{name}.0", x), training, track))

    def extract(self, name: str, x: Tensor, training: bool = True, track: bool = True) -> Tensor:
        """Features of the images of ONE domain."""
        return self.block(f"{name}.last", self.trunk(name, x, training, track), training, track)

    def scores(self, name: str, x: Tensor) -> Tensor:
        """A discriminator of two hidden layers with ReLU, one number a row: (N, F) → (N,)."""
        for layer in (0, 2):
            x = relu(self.linear(f"{name}.{layer}", x))
        return self.linear(f"{name}.4", x)[:, 0]

    def copy(self, before: str, after: str) -> None:
        """A module's tensors over another's."""
        for name in [n for n in self.w if n.startswith(f"{before}.")]:
            copied = after + name[len(before) :]
            self.w[copied] = self.w[name].detach().clone().requires_grad_(copied in self.trained)

    def step(
        self, *moves: tuple[str, Tensor, float], betas: tuple[float, float] = (0.9, 0.999), decay: float = DECAY
    ) -> None:
        """One Adam step of each (module, its loss, its rate): all gradients first, then all parameters.

        g ← ∇L + decay·w;  m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²;
        w ← w − rate · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + 1e-8), t counted for each parameter.
        """
        gradients = []
        for module, loss, rate in moves:
            names = sorted(n for n in self.trained if n.startswith(f"{module}."))
            found = torch.autograd.grad(loss, [self.w[n] for n in names], retain_graph=True, allow_unused=True)
            gradients += [(n, g, rate) for n, g in zip(names, found, strict=True) if g is not None]
        for name, gradient, rate in gradients:
            w = self.w[name].detach()
            t, m, v = self.adam.get(name, (0, torch.zeros_like(w), torch.zeros_like(w)))
            g = gradient + decay * w
            t, m, v = t + 1, betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
            move = m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + 1e-8)
            self.adam[name], self.w[name] = (t, m, v), (w - rate * move).requires_grad_(True)


# -- functions -----------------------------------------------------------------------------------------------------


def relu(x: Tensor, slope: float = 0.0) -> Tensor:
    return torch.where(x > 0, x, slope * x)


def pooled(x: Tensor) -> Tensor:
    """The largest of each 3×3 window, every second one, one row and column of padding: (N, C, 6, 6) → (N, C, 3, 3)."""
    rows = []
    for r in range(0, x.shape[2], 2):
        windows = [
            x[:, :, max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2].flatten(2).max(2).values
            for c in range(0, x.shape[3], 2)
        ]
        rows.append(torch.stack(windows, 2))
    return torch.stack(rows, 2)


def mean(values: Iterable[Tensor]) -> Tensor:
    values = list(values)
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total / len(values)


def softmax(z: Tensor) -> Tensor:
    e = z.exp()
    return e / e.sum(1, keepdim=True)


def cross_entropy(z: Tensor, labels: Tensor) -> Tensor:
    """mean_i [log Σ_c exp z_ic − z_i,y_i]."""
    return mean(row.exp().sum().log() - row[int(y)] for row, y in zip(z, labels, strict=True))


def minus_log_sigmoid(s: Tensor) -> Tensor:
    """mean −log D, D = 1 / (1 + e^−s); of −s it is mean −log(1 − D)."""
    return mean((1 + (-value).exp()).log() for value in s)


def ramp(progress: float) -> float:
    """λ_p = 2 / (1 + e^(−10 p)) − 1."""
    return 2 / (1 + 2.718281828459045 ** (-10 * progress)) - 1


def disagreement(p: Tensor, q: Tensor) -> Tensor:
    """mean over samples and classes of |p − q|."""
    return mean(abs(p[i, c] - q[i, c]) for i in range(len(p)) for c in range(p.shape[1]))


# -- kernels, sample by sample -------------------------------------------------------------------------------------


def squared_distance(u: Tensor, v: Tensor) -> Tensor:
    return ((u - v) ** 2).sum()


def mean_squared_distance(rows: Sequence[Tensor]) -> Tensor:
    """Over all pairs i < j of the joint batch, no gradient: the b of the kernels' bandwidths."""
    with torch.no_grad():
        return mean(squared_distance(rows[i], rows[j]) for j in range(len(rows)) for i in range(j))


def five_gaussians(u: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """Σ exp(−‖u − v‖² / (b · 2^e)), e = −2 … 2."""
    d = squared_distance(u, v)
    return mean([(-d / (b * 2.0**e)).exp() for e in range(-2, 3)]) * 5


def mmd(x: Sequence[Any], y: Sequence[Any], kernel: Any, estimator: str = "biased") -> Tensor:
    """MMD² of two samples from k(x, x'), k(y, y'), k(x, y): all pairs; without i = j; or disjoint pairs of rows."""
    if estimator == "linear":
        n = max(len(x), len(y))
        x, y = [x[i % len(x)] for i in range(n)], [y[i % len(y)] for i in range(n)]
        pairs = [(x[i], x[i + 1], y[i], y[i + 1]) for i in range(0, n - 1, 2)]
        return mean(kernel(a, b) + kernel(c, d) - kernel(a, d) - kernel(b, c) for a, b, c, d in pairs)
    within = []
    for sample in (x, y):
        n, same = len(sample), estimator == "biased"
        within.append(mean(kernel(sample[i], sample[j]) for i in range(n) for j in range(n) if same or i != j))
    return within[0] + within[1] - 2 * mean(kernel(u, v) for u in x for v in y)


# -- the comparison ------------------------------------------------------------------------------------------------


def differences(method: Method, plain: Plain) -> tuple[float, float]:
    """Largest absolute difference in any parameter, and in any other tensor: batch-norm statistics, buffers."""
    largest = {True: 0.0, False: 0.0}
    for name, value in nn.Module.state_dict(method).items():
        if not name.endswith("num_batches_tracked"):  # a count that nothing reads while momentum is a number
            apart = float((value.double() - plain.w[name].detach()).abs().max())
            largest[name in plain.trained] = max(largest[name in plain.trained], apart)
    return largest[True], largest[False]


def agree(method: Method, plain: Plain, what: str, moved: Sequence[str]) -> None:
    """Every parameter and every statistic within TOLERANCE, after training that moved each of these modules."""
    for module in moved:
        names = [n for n in plain.trained if n.startswith(f"{module}.")]
        distance = max(float((plain.w[n].detach() - plain.start[n]).abs().max()) for n in names)
        assert distance > 1e-4, f"{module} did not move: its replay shows nothing"
    parameters, statistics = differences(method, plain)
    print(f"{what}: parameters {parameters:.1e}, statistics {statistics:.1e}")  # pytest -rP shows it
    assert parameters <= TOLERANCE
    assert statistics <= TOLERANCE
