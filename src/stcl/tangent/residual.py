"""r = A w + B v, the left-hand side of the sensitivity equation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stcl.core.errors import EquationError
from stcl.core.interfaces import Differentiable, DiscreteEquation
from stcl.tangent.scalar_factors import ScalarFactors


def tangent_residual(equation: Differentiable, u: Tensor, a: Tensor, w: Tensor, v: Tensor) -> Any:
    """r = DF(u, a)[w, v] = A(u,a) w + B(u,a) v, [B, q, ...], by one forward-mode pass of the residual F.

    The shapes are u [B, *response_shape], a [B, *input_shape] and w [B, q, *response_shape]. Directions v are
    [B, q, *input_shape] or, shared by the batch, [q, *input_shape]. Where F comes in blocks, so does r. An equation may
    write r out as its own `tangent_residual`, where that is measurably faster.
    """
    if equation.tangent_residual is not None:
        return equation.tangent_residual(u, a, w, v)

    def along(w_k: Tensor, v_k: Tensor) -> Any:
        return _forward(equation.residual, (u, a), (w_k, v_k.expand_as(a)))

    return torch.func.vmap(along, in_dims=(1, 0 if v.ndim == a.ndim else 1), out_dims=1)(w, v)


def state_derivative(equation: Differentiable, u: Tensor, a: Tensor, w: Tensor) -> Any:
    """A(u,a) w, with shapes as in `tangent_residual`."""

    def along(w_k: Tensor) -> Any:
        return _forward(equation.residual, (u, a), (w_k, torch.zeros_like(a)))

    return torch.func.vmap(along, in_dims=1, out_dims=1)(w)


def products(equation: DiscreteEquation, u: Tensor, a: Tensor) -> Callable[[Tensor], Any]:
    """w ↦ A(u,a) w without a gradient, as the equation has written it out or by forward mode."""
    if equation.state_products is not None:
        return equation.state_products(u, a)
    written = equation.tangent_residual
    if written is None:
        return lambda w: state_derivative(equation, u, a, w)
    return lambda w: written(u, a, w, a.new_zeros(()).expand(len(a), w.shape[1], *a.shape[1:]))


def input_derivative(equation: Differentiable, u: Tensor, a: Tensor, v: Tensor) -> Any:
    """B(u,a) v, with shapes as in `tangent_residual`. It is [B, q, ...] also for shared directions."""
    if equation.input_derivative is not None:
        return equation.input_derivative(u, a, v)

    def along(v_k: Tensor) -> Any:
        # A block that does not depend on a has a derivative that does not depend on v_k, which vmap would not move.
        found = _forward(equation.residual, (u, a), (torch.zeros_like(u), v_k.expand_as(a)))
        free = 0 * v_k.sum()
        return found if isinstance(found, Tensor) else type(found)(*(block + free for block in found))

    return torch.func.vmap(along, in_dims=0 if v.ndim == a.ndim else 1, out_dims=1)(v)


def _forward(function: Callable, at: tuple[Tensor, ...], along: tuple[Tensor, ...]) -> Any:
    with ScalarFactors():
        return torch.func.jvp(function, at, along)[1]


def single_block(r: Any, form: str) -> Tensor:
    """The residual as one tensor; a form that does not know how to weigh blocks refuses them."""
    if not isinstance(r, Tensor):
        raise EquationError(
            f"{form} takes a residual that is one tensor, got the blocks {', '.join(r._fields)}. If they are momentum "
            f"and divergence, use preconditioned_residual; else stack the equations of several fields along the first "
            f"axis after the batch, and leave equations of walls out"
        )
    return r
