"""The evaluator: the only place where the target's labels live.

At each evaluation point it scores the target test set exactly once an image, the held-out source images, the label-free
validators, the pseudo labels of the last updates, and the probes that compare all methods with one kernel: twice, with
the batch-norm statistics of the training loop and with those of target training images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark.data.base import Dataset, ImageSet, send
from benchmark.data.batches import batch_index, hold_out
from benchmark.run.score import validators
from benchmark.run.score.statistics import target_statistics
from benchmark.spec import RunSpec, TierSettings
from benchmark.spec.seeds import seed_of
from methods.contract import Method
from tsvdnet.prototypes import gaussian_similarity
from tsvdnet.tensor import rotate, tensor_nuclear_norm

PROBE_IMAGES = 200  # a domain, at evaluation points
DEV_IMAGES = 200  # held-out images of each source that DEV weighs
STATISTICS_PART = 125  # images whose batch statistics are taken together; the parts are averaged
ARTIFACT_IMAGES = 300  # a domain, at the end
EFFECTIVE_GAMMA = 0.05 * 2048**0.5  # the released kernel on unit features, whatever the width (2.263)
NOISE = (0.0, 0.1, 0.5, 1.0)  # r of the paper's uncertainty figure


class Evaluator:
    """Scores a method; made once a run."""

    def __init__(
        self,
        dataset: Dataset,
        spec: RunSpec,
        settings: TierSettings,
        device: torch.device,
        num_classes: int,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._data, self._spec, self._settings, self._device = dataset, spec, settings, device
        self.num_classes, self._pause = num_classes, pause  # called before each batch: a stop need not wait for the end
        self._target = dataset.domains[spec.target]
        self._held = {s: self._held_out(s) for s in spec.sources if s != spec.target or len(spec.sources) == 1}
        pool, _ = hold_out(len(self._target.train), settings.val_images, spec.target)
        self._unsup = _sample(pool, settings.unsup_images, "unsup", spec.target)
        self._statistics = _sample(pool, settings.statistics_images, "statistics", spec.target)
        self._target_pool = pool

    def _held_out(self, id: str) -> ImageSet:
        train = self._data.domains[id].train
        return train.subset(hold_out(len(train), self._settings.val_images, id)[1])

    def row(self, method: Method) -> dict[str, Any]:
        """The scores of one evaluation point, from the same weights with the loop's statistics and with the target's."""
        scores = self.scores(method)
        with target_statistics(method, self.statistics_batches()) as changed:
            other = self.scores(method) if changed else scores
        return {**scores, "statistics": {"target": other}}

    def scores(self, method: Method) -> dict[str, Any]:
        """The label-dependent and label-free scores of a method as it stands."""
        correct, total = self._score(self._predictions(method, self._target.test), self._target.test)
        held = {id: self._predictions(method, images) for id, images in self._held.items()}
        right = [self._score(p, self._held[id]) for id, p in held.items()]
        p = torch.cat([method.predict(x) for x in self._batches(self._target.train, self._unsup)]).double()
        return {
            "target": 100.0 * int(correct.sum()) / int(total.sum()),
            "per_class": [100.0 * int(c) / int(n) if n else None for c, n in zip(correct, total, strict=True)],
            "source_val": 100.0 * sum(int(c.sum()) for c, _ in right) / sum(int(n.sum()) for _, n in right),
            "unsup": validators.mutual_information(p),
            "snd": validators.neighbourhood_density(p),
            "bnm": validators.nuclear_norm(p),
            "dev": self._dev_score(method, held),
            "probes": self.probes(method),
        }

    def _predictions(self, method: Method, images: ImageSet) -> Tensor:
        """(N,) the most probable class of each image, exactly once an image."""
        return torch.cat([method.predict(x).argmax(1) for x in self._batches(images)]).cpu()

    def _score(self, predicted: Tensor, images: ImageSet) -> tuple[Tensor, Tensor]:
        """Correct predictions and images by class."""
        total = torch.bincount(images.labels, minlength=self.num_classes)
        return torch.bincount(images.labels[predicted == images.labels], minlength=self.num_classes), total

    def _batches(self, images: ImageSet, places: Tensor | None = None) -> Iterator[Tensor]:
        order = torch.arange(len(images)) if places is None else places
        for part in order.split(250):
            self._pause()
            yield self._data.preprocess.eval(images.take(part), self._device)

    def statistics_batches(self) -> Iterator[Tensor]:
        """The target training images that statistics at test are estimated on, in parts of equal size. No label is read."""
        count = max(1, len(self._statistics) // STATISTICS_PART)
        size = len(self._statistics) // count
        for part in self._statistics[: size * count].split(size):
            self._pause()
            yield self._data.preprocess.eval(self._target.train.take(part), self._device)

    def _dev_score(self, method: Method, held: Mapping[str, Tensor]) -> float | None:
        """−(the target's risk, estimated from held-out source images by importance weights); None without features."""
        features, errors = [], []
        for id, predicted in held.items():
            images = self._held[id]
            places = _sample(torch.arange(len(images)), DEV_IMAGES, "dev", id)
            features.append(self._embedded(method, images, places))
            errors.append((predicted[places] != images.labels[places]).double())
        features.append(self._embedded(method, self._target.train, self._unsup))
        if any(f is None for f in features):
            return None
        *sources, target = [f for f in features if f is not None]
        weights = validators.importance(torch.cat(sources), target, seed_of("dev"))
        return -validators.weighted_risk(torch.cat(errors), weights)

    def pseudo(self, labels: Tensor, t: int) -> Tensor:
        """(3,) batch size, assigned, correct: pseudo labels of batch t of the target against the truth."""
        place = batch_index(len(self._target_pool), len(labels), self._spec.target, self._spec.seed, t)
        truth = send(self._target.train.labels[self._target_pool[place]], labels.device)
        given = labels >= 0
        return torch.stack([torch.ones_like(given).sum(), given.sum(), (given & (labels == truth)).sum()])

    # -- probes: computed by the loop, alike for every method ------------------------------------------------------

    def probes(self, method: Method) -> dict[str, Any]:
        """Class means of every domain → similarity matrices → tensor nuclear norms; empty without features."""
        tensor = self.similarities(method)
        if tensor is None:
            return {}
        stack = torch.stack(list(tensor.values()), dim=2)
        target = stack[:, :, -1]
        others = [_correlation(stack[:, :, i], target) for i in range(stack.shape[2] - 1)]
        return {
            "tnn_rotated": float(tensor_nuclear_norm(rotate(stack))),
            "tnn_unrotated": float(tensor_nuclear_norm(stack)),
            "similarity_to_target": float(np.mean(others)) if others else 1.0,
        }

    def similarities(self, method: Method) -> dict[str, Tensor] | None:
        """(C, C) of each domain, target last: Gaussian similarity of class means of unit features, one kernel for all."""
        found: dict[str, Tensor] = {}
        for id in self._domains():
            features = self._features(method, id, PROBE_IMAGES)
            if features is None:
                return None
            f, labels = features
            unit = torch.nn.functional.normalize(f.double(), dim=1)
            onehot = torch.nn.functional.one_hot(labels, self.num_classes).double()
            means = (onehot.T @ unit) / onehot.sum(0).clamp(min=1)[:, None]
            found[id] = gaussian_similarity(means, EFFECTIVE_GAMMA, reduction="sum")
        return found

    def _domains(self) -> list[str]:
        return [*(s for s in self._spec.sources if s != self._spec.target), self._spec.target]

    def _features(self, method: Method, id: str, count: int) -> tuple[Tensor, Tensor] | None:
        test = self._data.domains[id].test
        places = _sample(torch.arange(len(test)), count, "probe", id)
        found = self._embedded(method, test, places)
        return None if found is None else (found, test.labels[places])

    def _embedded(self, method: Method, images: ImageSet, places: Tensor) -> Tensor | None:
        """(N, F) features of the images at `places`, on the CPU; None for a method without a single feature space."""
        parts = [method.features(x) for x in self._batches(images, places)]
        return None if any(p is None for p in parts) else torch.cat([p.cpu() for p in parts if p is not None])

    def artifacts(self, method: Method) -> dict[str, np.ndarray]:
        """What the figures need, small: features and labels, similarity matrices, σ by sample and under noise."""
        found: dict[str, np.ndarray] = {}
        similarities = self.similarities(method) or {}
        for id in self._domains():
            features = self._features(method, id, ARTIFACT_IMAGES)
            if features is not None:
                found[f"features_{id}"] = (
                    features[0].clamp(-6e4, 6e4).numpy().astype(np.float16)
                )  # float16 ends at 65504
                found[f"labels_{id}"] = features[1].numpy().astype(np.int16)
                found[f"similarity_{id}"] = similarities[id].float().numpy()
            sigma = self._sigma(method, id, 0.0)
            if sigma is not None:
                found[f"sigma_{id}"] = sigma
        noisy = self._spec.sources[0]
        if f"sigma_{noisy}" in found:
            found["noise_domain"] = np.array(noisy)
            for r in NOISE:
                sigma = self._sigma(method, noisy, r)
                assert sigma is not None
                found[f"sigma_noise_{r:g}"] = sigma
        return found

    def _sigma(self, method: Method, id: str, r: float) -> np.ndarray | None:
        """σ of test images with noise r·ε, ε ~ N(0, I) added to the normalised image (no clipping; the paper is silent)."""
        test = self._data.domains[id].test
        places = _sample(torch.arange(len(test)), ARTIFACT_IMAGES, "probe", id)
        generator = torch.Generator().manual_seed(seed_of("noise", id))
        parts = []
        for x in self._batches(test, places):
            noise = torch.randn(x.shape, generator=generator).to(x.device)
            sigma = method.sigma(x + r * noise)
            if sigma is None:
                return None
            parts.append(sigma.cpu())
        return torch.cat(parts).float().numpy()


def _sample(pool: Tensor, count: int, *key: str) -> Tensor:
    """At most `count` places of `pool`, seeded by name, in order."""
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed_of(*key)))
    return pool[order[:count].sort().values]


def _correlation(a: Tensor, b: Tensor) -> float:
    """Pearson correlation of the off-diagonal entries of two similarity matrices."""
    mask = ~torch.eye(len(a), dtype=torch.bool)
    x, y = a[mask] - a[mask].mean(), b[mask] - b[mask].mean()
    norm = float(x.norm() * y.norm())
    return float((x * y).sum()) / norm if norm > 0 else 0.0


def json_safe(value: Any) -> Any:
    """Tensors and numpy values as plain JSON; NaN and infinities as None, for they are not JSON."""
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(k): json_safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
