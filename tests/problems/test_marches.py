"""Marches: steps from one frame to the next, against derivatives, dense matrices and the problems' own solvers."""

import numpy as np
import pytest
import torch

from stcl import problems
from stcl.losses import settings
from stcl.losses.newton import Newton
from stcl.losses.solvers.march import March
from stcl.problems._cyclic_reduction import CyclicReduction

OPTIONS = {
    "burgers": {"nx": 12, "nt": 14, "solver_nx": 10, "solver_nt": 28, "probe_nt": 28},  # as many nodes as the network
    "allen_cahn": {"nx": 16, "nt": 12, "time_step": 0.02},
}


@pytest.fixture(params=OPTIONS)
def marched(request):
    problem = problems.load(request.param, **OPTIONS[request.param])
    a, u = problem.states(2)
    return problem, a, u + 0.1 * torch.randn(u.shape, generator=torch.Generator().manual_seed(0), dtype=u.dtype)


def free(problem) -> torch.Tensor:
    """The nodes that have an equation."""
    mask = torch.zeros(problem.layout.response_shape, dtype=torch.bool)
    mask[(slice(1, -1), slice(1, None)) if problem.layout.axes == ("x", "t") else (slice(1, None),)] = True
    return mask


def test_a_sweep_solves_the_linearised_steps(marched):
    """The Jacobian of the steps' own residual, by reverse mode, applied to what a sweep gives."""
    problem, a, u = marched
    march, mask = problem.march, free(problem)
    g = torch.randn(2, 3, *march.residual(u, a).shape[1:], dtype=torch.float64)
    x = march.propagate(u, a)(g)
    assert x.shape[2:] == problem.layout.response_shape
    assert (x[:, :, ~mask] == 0).all()
    for i in range(2):
        jacobian = torch.autograd.functional.jacobian(lambda z, i=i: march.residual(z[None], a[i : i + 1])[0], u[i])
        image = torch.einsum("abcd,kcd->kab", jacobian, x[i])
        torch.testing.assert_close(image, g[i], rtol=1e-8, atol=1e-8)


def test_the_input_derivative_is_that_of_the_steps(marched):
    problem, a, u = marched
    v = torch.randn(3, *problem.layout.input_shape, dtype=torch.float64)
    found = problem.march.input_derivative(u, a, v)
    for i in range(2):
        jacobian = torch.autograd.functional.jacobian(
            lambda z, i=i: problem.march.residual(u[i : i + 1], z[None])[0], a[i]
        )
        torch.testing.assert_close(found[i], torch.einsum("abc,kc->kab", jacobian, v), rtol=1e-8, atol=1e-10)
    own = problem.march.input_derivative(u, a, v.expand(2, -1, -1))
    torch.testing.assert_close(own, found)


@pytest.mark.parametrize("m", [1, 7, 20, 21, 64, 127, 128])
def test_cyclic_reduction_solves_tridiagonal_systems(m):
    rng = np.random.default_rng(m)
    lower, centre, upper = (torch.as_tensor(rng.uniform(-1, 1, (2, 3, m))) for _ in range(3))
    centre = centre + 3
    r = torch.as_tensor(rng.standard_normal((3, 4, m)))
    factor = CyclicReduction(lower, centre, upper)
    for n in range(2):
        matrix = torch.diag_embed(centre[n])
        matrix += torch.diag_embed(lower[n, :, 1:], -1) + torch.diag_embed(upper[n, :, :-1], 1)
        torch.testing.assert_close(factor.solve(n, r), torch.linalg.solve(matrix, r.mT).mT)


def test_the_steps_of_burgers_are_those_of_the_solver():
    """With the solver's nodes, and a frame for each of its steps, its responses solve the march's equation."""
    problem = problems.load("burgers", nx=22, nt=41, solver_nx=20, solver_nt=40)
    a = problem.inputs(3, "val")
    u = torch.as_tensor(problem.solve(a))
    defect = problem.march.residual(u, torch.as_tensor(problem.network_input(a)))
    assert defect.abs().max() < 1e-6  # of the size of u/τ, 40 u, and Newton's method stops at 1e-8 u


def test_a_newton_step_of_burgers_finds_the_solvers_responses():
    """A quarter of the solver's nodes and frames: layers at the walls are thinner than a cell of the network's grid."""
    problem = problems.load("burgers", nx=32, nt=50)
    a = problem.inputs(8, "val")
    u = torch.as_tensor(problem.solve(a))
    a = torch.as_tensor(problem.network_input(a))
    correct = Newton(problem, March(problem, settings.March(), "parabolic"))

    def error(x: torch.Tensor) -> float:
        return ((x - u).flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)).mean().item()

    nearby = torch.lerp(u, u.roll(1, 0), 0.1)
    assert error(correct(u, a).x) < 0.02  # what the network's frames and nodes miss
    assert error(nearby) > 0.1
    assert error(correct(nearby, a).x) < 0.02


def test_the_steps_of_allen_cahn_pass_through_the_solution():
    """Split steps of second order: an eighth of the defect of each with twice the frames."""
    defects = []
    for nt in (21, 41):
        problem = problems.load("allen_cahn", nx=16, nt=nt, time_step=1e-4)
        a, u = problem.states(3)
        defects.append(float(problem.march.residual(u, a).abs().mean()))
    assert 6 < defects[0] / defects[1] < 9


def test_a_problem_with_another_residual_has_no_march():
    class Other(problems.load("allen_cahn").__class__):
        def residual(self, u, a):
            return 2 * super().residual(u, a)

    assert Other(nx=16, nt=12).march is None
    assert problems.load("diffusion", n=9).march is None
