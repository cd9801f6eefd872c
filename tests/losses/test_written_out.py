"""Derivatives that problems write out are those of their residuals, and so are the gradients that flow through them."""

import pytest
import torch
from reference import reference
from torch import Tensor

from stcl.problems.base import Problem
from stcl.tangent.five_point import five_point, on_interior
from stcl.tangent.residual import input_derivative, products, tangent_residual
from stcl.tangent.unknowns import as_blocks

NAMES = ("diffusion", "helmholtz", "burgers", "allen_cahn", "navier_stokes")


def by_forward_mode(problem: Problem, u: Tensor, a: Tensor, w: Tensor, v: Tensor) -> list[Tensor]:
    """The blocks of DF(u, a)[w, v], one direction after the other."""
    v = v.expand(len(a), *v.shape) if v.ndim == a.ndim else v
    one_by_one = [as_blocks(torch.func.jvp(problem.residual, (u, a), (w[:, k], v[:, k]))[1]) for k in range(w.shape[1])]
    return [torch.stack(blocks, dim=1) for blocks in zip(*one_by_one, strict=True)]


def random_states(name: str, shared: bool) -> tuple[Problem, Tensor, Tensor, Tensor, Tensor]:
    """States, inputs, tangents and directions that solve nothing and vanish nowhere."""
    ref = reference(name)
    generator = torch.Generator().manual_seed(0)
    u, w = (torch.randn(x.shape, generator=generator, dtype=x.dtype, requires_grad=True) for x in (ref.u, ref.w))
    v = ref.v if shared else torch.randn(3, 2, *ref.v.shape[1:], generator=generator, dtype=u.dtype)
    return ref.problem, u, ref.a, w, v


def close(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11 * float(expected.detach().abs().max()))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", [name for name in NAMES if reference(name).problem.tangent_residual is not None])
def test_the_tangent_residual(name, shared):
    problem, u, a, w, v = random_states(name, shared)
    written, forward = as_blocks(tangent_residual(problem, u, a, w, v)), by_forward_mode(problem, u, a, w, v)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in forward]
    gradients = [
        torch.autograd.grad(sum((x * y).sum() for x, y in zip(blocks, weights, strict=True)), (u, w))
        for blocks in (written, forward)
    ]
    for got, expected in zip((*written, *gradients[0]), (*forward, *gradients[1]), strict=True):
        close(got, expected)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", [name for name in NAMES if reference(name).problem.input_derivative is not None])
def test_the_input_derivative(name, shared):
    problem, u, a, w, v = random_states(name, shared)
    expected = by_forward_mode(problem, u, a, torch.zeros_like(w), v)
    for got, block in zip(as_blocks(input_derivative(problem, u, a, v)), expected, strict=True):
        close(got, block)


@pytest.mark.parametrize("name", [name for name in NAMES if reference(name).problem.state_products is not None])
def test_products_with_the_state(name):
    problem, u, a, w, v = random_states(name, shared=False)
    expected = by_forward_mode(problem, u, a, w, torch.zeros_like(v))
    for got, block in zip(as_blocks(products(problem, u, a)(w)), expected, strict=True):
        close(got, block)


@pytest.mark.parametrize("name", [name for name in NAMES if reference(name).problem.five_coefficients is not None])
def test_the_five_coefficients(name):
    problem, u, a, *_ = random_states(name, shared=True)
    u, x = u.detach(), torch.randn(3, 4, 11, 11)
    close(five_point(problem, u, a)(x), on_interior(problem, u, a)(x))


def test_another_residual_does_not_inherit_them():
    diffusion = type(reference("diffusion").problem)

    class Cooled(diffusion):
        def residual(self, u, a):
            return super().residual(u, a) + u[..., 1:-1, 1:-1]

    class Finer(diffusion):
        n: int = 15

    assert Cooled(n=13).tangent_residual is None
    assert Cooled(n=13).input_derivative is None
    assert Cooled(n=13).five_coefficients is None
    assert Cooled(n=13).march is None
    assert Finer().tangent_residual is not None
