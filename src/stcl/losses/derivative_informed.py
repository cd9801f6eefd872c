"""L_data + γ L_deriv: what one derivative-informed update minimises."""

from typing import Protocol

import torch
from torch import Tensor

from stcl.losses.data import DataLoss, Drawn, Losses
from stcl.losses.weighting import RatioWeight
from stcl.operators.surrogate import Surrogate


class DerivativeTerm(Protocol):
    """A loss on the surrogate's tangents.

    It is called with a batch of inputs a, their responses u, and what was drawn for them, as stcl.losses.data.Objective
    says. It gives the prediction u_θ(a), which the data loss shares, and the derivative loss.
    """

    def draw(self, rows: Tensor) -> Drawn: ...
    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: Drawn) -> tuple[Tensor, Tensor]: ...
    def epoch_columns(self) -> dict[str, float]: ...
    def ledger(self, samples: int) -> dict[str, int]: ...
    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...


class DerivativeInformed:
    """The objective L_data + γ L_deriv."""

    def __init__(self, data_loss: DataLoss, term: DerivativeTerm, weight: RatioWeight) -> None:
        self.data_loss, self.term, self.weight = data_loss, term, weight

    def draw(self, rows: Tensor) -> Drawn:
        return self.term.draw(rows)

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: Drawn) -> Losses:
        prediction, derivative = self.term(surrogate, a, u, drawn)
        data = self.data_loss(prediction, u)
        gamma = self.weight(data, derivative)
        return Losses(torch.addcmul(data, gamma, derivative), data, derivative, gamma)

    def epoch_columns(self) -> dict[str, float]:
        return self.term.epoch_columns()

    def ledger(self, samples: int, updates: int) -> dict[str, int]:
        return self.term.ledger(samples)

    def state_dict(self) -> dict:
        return {"term": self.term.state_dict(), "weight": self.weight.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.term.load_state_dict(state["term"])
        self.weight.load_state_dict(state["weight"])
