"""What only the diffusion problem claims."""

import numpy as np
import pytest
import scipy.sparse as sp
from covariances import cosine_covariance, covariance_z_scores
from scipy.linalg import cholesky_banded
from tangent_equations import Square

from stcl.problems.diffusion import Diffusion


def test_inputs_have_the_covariance_of_the_prior():
    """(10/3 I − Δ/30)⁻² on the modes kept."""
    problem = Diffusion(n=5, modes=6, kept_modes=36)
    k = np.arange(6)
    scale = np.where(k == 0, 1.0, 2.0)  # squared L² norm of the cosine's inverse
    variance = scale[:, None] * scale / (10 / 3 + np.pi**2 * (k[:, None] ** 2 + k**2) / 30) ** 2
    z = covariance_z_scores(problem.inputs(4000, "train").reshape(4000, -1), cosine_covariance(5, variance))
    assert np.abs(z).max() < 5
    assert z.std() == pytest.approx(1, abs=0.5)


def test_published_prior():
    """800 of 1600 modes carry 99.6 % of the variance; fields have standard deviation 0.98 and u stays below 0.65."""
    deviation = Diffusion()._prior[1]
    kept = np.argwhere(deviation > 0)
    assert len(kept) == 800
    assert kept.max() <= 31
    assert (kept**2).sum(1).max() <= 977
    k = np.arange(40)
    everything = 1 / (10 / 3 + np.pi**2 * (k[:, None] ** 2 + k**2) / 30) ** 2
    assert (deviation**2).sum() / everything.sum() == pytest.approx(0.9962, abs=1e-3)
    problem = Diffusion(n=33)
    a = problem.inputs(64, "train")
    assert a.std() == pytest.approx(0.978, abs=0.08)
    u = problem.solve(a)
    assert u.min() == 0
    assert 0.4 < u.max() < 0.65
    assert np.mean(u**2) == pytest.approx(1.68e-2, rel=0.3)


def test_ties_of_the_prior_are_broken_by_mode_number():
    slot, deviation, _ = Diffusion(modes=3, kept_modes=4)._prior
    assert (deviation > 0).tolist() == [[True, True, False], [True, True, False], [False, False, False]]
    assert [slot[0, 0], slot[0, 1], slot[1, 0], slot[1, 1]] == [0, 1, 2, 3]


def test_the_solver_converges_with_second_order():
    levels = [Diffusion(n=n, modes=3, kept_modes=6) for n in (17, 33, 65)]
    u = [p.solve(p.inputs(2, "train"))[:, :: 2**i, :: 2**i] for i, p in enumerate(levels)]
    order = np.log2(np.linalg.norm(u[0] - u[1]) / np.linalg.norm(u[1] - u[2]))
    assert order == pytest.approx(2, abs=0.1)


def test_the_tangent_operator_is_nearly_symmetric_and_positive():
    """At n = 65 the expanded stencil is 1.2 % away from symmetric; its symmetric part is positive definite."""
    problem = Diffusion()
    a = problem.inputs(8, "train")
    u = problem.solve(a)
    d, m = Square(problem.n), problem.n - 2
    first, second, one = d.first[:, 1:-1], d.second[:, 1:-1], np.eye(m)
    d1, d2 = sp.kron(sp.csr_array(first), one).tocsr(), sp.kron(one, sp.csr_array(first)).tocsr()
    laplacian = (sp.kron(sp.csr_array(second), one) + sp.kron(one, sp.csr_array(second))).tocsr()
    asymmetry = []
    for state, field in zip(u, a, strict=True):
        a1, a2 = (sp.diags_array(f(field).ravel()) for f in (d.along_rows, d.along_columns))
        matrix = -sp.diags_array(np.exp(d.inner(field)).ravel()) @ (laplacian + a1 @ d1 + a2 @ d2)
        matrix = matrix + sp.diags_array(3 * d.inner(state).ravel() ** 2)
        asymmetry.append(sp.linalg.norm(matrix - matrix.T) / sp.linalg.norm(matrix))
        symmetric = ((matrix + matrix.T) / 2).todia()
        band = np.zeros((m + 1, m * m))  # lower diagonals: the main one, the next node, the next row
        for offset in (0, 1, m):
            band[offset, : m * m - offset] = symmetric.diagonal(-offset)
        cholesky_banded(band, lower=True)  # raises if not positive definite
    assert np.mean(asymmetry) == pytest.approx(0.012, abs=0.003)
