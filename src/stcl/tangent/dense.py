"""A(u, a) as dense matrices, for a batch of states at once."""

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.residual import state_derivative
from stcl.tangent.unknowns import Unknowns

VALUES = 2**22  # values of the fields that are pushed through the residual together


def matrices(equation: DiscreteEquation, unknowns: Unknowns, u: Tensor, a: Tensor) -> Tensor:
    """A [B, unknowns, unknowns] at u [B, ...] and a [B, ...], as many columns at a time as memory suggests."""
    columns = torch.eye(len(unknowns), dtype=u.dtype, device=u.device)
    parts = []
    for few in columns.split(max(VALUES // u.numel(), 1)):
        fields = unknowns.embed(few).expand(len(u), len(few), *unknowns.response_shape)
        parts.append(unknowns.join(state_derivative(equation, u, a, fields)))
    return torch.cat(parts, 1).mT
