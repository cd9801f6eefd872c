"""The two reported errors, against loops and finite differences written out here."""

import numpy as np
import pytest
import torch

from stcl import problems
from stcl.operators.build import build_surrogate
from stcl.operators.settings import Network
from stcl.stages.errors import field_errors, jacobian_errors


@pytest.fixture
def setting(float64):
    problem = problems.load("diffusion", n=13)
    surrogate = build_surrogate(problem.layout, Network(modes=4, width=8, layers=2, head=16))
    a = problem.inputs(5, "test")
    u = problem.solve(a)
    v = problem.directions(3, "test")
    return surrogate, a, u, v, problem.tangents(a, u, v)


def test_field_error_is_the_mean_of_per_sample_ratios(setting):
    surrogate, a, u, _, _ = setting
    found = field_errors(surrogate, torch.tensor(a), torch.tensor(u), batch=2).numpy()
    with torch.no_grad():
        expected = [
            np.linalg.norm(surrogate(torch.tensor(a[i : i + 1]))[0].numpy() - u[i]) / np.linalg.norm(u[i])
            for i in range(5)
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_jacobian_error_is_per_sample_and_direction(setting):
    surrogate, a, _, v, w = setting
    found = jacobian_errors(surrogate, torch.tensor(a), torch.tensor(v), torch.tensor(w), batch=2, directions=2).numpy()
    step = 1e-5
    for i in range(5):
        for k in range(3):
            with torch.no_grad():
                ahead, behind = (surrogate(torch.tensor(a[i] + s * v[k])[None])[0].numpy() for s in (step, -step))
            tangent = (ahead - behind) / (2 * step)
            expected = np.linalg.norm(tangent - w[i, k]) / np.linalg.norm(w[i, k])
            assert found[i, k] == pytest.approx(expected, rel=1e-6)
