"""r = A w + B v: the sensitivity equation, left-hand side."""

import torch
from torch import Tensor

from stcl.problems.base import Problem


def tangent_residual(problem: Problem, u: Tensor, a: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """r = DF(u, a)[w, v] = A(u,a) w + B(u,a) v, [B, q, ...], by one forward-mode pass of the residual F.

    u [B, *response_shape], a [B, *input_shape], w [B, q, *response_shape]; directions v [B, q, *input_shape]
    or, shared by the batch, [q, *input_shape].
    """

    def along(w_k: Tensor, v_k: Tensor) -> Tensor:
        return torch.func.jvp(problem.residual, (u, a), (w_k, v_k.expand_as(a)))[1]

    return torch.func.vmap(along, in_dims=(1, 0 if v.ndim == a.ndim else 1), out_dims=1)(w, v)
