"""T-SVDNet (ICCV 2021) as parts: tensor algebra, prototypes, the low-rank term, uncertainty; and Algorithm 2 made of them.

With a network of your own (here one source and the target; `network`, `classifier`, `optimiser`, `batches` are yours):

    from torch.nn import functional as F
    from tsvdnet import Auxiliary, Prototypes

    prototypes = Prototypes(classes=3, domains=2, features=8)
    low_rank = Auxiliary(classes=3, domains=2, lam=0.01)

    for x, y, x_target in batches:
        f, f_target = F.normalize(network(x)), F.normalize(network(x_target))
        guesses = prototypes.pseudo_labels(classifier(f_target).softmax(1))  # -1 where none is confident
        g = prototypes([f, f_target], [y, guesses])  # similarities (C, C, D), the target last
        loss = F.cross_entropy(classifier(f), y)
        loss = loss + low_rank(g)  # (eta/2) |A - G|^2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        low_rank.step(g)  # A from G by shrinkage, then the next eta

`Uncertainty` is a head with a loss of its own. All of them are modules: their `state_dict` is their whole state.

    tensor         t-product, T-SVD, tensor nuclear norm, shrinkage, rotation
    prototypes     Prototypes; pseudo labels, class means, moving averages, Gaussian similarity, stacking
    auxiliary      Auxiliary; thresholds, the η schedules, the A-step, and when A must be zero
    uncertainty    Uncertainty; σ of a sample, and the weighted loss of Eq. 13 in its readings
    objective      the terms that Algorithm 2 descends
    options        hyper-parameters, one option for each disputed choice, presets
    disputes       the disagreements between paper and released code, by number
    method         Algorithm 2 as a `methods.contract.Method`
    diagnostics    what a record says about the state
    explain        can A be anything but zero at these settings? Arithmetic, before anything is trained
"""

from tsvdnet.auxiliary import Auxiliary as Auxiliary
from tsvdnet.prototypes import Prototypes as Prototypes
from tsvdnet.uncertainty import Uncertainty as Uncertainty
