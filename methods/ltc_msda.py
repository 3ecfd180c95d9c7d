"""LtC-MSDA: a graph of class prototypes of all domains helps to classify images (Wang et al., ECCV 2020).

    L = CE of source images + CE of prototypes + H(p) of target images + λ₁ L_glob + λ₂ L_loc

Nodes are the D·C prototypes, moving averages of class means (the target's by pseudo labels), and the images of a batch
("queries"); edges are exp(−δ/2σ²), δ the mean of squared differences. Two graph convolutions classify both kinds of
nodes. L_glob makes the C×C blocks of the adjacency equal, within and between domains; L_loc draws class means to their
prototypes. T-SVDNet is built on its code.

As released (σ = .005, `code`) the graph is DEAD: behind batch norm and ReLU every edge but the self-loops underflows to
zero. Then each query sees itself alone, the graph network is a plain two-layer head, and L_glob the constant 4/(3C)
without gradient. `python -m benchmark explain ltc-msda --preset code` has the arithmetic; a record says how many edges
were alive. The default row has a kernel that lives (σ = .2, rows of the adjacency sum to one), the prototypes of this
update in the graph, and no node for a prototype that no image has reached. `code` keeps the released σ, plain sums,
the prototypes of the update before, and zero vectors as nodes. Not kept, in no preset (L1): the release's gradient through
prototypes into activations of the update before, computed with weights that have changed since. torch refuses it from
version 1.5 on. The graph takes prototypes as constants here; the relation losses keep their gradient.

There is no preset of the printed form: what is known of the paper's own losses (L3 to L5) is unchecked memory.

A prediction does not depend on its batch: at test prototypes collect from prototypes alone, queries from prototypes and
themselves. With a dead graph that changes nothing: both are the head of each image alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch, frozen
from methods.errors import MethodError, unknown
from methods.explain import Explanation, Facts
from methods.layers import full_precision
from methods.ltc_audit import DISPUTES, LIVE, explain
from tsvdnet.prototypes import class_means, entropy, moving_average, pseudo_labels

if TYPE_CHECKING:
    from benchmark.run.task import Task

COUNT, LOG = 1e-5, 1e-8  # released code: added to a class's count, and within the logarithm of the entropy
DROPOUT = 0.5  # released code: between the two graph convolutions
CHOICES = {"degree": ("normalised", "sum"), "entropy_mean": ("classes", "samples")}


@dataclass(frozen=True)
class LtCMSDAHParams(HParams):
    """Hyper-parameters of LtC-MSDA; the released code's but for those marked ours."""

    sigma: float = 0.2  # ours: edges .4 within and .03 between classes of real digits; release .005, all zero (L2)
    degree: str = "normalised"  # ours: rows of the adjacency sum to one | sum: release, as the kernel gives them (L9)
    two_way: bool = False  # ours: in training prototypes do not collect from the queries; they do in the release (L9b)
    lagged: bool = False  # ours: the graph has this update's prototypes; in the release the last one's (L6)
    count_unseen: bool = (
        False  # ours: a prototype that no image has reached is no node; a zero vector in the release (L7)
    )
    beta: float = 0.7  # weight of the old prototype: release
    max_entropy: float = 0.5  # nat, below which a target image has a pseudo label: release
    global_weight: float = 20.0  # λ₁: release
    local_weight: float = 0.01  # λ₂: release (L3)
    entropy_weight: float = 1.0  # release
    entropy_mean: str = "classes"  # over samples and classes: release | samples (L10)

    def __post_init__(self) -> None:
        """Refuse what no option means, before a run starts."""
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise unknown(f"value of ltc-msda.{name}", getattr(self, name), allowed)
        if not self.sigma > 0 or not 0 <= self.beta < 1:
            raise MethodError("ltc-msda needs sigma above zero, and beta from 0 up to but not 1.")


# -- the mathematics ------------------------------------------------------------------------------------------------


def kernel(x: Tensor, y: Tensor, sigma: float) -> Tensor:
    """exp(−δ(x_i, y_j) / 2σ²), δ the mean over features of squared differences: (K, F), (N, F) → (K, N)."""
    centre = x.mean(0)  # of x alone: an entry does not depend on the other rows of y, and little cancels
    x, y = x - centre, y - centre
    delta = x.square().sum(1)[:, None] + y.square().sum(1) - 2 * x @ y.T
    return torch.exp(delta.clamp_min(0) / (-2 * sigma**2 * x.shape[1]))


def averaged(old: Tensor, features: Tensor, labels: Sequence[Tensor], beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """A batch into the prototypes: P ← β·P + (1 − β)·m where class c of domain d is in it, P elsewhere.

    P (D, C, F); features (N, F) of all domains in a row, labels (B_d,) of each, −1 for none → class means m (D, C, F), which
    of them are present (D, C), new prototypes. The gradient flows through m alone.
    """
    domains, classes = old.shape[:2]
    pair = torch.cat([torch.where(y >= 0, y + d * classes, -1) for d, y in enumerate(labels)])  # (domain, class)
    means, present = class_means(features, pair, domains * classes, COUNT)
    means, present = means.view_as(old), present.view(domains, classes)
    return means, present, moving_average(old, means, present, 1 - beta)


def adjacency(prototypes: Tensor, sigma: float) -> Tensor:
    """A of all prototypes, one on the diagonal: (D, C, F) → (D·C, D·C), domain by domain."""
    rows = prototypes.flatten(0, 1)
    return torch.where(torch.eye(len(rows), dtype=torch.bool, device=rows.device), 1.0, kernel(rows, rows, sigma))


def global_loss(a: Tensor, classes: int, seen: Tensor | None = None) -> Tensor:
    """2/(3 D (D−1)) Σ_{i, j} (‖A_ii − A_jj‖² + ‖A_ij − A_ii‖² + ‖A_ij − A_jj‖²) / C², over ordered pairs of domains.

    A (D·C, D·C) in blocks A_ij of C×C → 0-d. With `seen` (D, C) of 0 and 1, entry (c, k) of a pair (i, j) counts where
    classes c and k have a prototype in both domains.
    """
    domains = len(a) // classes
    blocks = a.view(domains, classes, domains, classes).transpose(1, 2)  # (D, D, C, C)
    own = torch.diagonal(blocks, dim1=0, dim2=1).permute(2, 0, 1)  # (D, C, C)
    first, second = own[:, None], own[None]
    squares = (first - second).square() + (blocks - first).square() + (blocks - second).square()
    if seen is not None:
        both = seen[:, None] * seen[None]  # (D, D, C)
        squares = squares * both[..., None] * both[..., None, :]
    return squares.sum() * 2 / (3 * domains * (domains - 1) * classes**2)


def local_loss(means: Tensor, prototypes: Tensor, present: Tensor, images: Tensor | int) -> Tensor:
    """Σ over present classes of mean_F (m − P)² / N: means and prototypes (D, C, F), present (D, C), N images → 0-d."""
    return ((means - prototypes).square().mean(-1) * present).sum() / images


@dataclass(frozen=True)
class Graph:
    """Rows of the extended adjacency Â = [[A, S], [Sᵀ, I]] of K prototypes and N queries; no query sees another."""

    among: Tensor  # (K, K): what prototypes collect from prototypes
    back: Tensor | None  # (K, N): from queries; None where nothing flows back
    query: Tensor  # (N, K): what queries collect from prototypes
    own: Tensor  # (N, 1): from themselves

    def collect(self, prototypes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Â [prototypes; queries] in two parts: (K, F), (N, F) → (K, F), (N, F)."""
        kept = self.among @ prototypes
        return kept if self.back is None else kept + self.back @ queries, self.query @ prototypes + self.own * queries


def extend(a: Tensor, s: Tensor, *, two_way: bool, normalised: bool) -> Graph:
    """The graph of A (K, K) and S = kernel(prototypes, queries) (K, N); `normalised`: each row divided by its sum."""
    graph = Graph(a, s if two_way else None, s.T, s.new_ones(s.shape[1], 1))
    if not normalised:
        return graph
    rows = graph.among.sum(1, keepdim=True) + (s.sum(1, keepdim=True) if two_way else 0)
    rows = rows.clamp_min(torch.finfo(rows.dtype).tiny)  # before the first update there may be no edge at all
    columns = graph.query.sum(1, keepdim=True) + 1
    back = None if graph.back is None else graph.back / rows
    return Graph(graph.among / rows, back, graph.query / columns, graph.own / columns)


class GraphConvolution(nn.Module):
    """Z = Â X W + b; W and b uniform in ±1/√(outputs), as released."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in (self.weight, self.bias):
            nn.init.uniform_(parameter, -(self.weight.shape[1] ** -0.5), self.weight.shape[1] ** -0.5)

    def forward(self, graph: Graph, prototypes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        kept, asked = graph.collect(prototypes @ self.weight, queries @ self.weight)
        return kept + self.bias, asked + self.bias


class GCN(nn.Module):
    """Z = Â dropout(ReLU(Â X W₁ + b₁)) W₂ + b₂ of prototypes (K, F) and queries (N, F) → (K, C), (N, C)."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(features, features), GraphConvolution(features, classes)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, graph: Graph, prototypes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        hidden = [self.dropout(x.relu()) for x in self.first(graph, prototypes, queries)]
        return self.second(graph, *hidden)


# -- the method -----------------------------------------------------------------------------------------------------


class LtCMSDA(Method):
    """Learning to combine: knowledge aggregation over a graph of prototypes."""

    name = "ltc-msda"
    title = "LtC-MSDA"
    HParams = LtCMSDAHParams
    presets = {"code": {"sigma": 0.005, "degree": "sum", "two_way": True, "lagged": True, "count_unseen": True}}
    standards = ("multi-source",)
    ranges = {
        "lr_scale": Range(0.3, 3.0, log=True),
        "sigma": Range(0.05, 0.5, log=True),
        "global_weight": Range(1.0, 100.0, log=True),
        "max_entropy": Range(0.3, 1.0),
        "beta": Range(choices=(0.5, 0.7, 0.9)),
    }
    relative_cost = 1.2
    disputes = DISPUTES

    hparams: LtCMSDAHParams
    prototypes: Tensor
    seen: Tensor
    adjacency: Tensor
    told: Tensor

    def __init__(self, task: Task, hparams: LtCMSDAHParams) -> None:
        super().__init__(task, hparams)
        domains, classes, features = task.num_sources + 1, task.num_classes, task.feature_dim
        self.extractor = task.extractor()
        self.gcn = task.build("ltc-msda/gcn", lambda: GCN(features, classes))
        start = torch.eye(domains * classes) * (not hparams.count_unseen)  # the release begins with zeros
        buffers = {  # domains in order, the target last; `seen` is 1 where an image has reached a prototype
            "prototypes": torch.zeros(domains, classes, features), "seen": torch.zeros(domains, classes), "adjacency": start,
            "told": torch.zeros(5),  # number of updates, live edges: sum and most, confident share: sum, last global loss
        }  # fmt: skip
        for key, value in buffers.items():
            self.register_buffer(key, value.to(task.device))
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["gcn"] = task.optimiser(self.gcn, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        h = self.hparams
        forwarded = torch.cat(self.task.forward_domains([*(batch.images for batch in sources), target.images]))
        labels, labelled = torch.cat([batch.labels for batch in sources]), len(forwarded) - len(target.images)
        with full_precision(self.task.device):  # half precision, if any, is for the extractor
            features = forwarded.to(torch.promote_types(forwarded.dtype, torch.float32))
            # pseudo labels, from the graph as the last update left it
            if h.lagged:
                nodes, queries = self._classify(features, h.two_way)
                pseudo = self._pseudo_labels(queries[labelled:])
            else:
                with frozen(self.gcn):
                    pseudo = self._pseudo_labels(self._classify(features[labelled:].detach())[1])
            # prototypes and adjacency with this batch in them
            all_labels = [*(batch.labels for batch in sources), pseudo]
            means, present, prototypes = averaged(self.prototypes, features, all_labels, h.beta)
            a = adjacency(prototypes, h.sigma)
            seen = torch.maximum(self.seen, present.to(self.seen.dtype))
            relations = global_loss(a, self.task.num_classes, None if h.count_unseen else seen)
            compact = local_loss(means, prototypes, present, labelled + (pseudo >= 0).sum())
            self._keep(prototypes.detach(), a.detach(), seen)
            if not h.lagged:
                nodes, queries = self._classify(features, h.two_way)

            source = F.cross_entropy(queries[:labelled], labels)
            domain = self._prototype_loss(nodes)
            over = self.task.num_classes if h.entropy_mean == "classes" else 1
            unsure = entropy(queries[labelled:].softmax(1), LOG).mean() / over
            loss = source + domain + h.entropy_weight * unsure
            self.descend(loss + h.global_weight * relations + h.local_weight * compact)
        losses = {"source": source, "prototype": domain, "entropy": unsure, "global": relations, "local": compact}
        return self._tell({name: loss.detach() for name, loss in losses.items()}, pseudo)

    # -- steps ------------------------------------------------------------------------------------------------------

    def _classify(self, features: Tensor, two_way: bool = False) -> tuple[Tensor, Tensor]:
        """Logits of the stored prototypes (D·C, C) and of queries (N, F) → (N, C)."""
        prototypes = self.prototypes.flatten(0, 1)
        s = kernel(prototypes, features, self.hparams.sigma)
        if not self.hparams.count_unseen:
            s = s * self.seen.view(-1, 1)
        graph = extend(self.adjacency, s, two_way=two_way, normalised=self.hparams.degree == "normalised")
        return self.gcn(graph, prototypes, features)

    def _pseudo_labels(self, logits: Tensor) -> Tensor:
        """(B, C) → (B,): the most probable class where the entropy is small, −1 elsewhere."""
        return pseudo_labels(logits.detach().softmax(1), "entropy", self.hparams.max_entropy)

    def _keep(self, prototypes: Tensor, a: Tensor, seen: Tensor) -> None:
        """What the next graph is made of."""
        self.prototypes, self.seen = prototypes, seen
        if not self.hparams.count_unseen:  # a prototype that is no node: alone with itself
            linked = torch.outer(seen.flatten(), seen.flatten())
            a = torch.where(torch.eye(len(a), dtype=torch.bool, device=a.device), 1.0, a * linked)
        self.adjacency = a

    def _prototype_loss(self, logits: Tensor) -> Tensor:
        """Mean cross-entropy of the nodes of all domains (D·C, C)."""
        classes = torch.arange(self.task.num_classes, device=logits.device).repeat(len(self.seen))
        each = F.cross_entropy(logits, classes, reduction="none")
        weight = torch.ones_like(each) if self.hparams.count_unseen else self.seen.flatten()
        return (each * weight).sum() / weight.sum().clamp_min(1)

    def _edges(self) -> Tensor:
        """(D·C, D·C) of 0 and 1: pairs of different prototypes that images have reached."""
        linked = torch.outer(self.seen.flatten(), self.seen.flatten())
        return linked - torch.diag(linked.diagonal())

    def _tell(self, losses: dict[str, Tensor], pseudo: Tensor) -> dict[str, Tensor]:
        """What the loop is told, and what the diagnostics will need."""
        edges, share = self._edges(), (pseudo >= 0).to(self.told.dtype).mean()
        live = (edges * (self.adjacency > LIVE)).sum() / edges.sum().clamp_min(1)
        count, total, most, confident, _ = self.told
        now = (count + 1, total + live, torch.maximum(most, live), confident + share, losses["global"].to(live.dtype))
        self.told = torch.stack(now)
        return {**losses, "live_edges": live, "confident": share, "pseudo_labels": pseudo}

    # -- what the loop asks -------------------------------------------------------------------------------------------

    def probabilities(self, images: Tensor) -> Tensor:
        return self._classify(self.extractor(images))[1].softmax(1)

    def embed(self, images: Tensor) -> Tensor:
        return self.extractor(images)

    def diagnostics(self) -> dict[str, Any]:
        count, total, most, confident, relations = self.told.tolist()
        edges, rows = self._edges().bool(), self.prototypes.flatten(0, 1).double()
        delta = torch.cdist(rows, rows).square() / rows.shape[1]
        classes = torch.arange(self.task.num_classes, device=rows.device).repeat(len(self.seen))
        same = classes[:, None] == classes
        return {
            "live_edges": (edges & (self.adjacency > LIVE)).sum().item() / max(edges.sum().item(), 1),
            "live_edges_mean": total / max(count, 1),
            "live_edges_most": most,
            "largest_edge": (self.adjacency * edges).max().item(),
            "delta_same_class": _median(delta[edges & same]),
            "delta_other_class": _median(delta[edges & ~same]),
            "global_loss": relations,
            "share_confident": confident / max(count, 1),
        }

    def remarks(self, diagnostics: Mapping[str, Any]) -> list[str]:
        found = []
        if not diagnostics["live_edges_most"]:
            found.append(
                f"no edge between two prototypes exceeded {LIVE:g} at any update: the graph was dead, its network a plain "
                "two-layer head and the global loss without effect"
            )
        if not diagnostics["share_confident"]:
            found.append("no target image was confident enough for a pseudo label: the target had no node in the graph")
        return found

    @classmethod
    def explain(cls, facts: Facts) -> Explanation | None:
        return explain(facts)


def _median(values: Tensor) -> float | None:
    return values.median().item() if len(values) else None
