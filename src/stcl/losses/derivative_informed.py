"""L_data + γ L_deriv: what one derivative-informed update minimises."""

from typing import Protocol

from torch import Tensor
from torch.nn.functional import mse_loss

from stcl.losses.data import Losses
from stcl.losses.weighting import RatioWeight
from stcl.operators.surrogate import Surrogate


class DerivativeTerm(Protocol):
    """A loss on the surrogate's tangents; `rows` are the batch's positions in the training set, on the host."""

    def __call__(self, surrogate: Surrogate, a: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]: ...
    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...


class DerivativeInformed:
    """L_data + γ L_deriv."""

    def __init__(self, term: DerivativeTerm, weight: RatioWeight) -> None:
        self.term, self.weight = term, weight

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, rows: Tensor) -> Losses:
        prediction, derivative = self.term(surrogate, a, rows)
        data = mse_loss(prediction, u)
        gamma = self.weight(data, derivative)
        return Losses(data + gamma * derivative, data.detach(), derivative.detach(), gamma)

    def state_dict(self) -> dict:
        return {"term": self.term.state_dict(), "weight": self.weight.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.term.load_state_dict(state["term"])
        self.weight.load_state_dict(state["weight"])
