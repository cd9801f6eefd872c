"""What only the Helmholtz problem claims."""

import numpy as np
import pytest
import torch
from covariances import cosine_covariance, covariance_z_scores

from stcl.problems._square import solve_onto
from stcl.problems.helmholtz import Helmholtz


def test_published_fields():
    problem = Helmholtz()
    a = problem.inputs(1, "train").astype(np.float32).astype(np.float64)
    u = problem.solve(a)[0]
    assert a[0, 0, 0] == pytest.approx(-0.048124, abs=5e-7)
    assert a[0, 32, 32] == pytest.approx(-0.021045, abs=5e-7)
    assert a[0, 64, 64] == pytest.approx(0.061808, abs=5e-7)
    assert np.linalg.norm(a[0]) == pytest.approx(5.41488, abs=5e-6)
    assert np.linalg.norm(u) == pytest.approx(0.293381, abs=5e-7)


@pytest.mark.slow
def test_published_filter():
    """The whole pool of the published training split."""
    problem = Helmholtz()
    assert problem.candidates(2048) == 4096
    u = problem.solve(problem.inputs(4096, "train").astype(np.float32).astype(np.float64))
    kept = np.flatnonzero(problem.accept(u))
    assert len(kept) == 3563
    assert [kept[n - 1] for n in (128, 512, 1024, 2048)] == [139, 591, 1177, 2369]
    norm = np.linalg.norm(u, axis=(1, 2))
    assert 3 * np.median(norm) == pytest.approx(1.0578, abs=5e-5)
    assert np.mean(u[kept] ** 2) == pytest.approx(4.4e-5, rel=0.05)


def test_the_filter_keeps_norms_up_to_three_medians_of_the_pool():
    u = np.zeros((5, 17, 17))
    u[:, 3, 3] = [1.0, 2.0, 3.0, 9.0, 9.1]
    assert Helmholtz(n=17).accept(u).tolist() == [True, True, True, True, False]


def test_inputs_have_the_covariance_of_the_prior():
    problem = Helmholtz(n=5)
    k = np.arange(40)
    variance = (12.5 + 0.5 * np.pi**2 * (k[:, None] ** 2 + k**2)) ** -2.0
    z = covariance_z_scores(problem.inputs(4000, "train").reshape(4000, -1), cosine_covariance(5, variance))
    assert np.abs(z).max() < 5
    assert z.std() == pytest.approx(1, abs=0.5)


def test_the_solver_converges_with_second_order():
    levels = [Helmholtz(n=n, modes=3) for n in (17, 33, 65)]
    u = [p.solve(p.inputs(4, "train"))[:, :: 2**i, :: 2**i] for i, p in enumerate(levels)]
    order = np.log2(np.linalg.norm(u[0] - u[1]) / np.linalg.norm(u[1] - u[2]))
    assert order == pytest.approx(2, abs=0.1)


def test_the_solver_reproduces_a_sine():
    """With a = 0 and a discrete eigenvector as source the response is that eigenvector over its eigenvalue."""
    problem = Helmholtz(n=17)
    sine = np.outer(np.sin(np.pi * problem.nodes), np.sin(2 * np.pi * problem.nodes))
    eigenvalue = sum(4 / problem.h**2 * np.sin(k * np.pi * problem.h / 2) ** 2 for k in (1, 2))
    x = np.zeros((1, 1, 17, 17))
    solve_onto(problem._factorise(np.zeros((17, 17))), sine[None, 1:-1, 1:-1, None].copy(), x)
    np.testing.assert_allclose(x[0, 0], sine / (eigenvalue - problem.kappa**2), atol=1e-14)


def test_the_tangent_operator_is_symmetric_and_almost_always_has_one_negative_eigenvalue():
    """97 % of the kept draws have one negative eigenvalue, the others none."""
    problem = Helmholtz(n=17)
    a = problem.inputs(256, "train")
    kept = problem.accept(problem.solve(a))
    negative = []
    for field in torch.from_numpy(a[kept]):
        # the equation is linear in u: its matrix does not depend on the state
        matrix = torch.func.jacfwd(problem.residual)(torch.zeros_like(field), field)
        matrix = matrix[:, :, 1:-1, 1:-1].reshape(225, 225).numpy()
        assert np.abs(matrix - matrix.T).max() == 0
        eigenvalues = np.linalg.eigvalsh(matrix)
        negative.append((eigenvalues < 0).sum())
        assert np.abs(eigenvalues).min() > 1  # the filter leaves nothing near resonance
    assert set(negative) <= {0, 1}
    assert np.mean(negative) == pytest.approx(0.97, abs=0.02)
