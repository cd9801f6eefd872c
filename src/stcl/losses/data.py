"""L_data: what a plain update minimises, and what every objective gives back."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.operators.surrogate import Surrogate


class Losses(NamedTuple):
    """The terms of one update, scalars on the device: total = data + γ · derivative."""

    total: Tensor
    data: Tensor
    derivative: Tensor
    gamma: Tensor


class Objective(Protocol):
    """What the training loop asks for at every update; `rows` are the batch's positions in the training set."""

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, rows: Tensor) -> Losses: ...
    def epoch_columns(self) -> dict[str, float]:
        """What was measured since the last call, for the history of the training."""

    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...


class DataLoss:
    """L_data = mean (u_θ − u)² over all values of the scored responses.

    Responses that are not scored, a pressure for example, count with a weight, and only up to a constant per sample:
    their errors' means over the nodes are removed.
    """

    def __init__(self, layout: Layout, auxiliary_weight: float) -> None:
        self.layout, self.auxiliary_weight = layout, auxiliary_weight

    def __call__(self, prediction: Tensor, u: Tensor) -> Tensor:
        layout, error = self.layout, prediction - u
        loss = layout.score(error).square().mean()
        if layout.scored == layout.responses:
            return loss
        nodes = tuple(range(-len(layout.grid), 0))
        unscored = error.movedim(nodes[0] - 1, 0)[len(layout.scored) :]
        unscored = unscored - unscored.mean(nodes, keepdim=True)
        return loss + self.auxiliary_weight * unscored.square().mean()


class DataOnly:
    """The objective L_data alone."""

    def __init__(self, data_loss: DataLoss) -> None:
        self.data_loss = data_loss

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, rows: Tensor) -> Losses:
        data = self.data_loss(surrogate(a), u)
        zero = torch.zeros_like(data)
        return Losses(data, data, zero, zero)

    def epoch_columns(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass
