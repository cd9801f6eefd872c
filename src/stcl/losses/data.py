"""L_data: what a plain update minimises."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from stcl.operators.surrogate import Surrogate


class Losses(NamedTuple):
    """The terms of one update, scalars on the device; `total` carries the gradient."""

    total: Tensor
    data: Tensor
    derivative: Tensor
    gamma: Tensor


class DataOnly:
    """L_data."""

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, rows: Tensor) -> Losses:
        data = mse_loss(surrogate(a), u)
        zero = torch.zeros_like(data)
        return Losses(data, data.detach(), zero, zero)

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass
