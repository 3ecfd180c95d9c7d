"""The algebra of tsvdnet.tensor, against its definitions and against a reference that loops over the full FFT."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tsvdnet import tensor as T

TOLERANCE = 1e-10

shapes = st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 8))
seeds = st.integers(0, 2**31)


def draw(shape: tuple[int, ...], seed: int, kind: str = "normal") -> Tensor:
    """Tensors that are easy, and those that break an SVD: zero, constant (rank one), repeated singular values."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "zero":
        return torch.zeros_like(x)
    if kind == "constant":
        return torch.full_like(x, 0.7)
    if kind == "repeated":
        return torch.eye(shape[0], shape[1], dtype=torch.float64)[:, :, None].repeat(1, 1, shape[2])
    return x


kinds = st.sampled_from(["normal", "normal", "zero", "constant", "repeated"])
examples = settings(max_examples=60, deadline=None)


def reference_shrink(g: Tensor, t: float) -> Tensor:
    """A loop over all n3 slices of the full FFT, with numpy."""
    gf = np.fft.fft(g.numpy(), axis=2)
    for k in range(g.shape[2]):
        u, s, vh = np.linalg.svd(gf[:, :, k], full_matrices=False)
        gf[:, :, k] = (u * np.maximum(s - t, 0)) @ vh
    return torch.from_numpy(np.fft.ifft(gf, axis=2).real)


def reference_sigma(g: Tensor) -> np.ndarray:
    gf = np.fft.fft(g.numpy(), axis=2)
    return np.stack([np.linalg.svd(gf[:, :, k], compute_uv=False) for k in range(g.shape[2])])


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)


# -- product, transpose, identity, rotation ------------------------------------------------------------------------


@examples
@given(shapes, st.integers(1, 5), seeds)
def test_t_product_equals_its_definition_by_circular_convolution(shape, n4, seed):
    a, b = draw(shape, seed), draw((shape[1], n4, shape[2]), seed + 1)
    n3 = shape[2]
    convolution = [sum(a[:, :, m] @ b[:, :, (k - m) % n3] for m in range(n3)) for k in range(n3)]
    close(T.t_product(a, b), torch.stack(convolution, dim=2))


@examples
@given(shapes, seeds)
def test_identity_is_neutral_on_both_sides(shape, seed):
    a = draw(shape, seed)
    close(T.t_product(T.identity(shape[0], shape[2], dtype=a.dtype), a), a)
    close(T.t_product(a, T.identity(shape[1], shape[2], dtype=a.dtype)), a)


@examples
@given(shapes, seeds)
def test_transpose_reverses_products_and_is_its_own_inverse(shape, seed):
    a, b = draw(shape, seed), draw((shape[1], 3, shape[2]), seed + 1)
    close(T.t_transpose(T.t_product(a, b)), T.t_product(T.t_transpose(b), T.t_transpose(a)))
    assert torch.equal(T.t_transpose(T.t_transpose(a)), a)


def test_reversing_all_slices_as_the_paper_words_it_is_not_a_transpose():
    """D23: with the literal reading even the identity is not orthogonal."""
    i = T.identity(3, 4, dtype=torch.float64)
    literal = i.transpose(0, 1).flip(2)
    assert not torch.allclose(T.t_product(literal, i), i)
    close(T.t_product(T.t_transpose(i), i), i)


def test_rotation_puts_the_domains_into_every_slice_and_back():
    g = draw((4, 4, 3), 0)
    r = T.rotate(g)
    assert r.shape == (4, 3, 4)
    for i in range(4):
        for j in range(4):
            for d in range(3):
                assert r[j, d, i] == g[i, j, d]
    assert torch.equal(T.unrotate(r), g)


def test_rotating_twice_is_not_the_inverse_rotation():
    """D25: Algorithm 2's last line, read literally, gives a tensor of another shape."""
    g = draw((4, 4, 3), 0)
    assert T.rotate(T.rotate(g)).shape != g.shape


# -- T-SVD, norm, rank ---------------------------------------------------------------------------------------------


@examples
@given(shapes, seeds, kinds)
def test_t_svd_multiplies_back_with_real_orthogonal_f_diagonal_factors(shape, seed, kind):
    g = draw(shape, seed, kind)
    n1, n2, n3 = shape
    u, s, v = T.t_svd(g)
    assert u.shape == (n1, n1, n3)
    assert s.shape == shape
    assert v.shape == (n2, n2, n3)
    close(T.t_product(T.t_product(u, s), T.t_transpose(v)), g)
    for q in (u, v):
        unit = T.identity(q.shape[0], n3, dtype=q.dtype)
        close(T.t_product(T.t_transpose(q), q), unit)
        close(T.t_product(q, T.t_transpose(q)), unit)
    off = ~torch.eye(n1, n2, dtype=torch.bool)
    assert s[off].abs().max() == 0 if off.any() else True


@examples
@given(shapes, seeds, kinds)
def test_nuclear_norm_and_singular_values_equal_the_naive_sum_over_all_slices(shape, seed, kind):
    g = draw(shape, seed, kind)
    expected = reference_sigma(g)
    close(T.singular_values(g), torch.from_numpy(expected))
    assert T.tensor_nuclear_norm(g).item() == pytest.approx(expected.sum(), rel=TOLERANCE, abs=TOLERANCE)


def test_nuclear_norm_of_ones_is_all_in_the_zero_frequency():
    """A rank-one slice of entries n3: σ = n3·√(n1·n2). Rotated all-ones similarity: the bound C·√(C·D)."""
    assert T.tensor_nuclear_norm(torch.ones(10, 5, 10, dtype=torch.float64)).item() == pytest.approx(10 * np.sqrt(50))


def test_rank_is_a_vector_over_frequencies():
    g = draw((6, 4, 5), 3)
    assert T.tensor_rank(g).tolist() == [4] * 5
    assert T.tensor_rank(torch.ones(6, 4, 5)).tolist() == [1, 0, 0, 0, 0]
    assert T.tensor_rank(torch.zeros(6, 4, 5)).tolist() == [0] * 5
    assert T.tensor_rank(g, tol=1e9).tolist() == [0] * 5


def test_identical_domains_give_rank_one_in_every_rotated_slice():
    generator = torch.Generator().manual_seed(0)
    one = torch.rand(7, 7, generator=generator, dtype=torch.float64)
    assert T.tensor_rank(T.rotate(torch.stack([one + one.T] * 4, dim=2))).tolist() == [1] * 7


@examples
@given(shapes, seeds, kinds)
def test_nuclear_norm_has_a_subgradient_everywhere(shape, seed, kind):
    """TNN(B) ≥ TNN(G) + ⟨∂, B − G⟩ also where singular values repeat or vanish: finite, and never a wrong slope."""
    g, b = draw(shape, seed, kind).requires_grad_(), draw(shape, seed + 1)
    norm = T.tensor_nuclear_norm(g)
    (slope,) = torch.autograd.grad(norm, g)
    assert torch.isfinite(slope).all()
    assert T.tensor_nuclear_norm(b) >= norm + (slope * (b - g)).sum() - TOLERANCE


def test_nuclear_norm_gradient_equals_finite_differences():
    assert torch.autograd.gradcheck(T.tensor_nuclear_norm, draw((3, 2, 5), 1).requires_grad_())


# -- shrinkage -----------------------------------------------------------------------------------------------------


@examples
@given(shapes, seeds, kinds, st.floats(0, 6))
def test_shrink_equals_the_loop_over_full_fft_slices(shape, seed, kind, t):
    g = draw(shape, seed, kind)
    close(T.shrink(g, t), reference_shrink(g, t))


@pytest.mark.parametrize("shape", [(40, 3, 9), (3, 40, 8), (20, 5, 20)])
@pytest.mark.parametrize("rank", [1, 3])
def test_shrink_of_tall_and_wide_rank_deficient_slices_equals_the_loop(shape, rank):
    """Tall slices take the way over the triangular factor; zero singular values must not divide by zero."""
    g = T.t_product(draw((shape[0], rank, shape[2]), 0), draw((rank, shape[1], shape[2]), 1))
    for t in (0.0, 1e-9, 1.0, 30.0):
        close(T.shrink(g, t), reference_shrink(g, t))


def by_svd(g: Tensor, t: T.Threshold) -> Tensor:
    """`shrink` with the SVD of every slice, whatever its shape."""
    u, sigma, vh = torch.linalg.svd(torch.fft.rfft(g, dim=2).permute(2, 0, 1), full_matrices=False)
    kept = (sigma - (t(sigma) if callable(t) else t)).clamp_min(0)
    return torch.fft.irfft(((u * kept[:, None, :]) @ vh).permute(1, 2, 0), n=g.shape[2], dim=2)


@pytest.mark.parametrize("kind", ["random", "similar", "ones"])
def test_shrink_by_gram_matrices_equals_the_svd_to_1e_9_on_345_classes(kind):
    """Entries in [0, 1], σ_1 up to 15,700: thresholds that cut nearly nothing, some and nearly all, and the code's rule."""
    noise = torch.rand((345, 6, 345), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    same = torch.eye(345, dtype=torch.float64)[:, None, :].clamp_min(0.82).expand(345, 6, 345)
    g = {"random": noise, "similar": 0.99 * same + 0.01 * noise, "ones": torch.ones_like(noise)}[kind]
    for t in (0.0, 1e-6, 0.3, 2.0, 100.0, 5e3, lambda sigma: 30.0 / (sigma + 1e-5)):
        torch.testing.assert_close(T.shrink(g, t), by_svd(g, t), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n3", [8, 9])
def test_a_few_surviving_frequencies_are_summed_to_what_the_inverse_fft_gives(n3):
    """Frequency 0, one in the middle, and of an even length the last, which has no mirror."""
    which = np.array([0, 2, 4])
    half = np.zeros((n3 // 2 + 1, 40, 3), complex)
    half[which] = np.fft.rfft(draw((n3, 40, 3), 0).numpy(), None, 0)[which]
    np.testing.assert_allclose(T._from_few(half[which], which, n3), np.fft.irfft(half, n3, 0), rtol=0, atol=1e-14)


def test_a_threshold_near_rounding_takes_the_way_without_squares(monkeypatch):
    """Squares lose what is below 1e-8 of σ_1; where such values survive, the slices themselves are decomposed."""
    u, v = torch.linalg.qr(draw((40, 3), 0))[0], torch.linalg.qr(draw((3, 3), 1))[0]
    g = (u * torch.tensor([1.0, 3e-8, 1e-8], dtype=torch.float64) @ v)[:, :, None]
    torch.testing.assert_close(T.shrink(g, 2e-8), by_svd(g, 2e-8), rtol=0, atol=1e-15)
    monkeypatch.setattr(T, "_sharp", lambda *_: True)
    assert (T.shrink(g, 2e-8) - by_svd(g, 2e-8)).abs().max() > 1e-11


def test_what_is_not_finite_is_refused_in_tall_slices_too():
    for bad in (torch.nan, torch.inf):
        g = torch.ones(40, 3, 5)
        g[7, 1, 2] = bad
        with pytest.raises(ValueError, match="NaN or infinite"):
            T.shrink(g, 1.0)


@pytest.mark.parametrize("shape", [(10, 5, 10), (7, 4, 7), (40, 3, 9)])
def test_single_precision_on_accelerators_goes_by_one_eigh_and_loses_no_digit_of_float32(shape, monkeypatch):
    g = torch.rand(shape, generator=torch.Generator().manual_seed(0)).double()
    monkeypatch.setattr(torch.linalg, "svd", None)
    for t in (1e-3, 0.5, 2.0):
        found = T._shrink(torch, g.permute(2, 0, 1), lambda sigma, t=t: t, None, exact=False).permute(1, 2, 0)
        torch.testing.assert_close(found, reference_shrink(g, t), rtol=0, atol=1e-9)


def test_a_second_call_does_not_change_the_result_of_the_first():
    """Calls of the same shape share memory inside."""
    g = draw((40, 3, 9), 0)
    first = T.shrink(g, 0.5)
    kept = first.clone()
    T.shrink(2 * g, 0.5)
    assert torch.equal(first, kept)


@pytest.mark.parametrize("shape", [(40, 3, 9), (6, 5, 8)])
@pytest.mark.parametrize("again", [None, 2])
def test_the_path_of_accelerators_equals_the_path_of_the_cpu(shape, again):
    g, rule = draw(shape, 5).permute(2, 0, 1), lambda sigma: 2.0 / (sigma + 1e-5)
    close(T._shrink(torch, g, rule, again), torch.from_numpy(T._shrink(np, g.numpy(), rule, again)))


@examples
@given(shapes, seeds, st.floats(0.01, 3), st.floats(1e-3, 1))
def test_no_perturbation_lowers_the_objective_of_the_proximal_point(shape, seed, t, size):
    """shrink(G, t) = argmin_A ½‖A − G‖² + (t/n3)·TNN(A)."""
    g = draw(shape, seed)

    def objective(a: Tensor) -> float:
        return (0.5 * (a - g).square().sum() + t / shape[2] * T.tensor_nuclear_norm(a)).item()

    a = T.shrink(g, t)
    for step in range(5):
        assert objective(a + size * draw(shape, seed + step + 1)) >= objective(a) - TOLERANCE


def test_the_papers_norm_and_the_papers_threshold_differ_by_n3():
    """λ·TNN + (η/2)‖A − G‖² has its minimum at the threshold n3·λ/η, not at the printed λ/η (Parseval)."""
    g, lam, eta = draw((6, 4, 8), 0), 0.3, 0.9

    def objective(a: Tensor) -> float:
        return (lam * T.tensor_nuclear_norm(a) + eta / 2 * (a - g).square().sum()).item()

    exact, printed = T.shrink(g, 8 * lam / eta), T.shrink(g, lam / eta)
    assert objective(exact) < objective(printed)
    for step in range(20):
        assert objective(exact + 1e-3 * draw(g.shape, step)) > objective(exact)


def test_a_threshold_may_depend_on_the_singular_value():
    """The released code's rule: σ survives only if σ² exceeds (λ/η)·n3."""
    g = draw((8, 4, 6), 2)
    sigma = T.singular_values(g)
    weight = sigma.median().item() ** 2
    a = T.shrink(g, lambda s: weight / (s + 1e-5))
    expected = (sigma - weight / (sigma + 1e-5)).clamp_min(0)
    close(T.singular_values(a), expected.sort(dim=1, descending=True).values)
    assert 0 < (expected > 0).sum() < expected.numel()


@pytest.mark.parametrize("n3, pair", [(10, {4, 6}), (7, {3, 4}), (345, {172, 173}), (3, {1, 2}), (4, {1, 3})])
def test_repeat_top_shrinks_exactly_the_pair_of_frequencies_that_the_released_loop_visits_twice(n3, pair):
    """D4: {⌊n3/2⌋+1, n3−⌊n3/2⌋−1}, both twice, and nothing else."""
    assert pair == {n3 // 2 + 1, n3 - n3 // 2 - 1}
    g = draw((5, 3, n3), 1)
    once, twice = T.singular_values(T.shrink(g, 0.4)), T.singular_values(T.shrink(g, 0.4, repeat_top=True))
    changed = {k for k in range(n3) if not torch.allclose(once[k], twice[k], atol=1e-9)}
    assert changed == pair
    again = sorted(pair)[0]
    close(twice[again], (once[again] - 0.4).clamp_min(0))


@pytest.mark.parametrize("n3", [1, 2])
def test_repeat_top_has_no_pair_in_one_or_two_slices(n3):
    g = draw((4, 3, n3), 1)
    assert torch.equal(T.shrink(g, 0.3, repeat_top=True), T.shrink(g, 0.3))


def test_a_threshold_above_the_largest_singular_value_gives_exact_zeros():
    g = torch.rand(10, 5, 10, generator=torch.Generator().manual_seed(0))
    assert torch.equal(T.shrink(g, 1000.0), torch.zeros_like(g))


def test_shrink_gives_no_gradient():
    assert not T.shrink(draw((3, 3, 3), 0).requires_grad_(), 0.1).requires_grad


# -- dtypes and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_dtype_comes_back_as_it_went_in(dtype):
    g = draw((4, 3, 5), 0).to(dtype)
    u, s, v = T.t_svd(g)
    assert {x.dtype for x in (u, s, v, T.shrink(g, 0.1), T.tensor_nuclear_norm(g), T.t_product(u, s))} == {dtype}
    torch.testing.assert_close(T.shrink(g, 0.1), reference_shrink(g.double(), 0.1).to(dtype))


def test_float32_loses_no_digits_inside():
    """A difference of 1e-6 of the largest singular value is right to the last float32 digit."""
    g = draw((6, 4, 5), 0).float()
    t = 0.999999 * T.singular_values(g).max().item()
    torch.testing.assert_close(T.shrink(g, t), reference_shrink(g.double(), t).float(), rtol=1e-6, atol=0)


def test_what_is_not_a_real_third_order_tensor_is_refused_in_words():
    with pytest.raises(ValueError, match=r"real tensor \(n1, n2, n3\)"):
        T.shrink(torch.ones(3, 3, 3, dtype=torch.int64), 1.0)
    with pytest.raises(ValueError, match=r"real tensor \(n1, n2, n3\)"):
        T.t_svd(torch.ones(3, 3, 3, dtype=torch.complex64))
    with pytest.raises(ValueError, match="NaN or infinite"):
        T.shrink(torch.full((3, 3, 3), torch.nan), 1.0)


@pytest.mark.parametrize("library", [np, torch])
def test_an_svd_that_does_not_converge_is_repeated_with_a_jitter_and_a_warning(library, monkeypatch):
    real, calls = library.linalg.svd, []

    def fails_once(x, **options):
        calls.append(x)
        if len(calls) == 1:
            raise library.linalg.LinAlgError("did not converge")
        return real(x, **options)

    monkeypatch.setattr(library.linalg, "svd", fails_once)
    g = draw((5, 4, 6), 0).permute(2, 0, 1)
    with pytest.warns(UserWarning, match="did not converge"):
        out = T._shrink(library, g.numpy() if library is np else g, lambda sigma: 0.5, None)
    assert len(calls) == 2
    expected = reference_shrink(g.permute(1, 2, 0), 0.5).permute(2, 0, 1)
    torch.testing.assert_close(torch.as_tensor(out), expected, rtol=0, atol=1e-9)
