"""Sums of squares of each sample and direction in few operations, with the gradient written out."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import mse_loss

from stcl.core.arrays import like

_ZERO = np.zeros(())


def squares(y: Tensor) -> Tensor:
    """Σ y² over all but the first two axes of y, [B, q]."""
    return _Squares.apply(y, None)


def weighted_squares(y: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · y² over all but the first two axes of y, [B, q]."""
    return _Squares.apply(y, weights)


def mean_square(y: Tensor) -> Tensor:
    """The mean of y² over everything."""
    return mse_loss(y, like(y, _ZERO).expand_as(y))


def dots(x: Tensor, y: Tensor) -> Tensor:
    """Σ x y over all but the first two axes, [B, q], without a gradient of its own."""
    first, second = (z.reshape(z.shape[0] * z.shape[1], -1) for z in (x, y))
    return torch.bmm(first.unsqueeze(1), second.unsqueeze(2)).view(x.shape[:2])


class _Squares(Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weights: Tensor | None) -> Tensor:
        weighted = y if weights is None else y * weights
        ctx.save_for_backward(weighted)
        return dots(weighted, y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor, None]:
        (weighted,) = ctx.saved_tensors
        return weighted * (2 * bar).view(*bar.shape, *[1] * (weighted.ndim - 2)), None
