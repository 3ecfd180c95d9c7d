"""The audit of T-SVDNet's low-rank term: at these settings, can the auxiliary tensor A be anything but zero?

Arithmetic, not training. Entries of G lie in [0, 1], so singular values of its Fourier slices are bounded; a threshold
above the bound makes A zero whatever the images are. Where it does not, two reference tensors say what survives and at
which frequencies: G of orthogonal prototypes (what the term drives towards), and G of generated prototypes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmark.data.made.pictures import CLASSES
from benchmark.errors import UserError, unknown
from benchmark.files import replacing
from benchmark.run.networks import NETWORKS
from benchmark.spec import Suite, Tier, TierSettings, check_preset, load_suite
from methods.contract import build_hparams
from tsvdnet import auxiliary as aux
from tsvdnet.method import TSVDNet
from tsvdnet.options import TSVDNetHParams
from tsvdnet.prototypes import gaussian_similarity, stack
from tsvdnet.tensor import rotate, singular_values

REFERENCES = ("orthogonal", "generated")
NOISE = 0.3  # of the generated prototypes: each domain's own part, against a shared part of 1


@dataclass(frozen=True)
class Reference:
    """Singular values of one reference tensor: (n3, min(n1, n2)), before and after the A-step at η_max."""

    sigma: Tensor
    survivors: Tensor  # (n3,) number of singular values that are left
    g_square: float  # Σ_d ‖G_d‖²
    distance: float  # Σ_d ‖G_d − A_d‖²


@dataclass(frozen=True)
class Audit:
    """What follows from the settings alone, and what the reference tensors add to it."""

    suite: str
    tier: str
    preset: str
    classes: int
    domains: int
    feature_dim: int
    hparams: TSVDNetHParams
    lam: float
    shape: tuple[int, int, int]
    bound: float  # on every singular value
    threshold: float  # the smallest σ that survives at η_max
    eta_escape: float  # A may be ≠ 0 for η above it, at this λ
    lam_escape: float  # A may be ≠ 0 for λ below it, at this η_max
    lam_active: float  # λ of the preset :active: something survives at every frequency
    progress_escape: float | None  # share of the budget from which A may be ≠ 0; None: never
    references: Mapping[str, Reference]

    @property
    def always_zero(self) -> bool:
        """A = 0 at every update, for all data: a theorem, not a measurement."""
        return self.progress_escape is None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; the spectra as the largest value of each frequency."""
        document = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "references"}
        document["hparams"] = dataclasses.asdict(self.hparams)
        document["always_zero"] = self.always_zero
        document["references"] = {
            name: {
                "sigma_1": r.sigma[:, 0].tolist(),
                "survivors": r.survivors.tolist(),
                "g_square": r.g_square,
                "distance": r.distance,
            }
            for name, r in self.references.items()
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in document.items()}


def audit(suite: str, preset: str = "", tier: str = "", changes: Mapping[str, Any] | None = None) -> Audit:
    """The audit of `tsvdnet[:preset]` on a suite, in a tier (default: paper, or the largest there is).

    `changes` are hyper-parameters as `--set` gives them.
    """
    found, cls = load_suite(suite), TSVDNet
    tier = tier or list(Tier)[max(list(Tier).index(t) for t in found.tiers)].value
    settings = found.tier(tier)
    check_preset(cls, cls.name, preset)
    for key in changes or {}:
        fields = [f.name for f in dataclasses.fields(TSVDNetHParams)]
        if key not in fields:
            raise unknown(f"hyper-parameter of {cls.name}", key, fields)
    layers = (found.hparams.get(cls.name, {}), settings.hparams.get(cls.name, {}), cls.presets.get(preset, {}))
    h = build_hparams(cls, *layers, changes or {})
    assert isinstance(h, TSVDNetHParams)
    if h.tensor != "prox":
        raise UserError(
            f"tsvdnet:{preset} has no auxiliary tensor A; there is nothing to audit. Try: --preset paper, code."
        )

    classes, domains, dim = number_of_classes(found, settings), len(found.domains), feature_dim(settings)
    shape = aux.slice_shape(classes, domains, h.rotation)
    bound, n3 = aux.largest_sigma(shape), shape[2]
    tensors = {name: similarity(h, prototypes(name, classes, domains), dim) for name in REFERENCES}
    floor = tensors["orthogonal"][0, 1, 0].item()
    active = aux.active_lam(h.prox, classes, domains, h.eta_max, floor, h.rotation)
    lam = active if h.lam_rule == "active" else h.lam
    escape = aux.eta_for_survivor(h.prox, bound, lam, n3)
    return Audit(
        suite=found.name,
        tier=tier,
        preset=preset,
        classes=classes,
        domains=domains,
        feature_dim=dim,
        hparams=h,
        lam=lam,
        shape=shape,
        bound=bound,
        threshold=aux.smallest_survivor(h.prox, lam, h.eta_max, n3),
        eta_escape=escape,
        lam_escape=aux.lam_for_survivor(h.prox, bound, h.eta_max, n3),
        lam_active=active,
        progress_escape=progress_of(escape, h) if escape < h.eta_max else None,
        references={name: reference(g, h, lam) for name, g in tensors.items()},
    )


def number_of_classes(suite: Suite, settings: TierSettings) -> int:
    """The classes of the suite; the generated pictures of a mini tier have their own."""
    if settings.data == "embedded" and suite.reader != "digits":
        return len(CLASSES[suite.reader])
    return len(suite.classes)


def feature_dim(settings: TierSettings) -> int:
    """Features of the tier's network, without building it."""
    with torch.device("meta"):
        return NETWORKS[settings.network.name](settings.network.width).feature_dim


def progress_of(eta: float, h: TSVDNetHParams) -> float:
    """The share of the budget at which the schedule reaches η: the inverse of `auxiliary.ramp`."""
    return h.eta_ramp * max(0.0, math.log(eta / h.eta0) / math.log(h.eta_max / h.eta0))


def prototypes(kind: str, classes: int, domains: int) -> Tensor:
    """(D, C, ≥ C) non-negative unit prototypes: exactly orthogonal, or generated with a part that the domains share."""
    if kind == "orthogonal":
        return torch.eye(classes, dtype=torch.float64).expand(domains, -1, -1)
    g, size = torch.Generator().manual_seed(0), max(classes, 256)
    shared = torch.randn(classes, size, generator=g, dtype=torch.float64)
    own = torch.randn(domains, classes, size, generator=g, dtype=torch.float64)
    return F.normalize((shared + NOISE * own).relu(), dim=2)


def similarity(h: TSVDNetHParams, f: Tensor, dim: int) -> Tensor:
    """G (C, C, D) of unit prototypes as a network of `dim` features would have it; raw features are further apart.

    ‖f_i − f_j‖² of unit vectors does not depend on the number of features, the mean over it does.
    """
    scale = 1.0 if h.distance == "sum" else 1.0 / (h.kernel_dim or dim)
    return stack(gaussian_similarity(f, h.gamma, "sum", scale))


def reference(g: Tensor, h: TSVDNetHParams, lam: float) -> Reference:
    """Spectrum of G and what the A-step at η_max leaves of it."""
    a = aux.proximal(g, h.prox, lam, h.eta_max, rotation=h.rotation, repeat_top=h.repeat_top)
    turned = rotate if h.rotation else (lambda x: x)
    sigma = singular_values(turned(g))
    left = (singular_values(turned(a)) > 1e-9 * sigma.max()).sum(1)
    return Reference(sigma, left, g.square().sum().item(), (g - a).square().sum().item())


# -- in words -----------------------------------------------------------------------------------------------------------


def words(a: Audit) -> list[str]:
    """The audit as sentences, in the order in which one would ask."""
    h, (n1, n2, n3) = a.hparams, a.shape
    rule = {
        "paper": "λ/η (as printed)",
        "code": "(λ/η)·n3/(σ + 1e-5) (as released)",
        "exact": "n3·λ/η (exact for the printed norm)",
        "zero": "everything (prox = zero)",
    }[h.prox]
    lines = [
        f"tsvdnet{':' + a.preset if a.preset else ''} on {a.suite}, tier {a.tier}: {a.classes} classes, {a.domains} domains, "
        f"λ = {a.lam:g}, η from {h.eta0:g} to η_max = {h.eta_max:g} in the first {100 * h.eta_ramp:g} % of the updates.",
        f"A is G with its Fourier-domain singular values σ shrunk. There are {n3} slices of {n1}×{n2}; taken from each σ: "
        f"{rule}.",
        f"The bound: entries of G lie in [0, 1], so σ ≤ n3·√(n1·n2) = {a.bound:,.2f} in every slice, whatever the images.",
        f"The threshold: at η_max a σ survives only above {a.threshold:,.4g}; earlier, at smaller η, it is higher.",
    ]
    if a.always_zero:
        lines.append(
            f"So A = 0 at every update, since {a.threshold:,.4g} ≥ {a.bound:,.2f}. That is a theorem about these settings, for "
            "any data; what it does to the accuracy is another question, and measured. The low-rank term is "
            "(η/2)·Σ‖G_d‖²: it pushes the prototypes of one domain apart and couples no two domains."
        )
    else:
        assert a.progress_escape is not None
        lines.append(
            f"So A can differ from zero once η > {a.eta_escape:.3g}, from {100 * a.progress_escape:.1f} % of the updates on, "
            "if G is large enough."
        )
    if h.prox != "zero":
        way = "The escape: A ≠ 0 needs" if a.always_zero else "The border: A = 0 for all data unless"
        lines.append(
            f"{way} η_max > {a.eta_escape:,.3g} at λ = {a.lam:g}, or λ < {a.lam_escape:,.4g} at η_max = {h.eta_max:g}; "
            f"something survives at every frequency for λ up to about {a.lam_active:.3g} (preset :active)."
        )
    return lines + [reference_words(name, r, a) for name, r in a.references.items()]


def reference_words(name: str, r: Reference, a: Audit) -> str:
    """One sentence on a reference tensor: its spectrum and what is left of it."""
    zero, others = r.survivors[0].item(), r.survivors[1:]
    left = (
        "nothing survives"
        if int(r.survivors.sum()) == 0
        else f"{zero} of {r.sigma.shape[1]} survive at the zero frequency and {others.double().mean():.2f} a slice at the others"
    )
    kind = "orthogonal prototypes" if name == "orthogonal" else "generated prototypes (seeded, not measured)"
    return (
        f"With {kind}: σ_1 is {r.sigma[0, 0]:,.2f} at the zero frequency and at most {r.sigma[1:, 0].max():,.2f} at the "
        f"others; {left}; Σ‖G − A‖² = {r.distance:,.4g} of Σ‖G‖² = {r.g_square:,.4g}."
    )


# -- as a figure --------------------------------------------------------------------------------------------------------


def draw(a: Audit, stem: Path) -> list[Path]:
    """Threshold along the schedule against the bound, and the spectrum by frequency: `stem`.png and `stem`.pdf."""
    from matplotlib.figure import Figure

    h, n3 = a.hparams, a.shape[2]
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    progress = [i / 400 for i in range(401)]
    survivor = [aux.smallest_survivor(h.prox, a.lam, aux.ramp(p, h.eta0, h.eta_max, h.eta_ramp), n3) for p in progress]
    if h.prox != "zero":
        left.plot(progress, survivor, color="black", label="smallest σ that survives")
    left.axhline(a.bound, color="tab:red", label=f"bound on σ: {a.bound:,.4g}")
    sigma = a.references["orthogonal"].sigma
    left.axhline(sigma[0, 0].item(), color="tab:blue", ls="--", label="σ_1, zero frequency (orthogonal prototypes)")
    left.axhline(
        sigma[1:, 0].max().item(), color="tab:green", ls=":", label="σ_1, other frequencies (orthogonal prototypes)"
    )
    if not a.always_zero:
        left.axvspan(a.progress_escape or 0.0, 1.0, color="tab:red", alpha=0.08, label="A can differ from zero")
    left.set(
        yscale="log",
        xlabel="share of the updates",
        ylabel="σ in the Fourier domain",
        title="Threshold along the η schedule",
    )
    left.legend(fontsize="small")
    for (name, r), marker in zip(a.references.items(), ("o", "x"), strict=True):
        right.plot(range(n3), r.sigma[:, 0], marker, ms=4, label=f"σ_1, {name} prototypes")
    if math.isfinite(a.threshold):
        right.axhline(a.threshold, color="black", label=f"threshold at η_max: {a.threshold:,.4g}")
    right.set(yscale="log", xlabel="frequency", title="What the A-step at η_max meets")
    right.legend(fontsize="small")
    name = f"tsvdnet{':' + a.preset if a.preset else ''}"
    verdict = "A = 0 at every update" if a.always_zero else "A can differ from zero"
    figure.suptitle(f"{name} on {a.suite} ({a.tier}): λ = {a.lam:g}, η_max = {h.eta_max:g}: {verdict}")
    paths = [stem.parent / f"{stem.name}{ending}" for ending in (".png", ".pdf")]
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:])
    return paths
