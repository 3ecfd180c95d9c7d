"""T-SVDNet as its released code trains it, written down a second time: one pass a domain, one loop a sum, float64.

Nothing here comes from `tsvdnet/` or `benchmark/`: the network is built of torch's layers, Adam and SGD are written out,
the tensor is decomposed slice by slice by numpy over the full spectrum. One `iteration` in the order of the release:
forward passes, pseudo labels, prototypes, G, losses, one step of all parameters, then A and η.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

BETA = 0.5  # of the old prototype
GAMMA = 0.05
RHO = 1.1
PERIOD = 16  # iterations of an epoch between two A-steps
COUNT_EPSILON, LOG_EPSILON, SIGMA_EPSILON = 1e-5, 1e-8, 1e-5


def network(conv: int, last_conv: int, hidden: int, features: int) -> nn.Sequential:
    """3Conv-2FC without its dropout: 3×32×32 → features."""
    layers: list[nn.Module] = []
    for inputs, outputs, pool in ((3, conv, True), (conv, conv, True), (conv, last_conv, False)):
        layers += [nn.Conv2d(inputs, outputs, 5, stride=1, padding=2), nn.BatchNorm2d(outputs), nn.ReLU()]
        if pool:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    layers.append(nn.Flatten())
    for inputs, outputs in ((64 * last_conv, hidden), (hidden, features)):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers).double()


class Adam:
    """Adam with L2 decay in the gradient."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, decay: float) -> None:
        self.parameters, self.lr, self.decay, self.t = list(parameters), lr, decay, 0
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        self.t += 1
        for p, gradient, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            g = gradient + self.decay * p
            m.copy_(0.9 * m + 0.1 * g)
            v.copy_(0.999 * v + 0.001 * g * g)
            p -= self.lr * (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)


class SGD(Adam):
    """Gradient descent with momentum 0.9 and L2 decay: it does not divide rounding by rounding as Adam does."""

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        for p, gradient, m in zip(self.parameters, gradients, self.first, strict=True):
            m.copy_(0.9 * m + gradient + self.decay * p)
            p -= self.lr * m


class Released:
    """State of the released training function: two modules, prototypes, G and A by domain, η."""

    def __init__(
        self, extractor: nn.Module, classifier: nn.Module, optimiser: Adam, *, classes: int, sources: int, features: int,
        lam: float, eta: float, eta_max: float, max_entropy: float,
    ) -> None:  # fmt: skip
        self.extractor, self.classifier, self.optimiser = extractor, classifier, optimiser
        self.classes, self.sources, self.features = classes, sources, features
        self.lam, self.eta, self.eta_max, self.max_entropy = lam, eta, eta_max, max_entropy
        self.prototypes = [torch.zeros(classes, features).double() for _ in range(sources + 1)]
        self.G = [torch.zeros(classes, classes).double() for _ in range(sources + 1)]
        self.A = [torch.zeros(classes, classes).double() for _ in range(sources + 1)]
        self.confident: list[int] = []  # target images with a pseudo label, by iteration

    def iteration(self, images: Sequence[Tensor], labels: Sequence[Tensor], number: int) -> None:
        """Images of the sources and of the target, labels of the sources; `number` counts from 0 in every epoch."""
        features = []
        for x in images:
            f = self.extractor(x)
            features.append(f / f.square().sum(1, keepdim=True).sqrt())
        logits = [self.classifier(f) for f in features]

        sure, pseudo = [], []
        for i, p in enumerate(logits[-1].detach().softmax(1).tolist()):
            if -sum(q * math.log(q) for q in p) < self.max_entropy:
                sure.append(i)
                pseudo.append(p.index(max(p)))
        self.confident.append(len(sure))

        for d in range(self.sources):
            self.prototypes[d] = self.averaged(self.prototypes[d], features[d], labels[d].tolist())
        if sure:
            self.prototypes[-1] = self.averaged(self.prototypes[-1], features[-1][sure], pseudo)
        for d, f in enumerate(self.prototypes):
            if d < self.sources or f.detach().abs().sum() > 0:
                self.G[d] = self.similarity(f)

        loss = torch.zeros(()).double()
        for d in range(self.sources):
            loss = loss + F.cross_entropy(self.classifier(self.prototypes[d]), torch.arange(self.classes))
            loss = loss + F.cross_entropy(logits[d], labels[d])
        if sure:
            p = self.classifier(features[-1][sure]).softmax(1)
            loss = loss - (p * torch.log(p + LOG_EPSILON)).mean()
        if self.prototypes[-1].detach().abs().sum() > 0:
            for g, a in zip(self.G, self.A, strict=True):
                loss = loss + self.eta / 2 * (g - a).square().sum()
        self.optimiser.step(torch.autograd.grad(loss, self.optimiser.parameters))

        self.prototypes = [f.detach() for f in self.prototypes]
        self.G = [g.detach() for g in self.G]
        if number % PERIOD == 0:
            self.shrink()
            self.eta = min(RHO * self.eta, self.eta_max)

    def averaged(self, old: Tensor, features: Tensor, labels: Sequence[int]) -> Tensor:
        """0.5·old + 0.5·mean for the classes of the batch; a class whose mean sums to zero counts as absent."""
        rows = []
        for c in range(self.classes):
            members = [features[i] for i, y in enumerate(labels) if y == c]
            total = torch.zeros(self.features).double()
            for f in members:
                total = total + f
            mean = total / (len(members) + COUNT_EPSILON)
            absent = float(mean.detach().sum()) == 0.0
            rows.append(old[c] if absent else BETA * old[c] + (1 - BETA) * mean)
        return torch.stack(rows)

    def similarity(self, f: Tensor) -> Tensor:
        """exp(−mean over features of the squared difference / (2γ²)), row by row."""
        return torch.stack([torch.exp(-(own - f).square().mean(1) / (2 * GAMMA**2)) for own in f])

    def shrink(self) -> None:
        """A from the rotated G: frequencies 0 … ⌊n3/2⌋+1, one too many, each written with its conjugate."""
        stacked = np.stack([g.numpy() for g in self.G], axis=2)
        spectrum = np.fft.fft(stacked.transpose(1, 2, 0), axis=2)
        n3 = spectrum.shape[2]
        for k in range(n3 // 2 + 2):
            u, sigma, vh = np.linalg.svd(spectrum[:, :, k], full_matrices=False)
            for i, s in enumerate(sigma):
                sigma[i] = max(0.0, s - self.lam / self.eta * n3 / (s + SIGMA_EPSILON))
            spectrum[:, :, k] = u @ np.diag(sigma) @ vh
            if k > 0:
                spectrum[:, :, n3 - k] = spectrum[:, :, k].conj()
        a = np.fft.ifft(spectrum, axis=2).real.transpose(2, 0, 1)
        self.A = [torch.from_numpy(a[:, :, d].copy()) for d in range(a.shape[2])]
