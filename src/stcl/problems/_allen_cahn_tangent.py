"""The tangent residual of Allen-Cahn with its gradient, in few operations. This module imports torch."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Reaction(Function):
    """r = T w + w X + 3u² w at the frames after the first, and s v at the second, which v precedes.

    u is [B, nt, nx], w is [B, q, nt, nx], and v is [q, nx] or [B, q, nx]. T [nt-1, nt-1] acts on frames, X [nx, nx] on
    nodes. First frames of u and w do not enter.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, w: Tensor, v: Tensor, time: Tensor, space: Tensor, share: float) -> Tensor:
        ctx.save_for_backward(u, w, time, space)
        square, later = _later(u).square().unsqueeze(1), _later(w)
        fields = later.flatten(0, 1)
        r = torch.bmm(time.expand(len(fields), -1, -1), fields).baddbmm_(fields, space.expand(len(fields), -1, -1))
        r = r.view(later.shape).addcmul_(square, later, value=3)
        r[..., 0, :].add_(v, alpha=share)
        return r

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor | None, ...]:
        u, w, time, space = ctx.saved_tensors
        u_bar, later = None, _later(u)
        w_bar, fields = torch.zeros(w.shape, dtype=w.dtype, device=w.device), bar.flatten(0, 1)
        into = _later(w_bar).flatten(0, 1)
        into.baddbmm_(time.mT.expand(len(fields), -1, -1), fields)
        into.baddbmm_(fields, space.mT.expand(len(fields), -1, -1))
        _later(w_bar).addcmul_(later.square().unsqueeze(1), bar, value=3)
        if ctx.needs_input_grad[0]:
            u_bar = torch.zeros_like(u)
            _later(u_bar).addcmul_(later, (bar * _later(w)).sum(1), value=6)
        return u_bar, w_bar, None, None, None, None


def _later(frames: Tensor) -> Tensor:
    return frames[..., 1:, :]
