"""The tangent residual of Navier-Stokes with its gradient, in few operations. This module imports torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Linearised(Function):
    """−µΔₕw + (y·∇ₕ)w + (w·∇ₕ)y + ∇ₕπ − v, ∇ₕ·w and the boundary values of w.

    The shapes are (y, p) [B, 3, n, n], (w, π) [B, q, 3, n, n], and v [q, 2, n, n] or [B, q, 2, n, n]. The transport is
    the same in y and w but for the sum over the q tangents in the gradient of y. So both are differentiated together,
    as one stack [B, 1+q, 3, n, n], by one matrix product along each axis: `differences` [2m, n] are ∂ₕ, then −µ ∂²ₕ, at
    the interior nodes. `boundary` says where in a flat [3, n, n] the boundary values are.
    """

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, w: Tensor, v: Tensor, differences: Tensor, boundary: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        stack = torch.cat([u.unsqueeze(1), w], 1)
        fields = stack.flatten(0, 2)
        tables = differences.expand(len(fields), -1, -1)
        along1 = torch.bmm(fields[:, 1:-1, :], tables.mT).unflatten(0, stack.shape[:3])
        along2 = torch.bmm(tables, fields[:, :, 1:-1]).unflatten(0, stack.shape[:3])
        ctx.save_for_backward(stack, along1, along2, differences, boundary)

        (y1, y2), (w1, w2) = _velocities(stack)
        (slope1, bend1), (slope2, bend2) = along1.chunk(2, -1), along2.chunk(2, -2)
        momentum = bend1[:, 1:, :2] + bend2[:, 1:, :2]
        momentum.addcmul_(y1, slope1[:, 1:, :2]).addcmul_(y2, slope2[:, 1:, :2])
        momentum.addcmul_(w1, slope1[:, :1, :2]).addcmul_(w2, slope2[:, :1, :2])
        momentum[:, :, 0].add_(slope1[:, 1:, 2])
        momentum[:, :, 1].add_(slope2[:, 1:, 2])
        momentum.sub_(v[..., 1:-1, 1:-1])
        divergence = slope1[:, 1:, 0] + slope2[:, 1:, 1]
        return momentum, divergence, stack.flatten(2)[:, 1:].index_select(2, boundary)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor, divergence_bar: Tensor, boundary_bar: Tensor) -> tuple[Tensor | None, ...]:
        stack, along1, along2, differences, boundary = ctx.saved_tensors
        (y1, y2), (w1, w2) = _velocities(stack)
        slope1, slope2 = along1.chunk(2, -1)[0], along2.chunk(2, -2)[0]
        bars = along1.new_zeros(2, *along1.shape)  # of both products; they have equally many values
        along1_bar, along2_bar = bars[0], bars[1].view(along2.shape)
        (slope1_bar, bend1_bar), (slope2_bar, bend2_bar) = along1_bar.chunk(2, -1), along2_bar.chunk(2, -2)
        for axis, (y, slope_bar, bend_bar) in enumerate(((y1, slope1_bar, bend1_bar), (y2, slope2_bar, bend2_bar))):
            slope_bar[:, 1:, :2].addcmul_(y, bar)
            slope_bar[:, 1:, axis].add_(divergence_bar)
            slope_bar[:, 1:, 2].add_(bar[:, :, axis])
            bend_bar[:, 1:, :2].add_(bar)
        of_state = ctx.needs_input_grad[0]
        if of_state:
            torch.sum(w1 * bar, 1, out=slope1_bar[:, 0, :2])
            torch.sum(w2 * bar, 1, out=slope2_bar[:, 0, :2])

        stack_bar = torch.zeros_like(stack)
        fields = stack_bar.flatten(0, 2)
        tables = differences.expand(len(fields), -1, -1)
        fields[:, 1:-1, :].baddbmm_(along1_bar.flatten(0, 2), tables)
        fields[:, :, 1:-1].baddbmm_(tables.mT, along2_bar.flatten(0, 2))
        stack_bar.flatten(2)[:, 1:].index_add_(2, boundary, boundary_bar)
        for axis, slope in enumerate((slope1, slope2)):
            velocity_bar = stack_bar[:, :, axis, 1:-1, 1:-1]
            for component in range(2):
                velocity_bar[:, 1:].addcmul_(slope[:, :1, component], bar[:, :, component])
            if of_state:
                velocity_bar[:, 0].add_((slope[:, 1:, :2] * bar).sum((1, 2)))
        return stack_bar[:, 0] if of_state else None, stack_bar[:, 1:], None, None, None


def products(y: Tensor, mu: float, h: float) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """(w, π) ↦ −µΔₕw + (y·∇ₕ)w + (w·∇ₕ)y + ∇ₕπ and ∇ₕ·w at velocities y [B, 2, n, n], node by node without a gradient.

    Many products with the same y are cheaper this way than by matrix products, which are made for a backward pass.
    """
    half = 1 / (2 * h)
    slope1, slope2 = half * (y[..., 1:-1, 2:] - y[..., 1:-1, :-2]), half * (y[..., 2:, 1:-1] - y[..., :-2, 1:-1])
    y1, y2 = (half * y[:, None, k : k + 1, 1:-1, 1:-1] for k in (0, 1))
    diffusion = mu / h**2
    centre = torch.stack([slope1[:, 0], slope2[:, 1]], 1).unsqueeze(1) + 4 * diffusion
    east, west, north, south = y1 - diffusion, -y1 - diffusion, y2 - diffusion, -y2 - diffusion
    cross1, cross2 = slope2[:, None, 0], slope1[:, None, 1]  # ∂₂y1, ∂₁y2

    def product(w: Tensor) -> tuple[Tensor, Tensor]:
        velocity, pressure, inside = w[:, :, :2], w[:, :, 2], w[:, :, :, 1:-1, 1:-1]
        momentum = centre * inside[:, :, :2]
        momentum.addcmul_(east, velocity[..., 1:-1, 2:]).addcmul_(west, velocity[..., 1:-1, :-2])
        momentum.addcmul_(north, velocity[..., 2:, 1:-1]).addcmul_(south, velocity[..., :-2, 1:-1])
        momentum[:, :, 0].addcmul_(cross1, inside[:, :, 1])
        momentum[:, :, 1].addcmul_(cross2, inside[:, :, 0])
        momentum[:, :, 0].add_(pressure[..., 1:-1, 2:], alpha=half).sub_(pressure[..., 1:-1, :-2], alpha=half)
        momentum[:, :, 1].add_(pressure[..., 2:, 1:-1], alpha=half).sub_(pressure[..., :-2, 1:-1], alpha=half)
        first, second = velocity.unbind(2)
        divergence = first[..., 1:-1, 2:] - first[..., 1:-1, :-2]
        return momentum, divergence.add_(second[..., 2:, 1:-1]).sub_(second[..., :-2, 1:-1]).mul_(half)

    return product


def _velocities(stack: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Both velocities at the interior nodes of the state [B, 1, 1, m, m] and of the tangents [B, q, 1, m, m]."""
    first, second = (stack[:, :, k : k + 1, 1:-1, 1:-1] for k in (0, 1))
    return (first[:, :1], second[:, :1]), (first[:, 1:], second[:, 1:])
