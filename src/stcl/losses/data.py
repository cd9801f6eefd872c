"""L_data: what a plain update minimises, and what every objective gives back."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import mse_loss

from stcl.core.arrays import like
from stcl.core.layout import Layout
from stcl.operators.surrogate import Surrogate


class Losses(NamedTuple):
    """The terms of one update, scalars on the device: total = data + γ · derivative (+ value)."""

    total: Tensor
    data: Tensor
    derivative: Tensor
    gamma: Tensor
    value: Tensor | None = None  # on predictions without a label, with its weight


Drawn = tuple[Tensor, ...]  # tensors on the device


class Objective(Protocol):
    """What the training loop asks for at every update.

    With what was drawn for it, an update is a function of tensors on the device: no number is read, nothing is drawn,
    and state stays in the same memory. So it can be recorded and replayed.
    """

    def draw(self, rows: Tensor) -> Drawn:
        """The random part of an update of a batch; `rows`, on the host, are its positions in the training set."""

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: Drawn) -> Losses: ...
    def epoch_columns(self) -> dict[str, float]:
        """What was measured since the last call, for the history of the training."""

    def ledger(self, samples: int, updates: int) -> dict[str, int]:
        """What was solved during so many updates with so many labelled samples in all; the same for every seed."""

    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...


class DataLoss:
    """L_data = mean (u_θ − u)² over all values of the scored responses.

    Responses that are not scored, a pressure for example, count with a weight, and only up to a constant per sample:
    their errors' means over the nodes are removed.
    """

    def __init__(self, layout: Layout, auxiliary_weight: float) -> None:
        self.layout, self.auxiliary_weight = layout, auxiliary_weight
        self._shares: dict[int, np.ndarray] = {}

    def __call__(self, prediction: Tensor, u: Tensor) -> Tensor:
        if self.layout.scored == self.layout.responses:
            return mse_loss(prediction, u)
        return _WeightedSquares.apply(prediction, u, like(prediction, self._share(len(u))), len(self.layout.scored))

    def _share(self, batch: int) -> np.ndarray:
        """The square root of what a squared error counts, for each response."""
        if batch not in self._shares:
            scored, unscored = len(self.layout.scored), len(self.layout.responses) - len(self.layout.scored)
            values = batch * np.prod(self.layout.grid)
            counts = [1 / (scored * values)] * scored + [self.auxiliary_weight / (unscored * values)] * unscored
            self._shares[batch] = np.sqrt(counts).reshape(-1, *[1] * len(self.layout.grid))
        return self._shares[batch]


class _WeightedSquares(Function):
    """‖s (u_θ − u)‖² without the means over the nodes of the responses from `scored` on; s is [responses, 1, ...].

    Removing a mean is a projection, so what is left of the error is all that the gradient needs.
    """

    @staticmethod
    def forward(ctx: Any, prediction: Tensor, u: Tensor, share: Tensor, scored: int) -> Tensor:
        error = prediction - u
        nodes = tuple(range(1 - share.ndim, 0))
        unscored = error.narrow(-share.ndim, scored, len(share) - scored)
        unscored.sub_(unscored.mean(nodes, keepdim=True))
        ctx.save_for_backward(error.mul_(share), share)
        return torch.linalg.vector_norm(error).square_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor | None, ...]:
        error, share = ctx.saved_tensors
        prediction_bar = error * (bar * share).mul_(2)
        return prediction_bar, -prediction_bar if ctx.needs_input_grad[1] else None, None, None


class DataOnly:
    """The objective L_data alone."""

    def __init__(self, data_loss: DataLoss) -> None:
        self.data_loss = data_loss
        self._zero: Tensor | None = None

    def draw(self, rows: Tensor) -> Drawn:
        return ()

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: Drawn = ()) -> Losses:
        data = self.data_loss(surrogate(a), u)
        if self._zero is None:
            self._zero = torch.zeros_like(data)
        return Losses(data, data, self._zero, self._zero)

    def epoch_columns(self) -> dict[str, float]:
        return {}

    def ledger(self, samples: int, updates: int) -> dict[str, int]:
        return {}

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass
