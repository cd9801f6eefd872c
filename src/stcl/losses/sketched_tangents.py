"""The tangents DS_θ(a)[v] along a few directions per update, judged by a form. No labels."""

from typing import Protocol

from torch import Tensor

from stcl.losses.directions import SketchDirections
from stcl.operators.surrogate import Surrogate


class TangentForm(Protocol):
    """How a tangent residual becomes a loss, averaged over samples and directions.

    Called with inputs a [B, ...], predictions u = u_θ(a) [B, ...], directions v [B, q, ...] or, shared by the batch,
    [q, ...], tangents w = DS_θ(a)[v] [B, q, ...], and the training responses `label` [B, ...].
    """

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor: ...


class SketchedTangents:
    """L = form(a, u_θ(a), v, DS_θ(a)[v]) for directions v that are drawn anew at every update."""

    def __init__(self, form: TangentForm, directions: SketchDirections) -> None:
        self.form, self.directions = form, directions

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor | None, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction and the derivative loss from one pass; without labels u, the prediction is the only state."""
        v = self.directions.draw(len(a))
        prediction, w = surrogate.value_and_tangents(a, v)
        return prediction, self.form(a, prediction, v, w, label=prediction if u is None else u)

    def state_dict(self) -> dict:
        return self.directions.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.directions.load_state_dict(state)
