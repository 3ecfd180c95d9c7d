"""The loop as the papers' code writes it, for comparison: one pass for each domain, images through PIL one by one,
similarities entry by entry, the SVD slice by slice in numpy, losses read after every step.

Same mathematics as the preset `tsvdnet:code`; written for clarity of comparison, not for use.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torchvision import transforms

from benchmark.run.networks import NormPoolReLU


def load_one_by_one(images: np.ndarray, index: Tensor, size: int = 32) -> Tensor:
    """(B,) places → (B, 3, size, size) as a Dataset and its DataLoader give them: array → PIL → torchvision's transforms,
    image by image, then stacked."""
    transform = transforms.Compose(
        [transforms.Resize(size), transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]
    )
    found = []
    for i in index.tolist():
        picture = Image.fromarray(np.ascontiguousarray(images[i].transpose(1, 2, 0)))
        found.append(transform(picture.convert("RGB")))
    return torch.stack(found)


def papers_layers(extractor: nn.Module) -> nn.Module:
    """The digit network layer by layer as the papers' code has it: convolution, normalisation, ReLU, pooling."""
    layers = []
    for layer in extractor.trunk:
        if not isinstance(layer, NormPoolReLU):
            layers.append(layer)
            continue
        norm = nn.BatchNorm2d(layer.num_features)
        norm.load_state_dict(layer.state_dict())
        layers += [norm, nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    extractor.trunk = nn.Sequential(*layers)
    return extractor


class ReferenceTSVDNet:
    """`tsvdnet:code` with separate passes, loops, and numpy."""

    def __init__(
        self, extractor: nn.Module, classifier: nn.Module, *, classes: int, sources: int, eta: float = 1.0
    ) -> None:
        # plain weights: the usual memory order, the usual optimiser
        self.extractor = papers_layers(copy.deepcopy(extractor).to(memory_format=torch.contiguous_format))
        self.classifier = copy.deepcopy(classifier)
        self.classes, self.sources, self.eta, self.lam, self.iteration = classes, sources, eta, 1000.0, 0
        decay = {"lr": 5e-4, "weight_decay": 5e-4}
        self.optimisers = [torch.optim.Adam(m.parameters(), **decay) for m in (self.extractor, self.classifier)]
        width = extractor.feature_dim
        self.prototypes = [torch.zeros(classes, width) for _ in range(sources + 1)]
        self.A = [torch.zeros(classes, classes) for _ in range(sources + 1)]
        self.history: list[float] = []

    def step(self, images: list[Tensor], labels: list[Tensor], target: Tensor) -> float:
        features = [F.normalize(self.extractor(x)) for x in [*images, target]]
        logits = [self.classifier(f) for f in features]
        classification = sum(F.cross_entropy(out, y) for out, y in zip(logits, labels, strict=False))

        p = logits[-1].softmax(1)
        confident = -(p.detach() * p.detach().clamp(min=1e-12).log()).sum(1) < 0.7
        pseudo = p.argmax(1)
        entropy = (-(p * (p + 1e-8).log())[confident]).mean() if confident.any() else torch.zeros(())

        prototypes = []
        for d, f in enumerate(features):
            rows = []
            for c in range(self.classes):
                mask = (labels[d] == c) if d < self.sources else (confident & (pseudo == c))
                old = self.prototypes[d][c].detach()
                rows.append(0.5 * old + 0.5 * f[mask].mean(0) if mask.any() else old)
            prototypes.append(torch.stack(rows))
        domain = sum(
            F.cross_entropy(self.classifier(f), torch.arange(self.classes)) for f in prototypes[: self.sources]
        )

        G = []
        for f in prototypes:
            # the mean over 2048 dimensions, whatever the width: as our narrow networks have it
            distance = ((f[:, None] - f[None]) ** 2).sum(2) / 2048
            G.append(torch.exp(-distance / (2 * 0.05**2)))
        alm = sum(self.eta / 2 * ((g - a) ** 2).sum() for g, a in zip(G, self.A, strict=True))
        loss = classification + domain + entropy + (alm if bool(confident.any()) else 0)
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in self.optimisers:
            optimiser.step()
        if self.iteration % 16 == 0:
            self.shrink(G)
        self.prototypes = [f.detach() for f in prototypes]
        self.iteration += 1
        self.history.append(loss.item())
        return self.history[-1]

    def shrink(self, G: list[Tensor]) -> None:
        tensor = np.stack([g.detach().numpy() for g in G], axis=2).astype(np.float64).transpose(1, 2, 0)
        spectrum = np.fft.fft(tensor, axis=2)
        n3 = tensor.shape[2]
        for k in range(n3):
            u, s, vh = np.linalg.svd(spectrum[:, :, k], full_matrices=False)
            s = np.maximum(s - self.lam / self.eta * n3 / (s + 1e-5), 0)
            spectrum[:, :, k] = (u * s) @ vh
        a = np.fft.ifft(spectrum, axis=2).real.transpose(2, 0, 1)
        self.A = [torch.from_numpy(a[:, :, d]).float() for d in range(a.shape[2])]
