"""Faces of the grid without equations, walls and initial frames: the exact solution map has no derivative loss."""

import math

import pytest
import torch
from torch import Tensor, nn

import stcl

pytestmark = pytest.mark.usefixtures("float64")

FRAMES, NODES, STEP = 13, 11, 0.01
WIDTH = 1 / (NODES - 1)


class Exact(nn.Module):
    """The solution map of one of the problems below, times a parameter that is one."""

    def __init__(self, solve):
        super().__init__()
        self.solve, self.factor = solve, nn.Parameter(torch.ones(()))

    def forward(self, a):
        return self.factor * self.solve(a)


def laplacian(u: Tensor, periodic: bool) -> Tensor:
    """u_xx at the nodes inside, or at all nodes of a circle."""
    if periodic:
        return (u.roll(1, -1) - 2 * u + u.roll(-1, -1)) / WIDTH**2
    return (u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2]) / WIDTH**2


def heat(a: Tensor, periodic: bool) -> Tensor:
    """Implicit Euler steps of u_t = u_xx from a [B, x] to [B, t, x]; walls keep the value that a has there."""
    matrix = torch.eye(NODES)
    inner = slice(None) if periodic else slice(1, -1)
    matrix[inner] -= STEP * laplacian(torch.eye(NODES), periodic).T
    step, frames = torch.linalg.inv(matrix), [a]
    for _ in range(FRAMES - 1):
        frames.append(frames[-1] @ step.T)
    return torch.stack(frames, 1)


def heat_residual(u: Tensor, a: Tensor, periodic: bool) -> Tensor:
    u = torch.cat([a[:, None], u[:, 1:]], 1)
    change = (u[:, 1:] - u[:, :-1]) / STEP
    return (change if periodic else change[..., 1:-1]) - laplacian(u[:, 1:], periodic)


def waves(count: int = 8) -> Tensor:
    """Random sums of sines that vanish at both walls, [count, x]."""
    x = torch.linspace(0, 1, NODES)
    modes = torch.stack([torch.sin(k * math.pi * x) / k for k in (1, 2, 3, 4)])
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(0)) @ modes


def bumps(*centres: float) -> Tensor:
    """Initial states that are zero but near their centres, [count, x]."""
    x = torch.arange(NODES) / NODES
    return torch.exp(-(((x - torch.tensor(centres)[:, None]) / 0.06) ** 2))


def derivative_loss(equation: stcl.Equation, solve, a: Tensor, form: str = "solved_target") -> float:
    """Relative to the mean square of the exact tangents along the same directions."""
    model = Exact(solve)
    loss = stcl.TangentConsistency(equation, form=form, directions=a)
    loss(model, a, model(a).detach(), data=torch.tensor(1.0))
    return float(loss.last.derivative / (solve(a) - solve(torch.zeros_like(a))).square().mean())


def test_walls_are_held_beside_an_initial_frame_that_comes_from_the_input():
    """The frame does not enter, the walls do. Only the walls have one value for all states."""
    a = waves()
    equation = stcl.Equation(lambda u, a: heat_residual(u, a, False), a, heat(a, False), time_axis=0)
    assert equation.held_nodes == 2 * FRAMES
    assert derivative_loss(equation, lambda a: heat(a, False), a) < 1e-20


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("form", ["solved_target", "auto"])
def test_an_initial_frame_is_not_drawn_to_zero_where_a_few_states_vanish(form, count):
    """The states are zero at most nodes of the first frame, and their tangents are not."""
    a = bumps(0.2, 0.8, 0.5, 0.3, 0.65, 0.9, 0.1, 0.4)
    u = heat(a, True)
    equation = stcl.Equation(lambda u, a: heat_residual(u, a, True), a[:count], u[:count], time_axis=0)
    assert derivative_loss(equation, lambda a: heat(a, True), a.roll(1, -1), form) < 1e-20


def test_one_wall_may_come_from_the_input_and_the_other_be_fixed():
    """−u'' = 0 between u = a₀ and u = 1."""
    x = torch.linspace(0, 1, NODES)
    a = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))

    def residual(u, a):
        return -laplacian(torch.cat([a[:, :1], u[:, 1:]], 1), False)

    def solve(a):
        return a[:, :1] * (1 - x) + x

    equation = stcl.Equation(residual, a, solve(a))
    assert equation.held_nodes == 1
    assert derivative_loss(equation, solve, a) < 1e-20


def test_a_node_that_is_not_first_gets_an_equation_where_the_others_have_one():
    """−u'' = a with a slope at the left and a wall at the right: refused without the wall's equation, right with it."""
    matrix = 2 * torch.eye(NODES) - torch.eye(NODES).roll(1, 0).tril() - torch.eye(NODES).roll(-1, 0).triu()
    matrix[0, 1], matrix[-1] = -2, torch.eye(NODES)[-1]
    matrix = matrix / WIDTH**2
    a = torch.cat([waves()[:, :-1] + 1, torch.zeros(8, 1)], 1)

    def solve(a):
        return torch.linalg.solve(matrix, a.T).T

    def residual(u, a):
        return (u[:, None] * matrix).sum(-1) - a

    with pytest.raises(stcl.EquationError, match=r"the first node has none.*give these an equation each"):
        stcl.Equation(lambda u, a: residual(u, a)[:, :-1], a, solve(a))
    assert derivative_loss(stcl.Equation(residual, a, solve(a)), solve, a) < 1e-20
