"""Sums of squares of each sample and direction, with the gradient written out."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def weighted_squares(y: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · y² over all but the first two axes of y, [B, q]."""
    return _WeightedSquares.apply(y, weights)


def dots(x: Tensor, y: Tensor) -> Tensor:
    """Σ x y over all but the first two axes, [B, q], in one operation."""
    x, y = (z.reshape(z.shape[0] * z.shape[1], -1) for z in (x, y))
    return torch.bmm(x.unsqueeze(1), y.unsqueeze(2))


class _WeightedSquares(Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weights: Tensor) -> Tensor:
        weighted = y * weights
        ctx.save_for_backward(weighted)
        return dots(weighted, y).view(y.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor, None]:
        (weighted,) = ctx.saved_tensors
        return weighted * (2 * bar).view(*bar.shape, *[1] * (weighted.ndim - 2)), None
