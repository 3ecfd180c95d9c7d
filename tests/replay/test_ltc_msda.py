"""LtC-MSDA: prototypes, their kernel, two graph convolutions over the whole extended matrix, five losses in one sum."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.replay.plain import (
    CLASSES,
    HEAD_RATE,
    RATE,
    UPDATES,
    Plain,
    agree,
    batches,
    cross_entropy,
    mean,
    pair,
    relu,
    softmax,
)

SIZES, TARGET = (8, 7, 9), 6
DOMAINS = len(SIZES) + 1
NODES = DOMAINS * CLASSES
BETA, GLOBAL, LOCAL = 0.7, 20.0, 0.01
ROWS = {
    "default": ("", {"sigma": 0.5, "max_entropy": 1.32}),
    "code": ("code", {"max_entropy": 1.2}),  # σ = .005: no edge
    "code, live": ("code", {"sigma": 0.5, "max_entropy": 1.2}),
}


def edge(x: Tensor, y: Tensor, sigma: float) -> Tensor:
    return (-mean((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * sigma**2)).exp()


def matrix(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row) for row in rows])


class Replay:
    """The state of the graph, and what one update does with it."""

    def __init__(self, plain: Plain, released: bool, sigma: float, max_entropy: float) -> None:
        self.plain, self.released, self.sigma, self.max_entropy = plain, released, sigma, max_entropy
        self.sure = 0  # pseudo labels given, of all updates

    def edges(self) -> list[tuple[int, int]]:
        seen = self.plain.w["seen"].flatten()
        return [(i, j) for i in range(NODES) for j in range(NODES) if i != j and seen[i] and seen[j]]

    def logits(self, queries: Tensor, back: bool) -> Tensor:
        """Z = Â ReLU(Â X W₁ + b₁) W₂ + b₂, X = [prototypes; queries]."""
        w, n = self.plain.w, len(queries)
        x = torch.cat([w["prototypes"].reshape(NODES, -1), queries])
        one, zero = queries.new_ones(()), queries.new_zeros(())
        rows = [[zero] * (NODES + n) for _ in range(NODES + n)]
        for i in range(NODES):
            for j in range(NODES):
                rows[i][j] = w["adjacency"][i, j]
            for q in range(n):
                known = self.released or bool(w["seen"].flatten()[i])
                rows[NODES + q][i] = edge(x[i], queries[q], self.sigma) if known else zero
                if back:
                    rows[i][NODES + q] = rows[NODES + q][i]
        for q in range(n):
            rows[NODES + q][NODES + q] = one
        a = matrix(rows)
        if not self.released:
            a = a / a.sum(1, keepdim=True)
        hidden = relu(a @ (x @ w["gcn.first.weight"]) + w["gcn.first.bias"])
        return a @ (hidden @ w["gcn.second.weight"]) + w["gcn.second.bias"]

    def confident(self, z: Tensor) -> list[int]:
        found = []
        for p in softmax(z.detach()):
            unsure = -sum(float(v) * math.log(float(v)) for v in p)
            found.append(int(p.argmax()) if unsure < self.max_entropy else -1)
        self.sure += sum(y >= 0 for y in found)
        return found

    def update(self, sources: list[Any], target: Any) -> None:
        w, labelled = self.plain.w, sum(SIZES)
        parts = [self.plain.extract("extractor", batch.images) for batch in (*sources, target)]
        queries = torch.cat(parts)
        if self.released:
            z = self.logits(queries, back=True)
            pseudo = self.confident(z[NODES + labelled :])
        else:
            pseudo = self.confident(self.logits(parts[-1].detach(), back=False)[NODES:])
        labels = [*([int(y) for y in batch.labels] for batch in sources), pseudo]

        rows, local = [], 0
        for d in range(DOMAINS):
            for c in range(CLASSES):
                old = w["prototypes"][d, c].detach()
                mine = [parts[d][i] for i, y in enumerate(labels[d]) if y == c]
                if not mine:
                    rows.append(old)
                    continue
                centre = sum(mine) / (len(mine) + 1e-5)
                rows.append(BETA * old + (1 - BETA) * centre)
                w["seen"][d, c] = 1
                local = local + ((centre - rows[-1]) ** 2).sum() / len(centre)
        local = local / (labelled + sum(y >= 0 for y in pseudo))
        one = queries.new_ones(())
        a = matrix(
            [[one if i == j else edge(rows[i], rows[j], self.sigma) for j in range(NODES)] for i in range(NODES)]
        )
        relations = self.relations(a)

        w["prototypes"] = torch.stack(rows).detach().view(DOMAINS, CLASSES, -1)
        w["adjacency"] = a.detach().clone()
        if not self.released:
            linked = set(self.edges())
            for i in range(NODES):
                for j in range(NODES):
                    if i != j and (i, j) not in linked:
                        w["adjacency"][i, j] = 0
            z = self.logits(queries, back=False)

        nodes = [i for i in range(NODES) if self.released or bool(w["seen"].flatten()[i])]
        domain = mean(cross_entropy(z[i : i + 1], torch.tensor([i % CLASSES])) for i in nodes)
        source = cross_entropy(z[NODES : NODES + labelled], torch.tensor([y for d in labels[:-1] for y in d]))
        p = softmax(z[NODES + labelled :])
        unsure = mean(-v * (v + 1e-8).log() for row in p for v in row)
        loss = source + domain + unsure + GLOBAL * relations + LOCAL * local
        self.plain.step(("extractor", loss, RATE), ("gcn", loss, HEAD_RATE))
        self.tell(relations, pseudo)

    def relations(self, a: Tensor) -> Tensor:
        """2/(3 D (D−1) C²) Σ of three squares, over ordered pairs of domains and pairs of classes."""
        total, seen = 0, self.plain.w["seen"]
        for i in range(DOMAINS):
            for j in range(DOMAINS):
                for c in range(CLASSES):
                    for k in range(CLASSES):
                        if not self.released and not (seen[i, c] * seen[i, k] * seen[j, c] * seen[j, k]):
                            continue
                        ii, jj = a[i * CLASSES + c, i * CLASSES + k], a[j * CLASSES + c, j * CLASSES + k]
                        ij = a[i * CLASSES + c, j * CLASSES + k]
                        total = total + (ii - jj) ** 2 + (ij - ii) ** 2 + (ij - jj) ** 2
        return total * 2 / (3 * DOMAINS * (DOMAINS - 1) * CLASSES**2)

    def tell(self, relations: Tensor, pseudo: list[int]) -> None:
        """Number of updates, live edges summed and the most, share of pseudo labels summed, last global loss."""
        edges, told = self.edges(), self.plain.w["told"].clone()
        live = sum(float(self.plain.w["adjacency"][i, j]) > 1e-3 for i, j in edges) / len(edges)
        told[0] += 1
        told[1] += live
        told[2] = max(float(told[2]), live)
        told[3] += sum(y >= 0 for y in pseudo) / len(pseudo)
        told[4] = relations.detach()
        self.plain.w["told"] = told


@pytest.mark.parametrize("row", ROWS)
def test_ltc_msda_is_its_algorithm(row: str) -> None:
    preset, changes = ROWS[row]
    method, plain = pair("ltc-msda", preset, sources=len(SIZES), **changes)
    method.gcn.dropout.p = 0.0
    replay = Replay(plain, preset == "code", changes.get("sigma", 0.005), changes["max_entropy"])
    for t in range(UPDATES):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / UPDATES)
        replay.update(sources, target)
    assert 0 < replay.sure < UPDATES * TARGET, "pseudo labels for none or for all show less"
    assert (float(plain.w["told"][2]) > 0) is (row != "code")  # edges, and none as released
    agree(method, plain, f"ltc-msda, {row}", ["extractor", "gcn"])
