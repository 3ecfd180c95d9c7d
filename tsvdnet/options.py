"""The hyper-parameters of T-SVDNet: the paper's numbers, and one option for each choice that paper and code dispute.

D1 … D26 number the disagreements between the paper, its released code, and the paper with itself. Where a disagreement
is a choice of computation it is an option here; `PRESETS` puts the options together into readings. The defaults are one
rule: the paper where it is explicit, the release where the paper is silent. `disputes` has the reason of each decision.
"""

from __future__ import annotations

from dataclasses import dataclass

from methods.contract import HParams
from methods.errors import MethodError, unknown
from tsvdnet.auxiliary import RULES
from tsvdnet.uncertainty import FORMS, LINKS

EPSILONS = {"none": (0.0, 0.0), "released": (1e-5, 1e-8)}  # added to a class's count, and within the logarithm of +E


@dataclass(frozen=True)
class TSVDNetHParams(HParams):
    """Defaults: the paper, else the released code, else ours (marked so). Numbers are those of Digits-Five."""

    # -- numbers (a suite file sets those of its dataset) --
    lam: float = 1000.0  # λ: paper, Table 5, Digits-Five (D15)
    eta_max: float = 1.0  # η_max: paper, Table 5, column μ_max, read as η_max (D18)
    eta0: float = 1e-5  # η_0: released code; the paper says "small"
    eta_ramp: float = 0.15  # share of the budget until η = η_max: released log, 1,936 of 12,349 iterations
    rho: float = 1.1  # ρ: paper; acts with eta_schedule="released" only, where the budget does not set the rate
    gamma: float = 0.05  # γ of the kernel: paper
    kernel_dim: int = 2048  # feature dimension that the mean distance is scaled to: paper, Table 5; 0 = no scaling
    alpha: float = 0.5  # weight of the new class mean: released code; the paper gives none (D14)
    tau: float = 0.9  # ours: probability above which a pseudo label is given; neither gives one (D6, D26)
    max_entropy: float = 0.7  # nat, below which a pseudo label is given: released code (pseudo="entropy" only)
    entropy_weight: float = 1.0  # weight of +E: released code; the paper gives none (D26)
    tnn_weight: float = 0.01  # ours: weight of the nuclear norm when it is descended directly (tensor="tnn")

    # -- features, kernel, pseudo labels --
    normalise: str = "training"  # L2-normalised features: training (not at test): release | always | never (D11)
    distance: str = "mean"  # of squared differences over features: mean: release, Eq. 5 contradicts Fig. 5 | sum (D5)
    pseudo: str = "probability"  # confident means: probability above tau: Eq. 3 | entropy below max_entropy (D6)
    epsilons: str = "none"  # in divisors and logarithms: none: Eq. 2 | released, count + 1e-5 and log(p + 1e-8)

    # -- losses --
    source_loss: str = "mean"  # over sources: mean: Eq. 13 | sum (D8)
    prototype_loss: bool = False  # cross-entropy of the source prototypes, L_dom: not in the paper's objective (D9)
    entropy: str = "confident"  # +E on: confident target samples: release | all | off (D10)
    entropy_mean: str = "classes"  # +E averaged over samples and classes: release | samples only (D10)
    uncertainty: str = "approximate"  # +U: a line of Eq. 13, here the last | a form of the comment | off (D1, D2, D19)
    sigma_link: str = "softplus"  # ours: σ² from the head's output, must be positive: softplus | exp | raw (D21)
    sigma_floor: float = 0.1  # added to σ²: the offset of the released comment; the paper has none (D22)

    # -- the tensor term and the A-step --
    tensor: str = "prox"  # +T: auxiliary tensor by proximal steps: Algorithm 2 | tnn (descend the norm itself) | off
    prox: str = "paper"  # threshold: paper λ/η | code (λ/η)·n3/(σ+1e-5) | exact n3·λ/η | zero: A = 0 (D3)
    repeat_top: bool = False  # shrink the top pair of frequencies twice, the released off-by-one (D4)
    rotation: bool = True  # shrink the rotated tensor C×D×C: paper, or the stacked one C×C×D
    aux_every: int = 1  # updates between two A-steps: Algorithm 2 (D7)
    aux_restart: int = (
        0  # the count to aux_every starts anew after so many updates (released: 233, an epoch); 0 = never
    )
    eta_schedule: str = "progress"  # ours: by share of the budget (eta_ramp) | released (×ρ at every A-step)
    lam_rule: str = "given"  # given | active: λ from the audit, small enough for A ≠ 0 at every frequency (D15)
    gate: bool = True  # no tensor term before the first target pseudo label: release (D20)
    a_init: str = "random"  # A before its first step: random in [0, 1]: Sec. 3.5 | zero (D16)

    # -- heads --
    extra_linear: bool = False  # a linear layer before the classifier, as the released ResNet heads have (D17)
    single_lr: bool = False  # the extractor's learning rate for the heads too: release; Table 5 has two (D17)

    def __post_init__(self) -> None:
        """Refuse what no option means, before a run starts."""
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise unknown(f"value of tsvdnet.{name}", getattr(self, name), allowed)
        for name in ("lam", "eta_max", "eta0", "gamma", "alpha", "rho"):
            if not getattr(self, name) > 0:
                raise MethodError(f"tsvdnet.{name} must be above zero, not {getattr(self, name)}.")
        if self.aux_every < 1 or self.kernel_dim < 0 or self.sigma_floor < 0 or not 0 <= self.eta_ramp <= 1:
            raise MethodError(
                "tsvdnet needs aux_every ≥ 1, kernel_dim ≥ 0, sigma_floor ≥ 0 and eta_ramp between 0 and 1."
            )


CHOICES: dict[str, tuple[str, ...]] = {
    "normalise": ("training", "always", "never"),
    "distance": ("mean", "sum"),
    "pseudo": ("probability", "entropy"),
    "epsilons": tuple(EPSILONS),
    "source_loss": ("mean", "sum"),
    "entropy": ("confident", "all", "off"),
    "entropy_mean": ("classes", "samples"),
    "uncertainty": (*FORMS, "off"),
    "sigma_link": LINKS,
    "tensor": ("prox", "tnn", "off"),
    "prox": RULES,
    "eta_schedule": ("progress", "released"),
    "lam_rule": ("given", "active"),
    "a_init": ("zero", "random"),
}

Preset = dict[str, str | bool | int | float]

# what the released code computes
CODE: Preset = {
    "pseudo": "entropy",
    "epsilons": "released",
    "source_loss": "sum",
    "prototype_loss": True,
    "uncertainty": "off",
    "prox": "code",
    "repeat_top": True,
    "aux_every": 16,
    "a_init": "zero",
}

PRESETS: dict[str, Preset] = {
    # the equations as printed; what the paper leaves open (τ, weight of +E, floor of σ²) is ours
    "paper": {
        "normalise": "never",
        "distance": "sum",
        "entropy": "all",
        "entropy_mean": "samples",
        "entropy_weight": 0.1,
        "sigma_link": "exp",
        "sigma_floor": 0.01,
        "gate": False,
    },
    "active": {"lam_rule": "active"},
    "no-rotation": {"rotation": False},
    "tnn": {"tensor": "tnn"},
    # rows of Table 4: source-only → :e → :et → tsvdnet
    "e": {"tensor": "off", "uncertainty": "off"},
    "et": {"uncertainty": "off"},
    # the same rows in the release's weights: source-only → :code-e → :code-p (with L_dom, which Table 4 does not count
    # apart) → :code → :code-u. The release has +U as a comment only, and that line broadcasts (B, 1) against (B,): it
    # weights no sample. So +U is the last line of Eq. 13, per sample.
    "code-e": CODE | {"tensor": "off", "prototype_loss": False},
    "code-p": CODE | {"tensor": "off"},
    "code": CODE,
    "code-u": CODE | {"uncertainty": "approximate"},
}
