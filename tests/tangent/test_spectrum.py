"""Extreme eigenvalues, solves and small eigenvalues by products alone, against numpy's."""

import numpy as np
import pytest
import torch

from stcl.tangent.spectrum import ritz_values, smallest_eigenvalue, solve

N = 60


def matrix(symmetric: bool) -> torch.Tensor:
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    found = (q * np.concatenate([[-7.0, 0.5], np.linspace(1, 40, N - 2)])) @ q.T
    return torch.as_tensor(found if symmetric else found + 0.3 * rng.standard_normal((N, N)))


@pytest.mark.parametrize("symmetric", [True, False])
def test_all_steps_give_all_eigenvalues(symmetric):
    a = matrix(symmetric)
    values, weights = ritz_values(lambda x: a @ x, torch.randn(N), N, symmetric)
    exact = np.linalg.eigvalsh(a) if symmetric else np.linalg.eigvals(a)
    np.testing.assert_allclose(np.sort_complex(values.numpy()), np.sort_complex(exact), rtol=1e-6, atol=1e-8)
    if symmetric:
        np.testing.assert_allclose(weights.sum(), 1)


def test_few_steps_give_the_outer_eigenvalues():
    a = matrix(True)
    values, _ = ritz_values(lambda x: a @ x, torch.randn(N), 25, symmetric=True)
    exact = np.linalg.eigvalsh(a)
    np.testing.assert_allclose([values[0], values[-1]], [exact[0], exact[-1]], rtol=1e-3)
    assert (values >= exact[0] - 1e-10).all()
    assert (values <= exact[-1] + 1e-10).all()


def test_a_space_that_ends_early():
    values, _ = ritz_values(lambda x: 3 * x, torch.randn(N), 10, symmetric=True)
    np.testing.assert_allclose(values, [3.0])


def test_a_solve_stops_at_its_tolerance():
    a, g = matrix(False), torch.randn(N)
    steps = []
    for tolerance in (1e-2, 1e-8):
        products = []
        x, residual = solve(lambda x, seen=products: seen.append(1) or a @ x, g, lambda x: x / 2, 200, tolerance)
        assert residual <= tolerance
        torch.testing.assert_close(residual, float((g - a @ x).norm() / g.norm()), rtol=1e-3, atol=1e-12)
        steps.append(len(products))
    assert steps[0] < steps[1] <= N


def test_the_smallest_eigenvalue_by_inverse_iteration():
    a = matrix(True)
    square = a @ a
    found = smallest_eigenvalue(lambda x: torch.linalg.solve(square, x), torch.randn(N), tolerance=1e-6, iterations=200)
    np.testing.assert_allclose(found, 0.25, rtol=1e-3)
