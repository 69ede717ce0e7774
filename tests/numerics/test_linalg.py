"""Factorisations against NumPy's, on well and badly conditioned inputs, alone and in a batch.

Tolerances are in units of rounding: 1e-12 where a dozen operations on numbers of size 1 lie between the two
sides, times the condition number where an inverse is taken.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from sourcewise.numerics.linalg import Array, gram_factor, information, matmul, orthogonalize, psd_root

SCALES = {"even": np.ones(4), "bad": np.array([1e-9, 1.0, 1e6, 1e12])}


def full_rank(seed: int, batch: int, scale: Array) -> Array:
    """Rows (4, 7, batch) of very different lengths."""
    return np.random.default_rng(seed).normal(size=(4, 7, batch)) * scale[:, None, None]


def deficient(seed: int, batch: int, scale: Array) -> Array:
    """The third row is a combination of the first two, the fourth is zero."""
    rows = full_rank(seed, batch, np.ones(4))
    rows[2] = 2.0 * rows[0] - rows[1]
    rows[3] = 0.0
    return rows * scale[:, None, None]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_a_triangle_inverts_and_its_basis_is_orthonormal(scale: Array, batch: int) -> None:
    rows = full_rank(1, batch, scale)
    found = orthogonalize(rows)
    assert found.kept.all()
    for b in range(batch):
        upper = np.linalg.qr(rows[..., b].T)[1]
        signs = np.sign(np.diag(upper))
        expected = np.linalg.inv((signs[:, None] * upper).T)
        relative = found.inverse[..., b] * scale  # entry (i, j) of L⁻¹ has the size 1 / scale_j
        np.testing.assert_allclose(relative, expected * scale, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.basis[..., b] @ found.basis[..., b].T, np.eye(4), atol=1e-13)
        np.testing.assert_allclose(found.inverse[..., b] @ rows[..., b], found.basis[..., b], atol=1e-12)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_dependent_and_empty_rows_are_dropped(scale: Array, batch: int) -> None:
    rows = deficient(2, batch, scale)
    found = orthogonalize(rows)
    assert found.kept.tolist() == [[True] * batch, [True] * batch, [False] * batch, [False] * batch]
    assert (found.rank == 2).all()
    assert not found.inverse[2:].any()
    assert not found.inverse[:, 2:].any()
    assert not found.basis[2:].any()
    for b in range(batch):
        angles = subspace_angles(found.basis[:2, :, b].T, rows[:2, :, b].T)
        assert angles.max() < 1e-7  # arccos of 1 − eps is √eps


def test_a_whitened_vector_has_the_length_that_the_pseudo_inverse_says() -> None:
    """‖L⁻¹g‖² = gᵀΩ⁺g for g in the range of a singular Ω."""
    rows = deficient(3, 1, np.ones(4))
    g = rows[..., 0] @ np.arange(7.0)
    white = matmul(orthogonalize(rows).inverse, g[:, None])[:, 0]
    omega = rows[..., 0] @ rows[..., 0].T
    assert white @ white == pytest.approx(g @ np.linalg.pinv(omega, rcond=1e-12) @ g, rel=1e-11)


@pytest.mark.parametrize("make", [full_rank, deficient])
def test_a_batch_is_a_loop(make: object) -> None:
    rows = make(4, 6, SCALES["bad"])  # type: ignore[operator]
    grams = np.einsum("ikb,jkb->bij", rows, rows)
    together, factors = orthogonalize(rows), gram_factor(grams)
    for b in range(6):
        alone = orthogonalize(rows[..., b : b + 1])
        assert (alone.kept[:, 0] == together.kept[:, b]).all()
        for field in ("inverse", "basis", "pivots"):
            left, right = getattr(alone, field)[..., 0], getattr(together, field)[..., b]
            size = np.abs(right).max(axis=-1, keepdims=True) + 1e-300
            np.testing.assert_allclose(left / size, right / size, atol=1e-11)
        one = gram_factor(grams[b : b + 1])[..., 0]
        size = np.sqrt(np.diag(grams[b]))[:, None] + 1e-300
        np.testing.assert_allclose(one / size, factors[..., b] / size, atol=1e-10)


def test_factorising_leaves_its_input_alone() -> None:
    rows = deficient(10, 1, np.ones(4))
    grams = np.einsum("ikb,jkb->bij", rows, rows)
    before = grams.copy(), rows.copy()
    gram_factor(grams)
    orthogonalize(rows)
    assert (grams == before[0]).all()
    assert (rows == before[1]).all()


def test_condition_is_one_for_orthogonal_rows_and_grows_with_dependence() -> None:
    rows = np.eye(3)[:, :, None] * np.array([1e-6, 1.0, 1e6])[:, None, None]
    assert orthogonalize(rows).condition[0] == pytest.approx(1.0, abs=1e-12)
    leaning = np.array([[1.0, 0.0], [1.0, 1e-4]])[:, :, None]
    assert orthogonalize(leaning).condition[0] == pytest.approx(1e4, rel=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_a_gram_factor_is_a_cholesky_factor(scale: Array, batch: int) -> None:
    rows = full_rank(5, batch, scale)
    grams = np.einsum("ikb,jkb->bij", rows, rows)
    factors = gram_factor(grams)
    for b in range(batch):
        unit = np.linalg.cholesky(grams[b] / np.outer(scale, scale))
        np.testing.assert_allclose(factors[..., b] / scale[:, None], unit, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_gram_factor_of_dependent_terms_gives_the_matrix_back(batch: int) -> None:
    rows = deficient(6, batch, np.ones(4))
    grams = np.einsum("ikb,jkb->bij", rows, rows)
    factors = gram_factor(grams)
    for b in range(batch):
        assert not factors[:, 2:, b].any()
        np.testing.assert_allclose(factors[..., b] @ factors[..., b].T, grams[b], atol=1e-12)


def test_a_root_of_a_weight_gives_the_weight_back() -> None:
    rows = np.random.default_rng(7).normal(size=(5, 3))
    weight = rows @ rows.T  # rank 3 of 5
    root = psd_root(weight)
    assert root.shape == (3, 5)
    np.testing.assert_allclose(root.T @ root, weight, atol=1e-13)


@pytest.mark.parametrize(("left", "right"), [(1, 1), (4, 4), (1, 4), (4, 1)])
def test_products_of_batches_broadcast(left: int, right: int) -> None:
    random = np.random.default_rng(8)
    a, b = random.normal(size=(3, 5, left)), random.normal(size=(5, 2, 6, right))
    shape = max(left, right)
    expected = np.einsum("ijb,jklb->iklb", np.broadcast_to(a, (3, 5, shape)), np.broadcast_to(b, (5, 2, 6, shape)))
    np.testing.assert_allclose(matmul(a, b), expected, atol=1e-13)


def test_information_inverts_what_is_determined() -> None:
    jacobian = np.random.default_rng(9).normal(size=(6, 3)) * np.array([1e-8, 1.0, 1e8])
    found = information(jacobian)
    scale = 1.0 / np.array([1e-8, 1.0, 1e8])
    expected = np.linalg.inv((jacobian * scale).T @ (jacobian * scale))
    assert found.rank == 3
    np.testing.assert_allclose(found.inverse / np.outer(scale, scale), expected, rtol=1e-11)
    assert all(found.identifies(axis) for axis in np.eye(3))


def test_information_tells_identified_directions_from_others() -> None:
    """Only a + b and c are seen; a and b alone, and a − b, are not."""
    jacobian = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 3.0]]) * np.array([1e-6, 1e-6, 1e6])
    found = information(jacobian)
    assert found.rank == 2
    verdicts = {(1, 1, 0): True, (0, 0, 1): True, (5, 5, -2): True, (1, 0, 0): False, (1, -1, 0): False}
    assert {k: found.identifies(np.array(k, dtype=float)) for k in verdicts} == verdicts
    assert not found.identifies(np.array([1.0, 1.001, 0.0]))


def test_information_of_nothing_identifies_nothing() -> None:
    found = information(np.zeros((2, 2)))
    assert found.rank == 0
    assert not found.identifies(np.array([1.0, 0.0]))
    assert not found.inverse.any()
