"""T-SVDNet (ICCV 2021), usable as a library on its own.

    tensor         t-product, T-SVD, tensor nuclear norm, shrinkage, rotation
    prototypes     pseudo labels, class means, moving averages, Gaussian similarity, stacking
    uncertainty    σ of a sample, and the weighted loss of Eq. 13 in its readings
    auxiliary      thresholds, the η schedule, the A-step, and when A must be zero
    options        hyper-parameters, one option for each disputed choice, presets
    disputes       the disagreements between paper and released code, by number
    method         Algorithm 2 as a `methods.contract.Method`
    diagnostics    what a record says about the state

For example, the low-rank approximation of a tensor of similarity matrices G (C, C, D):

    from tsvdnet.tensor import rotate, shrink, unrotate
    A = unrotate(shrink(rotate(G), t=0.5))
"""
