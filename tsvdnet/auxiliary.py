"""The auxiliary tensor A (Sec. 3.5): thresholds, the η schedule, the A-step, and the audit that says when A must be zero.

`Auxiliary` holds A and η from update to update and is the low-rank term of the objective; `NuclearNorm` is the term that
does without them.

The audit in one line: entries of G lie in [0, 1], so no singular value of a Fourier slice exceeds n3·√(n1·n2). Where the
smallest σ that a rule lets through is larger, A = 0 whatever the data. On Digits-Five and PACS that is so at the
published λ and η_max, for the paper's rule and for the released code's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.errors import unknown
from tsvdnet.diagnostics import describe_auxiliary
from tsvdnet.tensor import Threshold, rotate, shrink, tensor_nuclear_norm, unrotate

RULES = ("paper", "code", "exact", "zero")
CODE_EPSILON = 1e-5  # in the released code's threshold
# lam_rule="active": the smallest survivor at η_max, as a share of the bound on σ_1, and of σ_1 at the other frequencies
# for orthogonal prototypes. Learned prototypes are less than orthogonal: at half of it most frequencies are cut.
ACTIVE_SHARE, ACTIVE_OTHERS = 0.01, 0.2


def slice_shape(classes: int, domains: int, rotation: bool = True) -> tuple[int, int, int]:
    """(n1, n2, n3) of the tensor whose slices are shrunk: C×D×C rotated, C×C×D not."""
    return (classes, domains, classes) if rotation else (classes, classes, domains)


def largest_sigma(shape: tuple[int, int, int]) -> float:
    """σ_1 ≤ ‖slice‖_F ≤ n3·√(n1·n2) for entries in [0, 1]; all ones reach it."""
    n1, n2, n3 = shape
    return n3 * math.sqrt(n1 * n2)


def threshold(rule: str, lam: float, eta: float, n3: int) -> Threshold:
    """What is taken from a singular value (D3).

    "paper" λ/η;  "code" (λ/η)·n3/(σ + 1e-5), the released code's;  "exact" n3·λ/η, of which `shrink` is the proximal
    point of λ·TNN + (η/2)‖A − G‖² with the paper's TNN;  "zero" everything: A = 0 by decree.
    """
    if rule == "paper":
        return lam / eta
    if rule == "exact":
        return n3 * lam / eta
    if rule == "code":
        return lambda sigma: lam / eta * n3 / (sigma + CODE_EPSILON)
    if rule == "zero":
        return math.inf
    raise unknown("prox rule", rule, RULES)


def smallest_survivor(rule: str, lam: float, eta: float, n3: int) -> float:
    """The σ at which threshold(σ) = σ: singular values up to it become zero."""
    t = threshold(rule, lam, eta, n3)
    if not callable(t):
        return t
    # σ·(σ + ε) = (λ/η)·n3
    return (-CODE_EPSILON + math.sqrt(CODE_EPSILON**2 + 4 * lam / eta * n3)) / 2


def must_be_zero(rule: str, lam: float, eta: float, shape: tuple[int, int, int]) -> bool:
    """True where A = 0 for every G with entries in [0, 1]: the audit."""
    return smallest_survivor(rule, lam, eta, shape[2]) >= largest_sigma(shape)


def lam_for_survivor(rule: str, sigma: float, eta: float, n3: int) -> float:
    """The λ that makes `sigma` the smallest survivor at η: the inverse of `smallest_survivor`; 0 for "zero"."""
    if rule == "paper":
        return eta * sigma
    if rule == "exact":
        return eta * sigma / n3
    if rule == "code":
        return eta * sigma * (sigma + CODE_EPSILON) / n3
    return 0.0


def eta_for_survivor(rule: str, sigma: float, lam: float, n3: int) -> float:
    """The η above which values of size `sigma` survive at this λ; infinite for "zero"."""
    per_eta = lam_for_survivor(rule, sigma, 1.0, n3)
    return lam / per_eta if per_eta else math.inf


def ramp(progress: float, eta0: float, eta_max: float, share: float) -> float:
    """η by progress: geometric from η0 at 0 to η_max at `share` of the budget, then constant.

    η = min(ρη, η_max) of Algorithm 2 is geometric too; here its rate follows from the budget instead of from ρ, so that
    a short run sees the same schedule as a long one.
    """
    if progress >= share:
        return eta_max
    return min(eta_max, eta0 * (eta_max / eta0) ** (progress / share))


def other_frequencies(classes: int, domains: int, floor: float) -> float:
    """σ_1 of the rotated slices k ≠ 0 when every domain has ones on the diagonal and `floor` elsewhere: (1−floor)·√(C·D).

    In such a G, that of orthogonal prototypes, the slices k ≠ 0 see the diagonal only.
    """
    return (1 - floor) * math.sqrt(classes * domains)


def active_lam(rule: str, classes: int, domains: int, eta_max: float, floor: float, rotation: bool = True) -> float:
    """A λ so small that A ≠ 0 at every frequency at η_max: the smallest survivor is 1 % of the bound on σ_1, or a fifth
    of what orthogonal prototypes have at the frequencies k ≠ 0 where that is less."""
    shape = slice_shape(classes, domains, rotation)
    sigma = min(ACTIVE_SHARE * largest_sigma(shape), ACTIVE_OTHERS * other_frequencies(classes, domains, floor))
    return lam_for_survivor(rule, sigma, eta_max, shape[2])


@torch.no_grad()
def proximal(
    g: Tensor, rule: str, lam: float, eta: float, *, rotation: bool = True, repeat_top: bool = False
) -> Tensor:
    """The A-step of Algorithm 2: G (C, C, D) → A = Rotate⁻¹(shrink(Rotate(G))) of the same shape."""
    turned = rotate(g) if rotation else g
    t = threshold(rule, lam, eta, turned.shape[2])
    if t == math.inf:
        return torch.zeros_like(g)
    a = shrink(turned, t, repeat_top=repeat_top)
    return unrotate(a) if rotation else a


@dataclass(frozen=True)
class Growth:
    """η as Algorithm 2 prints it: from η0, times ρ at every A-step, up to η_max."""

    eta0: float = 1e-5
    eta_max: float = 1.0
    rho: float = 1.1

    def at(self, progress: float, eta: float) -> float:
        """η before an update: as the last A-step left it."""
        return eta

    def after(self, eta: float) -> float:
        """η after an A-step."""
        return min(self.rho * eta, self.eta_max)


@dataclass(frozen=True)
class Ramp:
    """η by the share of the budget that is done, see `ramp`: A-steps do not move it."""

    eta0: float = 1e-5
    eta_max: float = 1.0
    share: float = 0.15

    def at(self, progress: float, eta: float) -> float:
        """η before an update."""
        return ramp(progress, self.eta0, self.eta_max, self.share)

    def after(self, eta: float) -> float:
        """η after an A-step."""
        return eta


class Auxiliary(nn.Module):
    """A (C, C, D) and η, from update to update: the low-rank term, and the A-step that follows the step in θ.

        loss = loss + low_rank(G)      (η/2)‖A − G‖_F², A a constant
        low_rank.step(G)               A ← Rotate⁻¹(shrink(Rotate(G))) with the η in force; then the next η

    `rule` (D3), `rotation` and `repeat_top` (D4) are those of `proximal`. An A-step is taken at every `every`-th call of
    `step` (D7), where the count starts anew after `restart` calls (0: never). Before the first one A is random in [0, 1]
    from `seed`, or zero for None (D16). A, η and the counts are saved and restored with the module.
    """

    A: Tensor
    alive: Tensor
    nonzero: Tensor

    def __init__(
        self,
        classes: int,
        domains: int,
        *,
        lam: float,
        schedule: Growth | Ramp = Growth(),
        rule: str = "paper",
        rotation: bool = True,
        repeat_top: bool = False,
        every: int = 1,
        restart: int = 0,
        seed: int | None = 0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.lam, self.schedule, self.rule, self.rotation, self.repeat_top = lam, schedule, rule, rotation, repeat_top
        self.every, self.restart = every, restart
        self.shape = slice_shape(classes, domains, rotation)
        self.eta, self.steps, self.steps_at_max = schedule.eta0, 0, 0
        size = (classes, classes, domains)
        first = torch.zeros(size) if seed is None else torch.rand(size, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("A", first.to(device))
        self.register_buffer("alive", torch.zeros((), device=device))  # 1 while A ≠ 0 by an A-step
        self.register_buffer("nonzero", torch.zeros((), device=device))  # steps that left A ≠ 0

    def follow(self, progress: float) -> None:
        """η at this share of the budget, where the schedule goes by it."""
        self.eta = self.schedule.at(progress, self.eta)

    def forward(self, g: Tensor) -> Tensor:
        """(η/2)‖A − G‖_F²: (C, C, D) → 0-d."""
        return 0.5 * self.eta * (self.A - g).square().sum()

    @torch.no_grad()
    def step(self, g: Tensor) -> None:
        """After the step in θ: A from the G that `forward` saw, when its turn has come.

        On a GPU the host waits for the device once, within `shrink`; not at all where A must be zero.
        """
        self.steps_at_max += self.eta >= self.schedule.eta_max
        count = self.steps % self.restart if self.restart else self.steps
        if count % self.every == 0:
            self.A = self.shrunk(g)
            self.alive = (self.A != 0).any().to(self.alive.dtype)
            self.eta = self.schedule.after(self.eta)
        self.nonzero = self.nonzero + self.alive
        self.steps += 1

    def shrunk(self, g: Tensor) -> Tensor:
        """What an A-step at this η makes of G; without the SVD where only zero can come of it."""
        if must_be_zero(self.rule, self.lam, self.eta, self.shape):
            return torch.zeros_like(self.A)
        a = proximal(g, self.rule, self.lam, self.eta, rotation=self.rotation, repeat_top=self.repeat_top)
        return a.contiguous()  # as a checkpoint restores it: the order of a sum depends on the layout

    def describe(self, g: Tensor) -> dict[str, Any]:
        """What a record says: A beside the G that it came from, η, threshold and bound, and shares of the steps so far."""
        steps, nonzero = max(self.steps, 1), self.nonzero.item()
        return describe_auxiliary(self.A, g, self.rotation) | {
            "lam": self.lam,
            "eta": self.eta,
            "threshold": smallest_survivor(self.rule, self.lam, self.eta, self.shape[2]),
            "sigma_bound": largest_sigma(self.shape),
            "share_eta_max": self.steps_at_max / steps,
            "share_a_nonzero": nonzero / steps,
            "a_zero_whole_run": nonzero == 0,
        }

    def get_extra_state(self) -> Tensor:
        """η and the counts: numbers of the host, so that no step waits for the device, yet saved with the module."""
        return torch.tensor([self.eta, self.steps, self.steps_at_max], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.eta, *counts = state.tolist()
        self.steps, self.steps_at_max = map(int, counts)


@dataclass(frozen=True)
class NuclearNorm:
    """+T without A: a weight times the tensor nuclear norm of G itself, rotated or as stacked: (C, C, D) → 0-d."""

    weight: float
    rotation: bool = True

    def __call__(self, g: Tensor) -> Tensor:
        return self.weight * tensor_nuclear_norm(rotate(g) if self.rotation else g)
