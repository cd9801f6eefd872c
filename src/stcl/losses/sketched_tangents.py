"""The tangents DS_θ(a)[v] along a few directions per update, judged by a form. They need no labels."""

from typing import Any, Protocol

from torch import Tensor

from stcl.core.interfaces import Measured, TangentForm, TargetForm
from stcl.losses.newton import SOLVES


class DirectionSource(Protocol):
    """Where the q directions of an update come from: [q, ...] shared by the batch, or [B, q, ...]."""

    q: int

    def draw(self, batch: int) -> Tensor: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class TangentModel(Protocol):
    """A model that gives its value and its tangents in one pass."""

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]: ...


def solved_by(form: TangentForm, targets: int, corrections: int) -> dict[str, int]:
    """What so many targets and Newton corrections cost a form: products with A and, of a Krylov method, its steps."""
    if not isinstance(form, TargetForm):
        return {}
    solves = targets + SOLVES * corrections
    counts = {"targets": targets, "corrections": corrections, "products": solves * form.solver.products}
    return counts if form.solver.steps is None else counts | {"steps": solves * form.solver.steps}


def columns_of(form: TangentForm) -> dict[str, float]:
    """What a form has measured since the last call, for the history of the training."""
    return form.epoch_columns() if isinstance(form, Measured) else {}


class SketchedTangents:
    """L = form(a, u_θ(a), v, DS_θ(a)[v]) for directions v that are drawn anew at every update."""

    def __init__(self, form: TangentForm, directions: DirectionSource) -> None:
        self.form, self.directions = form, directions

    def draw(self, rows: Tensor) -> tuple[Tensor, ...]:
        """The directions of an update of as many samples."""
        return (self.directions.draw(len(rows)),)

    def __call__(
        self, surrogate: TangentModel, a: Tensor, u: Tensor | None, drawn: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """The prediction and the derivative loss from one pass; without labels u, the prediction is the only state."""
        (v,) = drawn
        prediction, w = surrogate.value_and_tangents(a, v)
        return prediction, self.form(a, prediction, v, w, label=prediction if u is None else u)

    def epoch_columns(self) -> dict[str, float]:
        return columns_of(self.form)

    def ledger(self, samples: int) -> dict[str, int]:
        """What was solved for so many samples."""
        corrects = isinstance(self.form, TargetForm) and self.form.state == "corrected"
        corrections = samples if corrects else 0
        return solved_by(self.form, targets=samples * self.directions.q, corrections=corrections)

    def state_dict(self) -> dict[str, Any]:
        return self.directions.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.directions.load_state_dict(state)
