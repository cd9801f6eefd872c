"""L_data + γ L_deriv + L_value: what one update minimises that uses inputs without labels."""

from functools import partial

import torch
from torch import Tensor

from stcl.losses import forms
from stcl.losses.data import DataLoss, Drawn, Losses
from stcl.losses.judged_weight import JudgedWeight
from stcl.losses.settings import Stcl, state_of
from stcl.losses.sketched_tangents import DirectionSource, SketchedTangents, columns_of, solved_by
from stcl.losses.unlabelled_inputs import UnlabelledInputs
from stcl.losses.unlabelled_tangents import UnlabelledTangents
from stcl.operators.surrogate import Surrogate
from stcl.problems.base import Problem


class BeyondLabels:
    """The objective L_data + γ L_deriv + β L_value.

    L_data      on the labelled batch alone
    L_deriv     on as many inputs without labels, or on both batches: the mean over all of them that count
    L_value     on the inputs without labels. β is 1 for squared errors, which count as those of L_data do. A residual
                has another scale. It has a weight of the same kind as γ, with the same λ.
    """

    def __init__(
        self,
        data_loss: DataLoss,
        term: UnlabelledTangents,
        labelled: SketchedTangents | None,
        inputs: UnlabelledInputs,
        directions: DirectionSource,
        weight: JudgedWeight,
        value_weight: JudgedWeight | None,
    ) -> None:
        """`labelled` judges the tangents at the labelled batch, too, along directions of the same source."""
        self.data_loss, self.term, self.labelled = data_loss, term, labelled
        self.inputs, self.directions = inputs, directions
        self.weight, self.value_weight = weight, value_weight
        self._measured: Tensor | None = None  # sums over updates of L_value, of the share that is kept, and of 1

    def draw(self, rows: Tensor) -> Drawn:
        a = self.inputs.draw(len(rows))
        labelled = () if self.labelled is None else self.labelled.draw(rows)
        return a, self.directions.draw(len(a)), *labelled

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: Drawn) -> Losses:
        unlabelled, v, *others = drawn
        derivative, value, kept = self.term(surrogate, unlabelled, v)
        if self.labelled is None:
            prediction = surrogate(a)
        else:
            prediction, there = self.labelled(surrogate, a, u, tuple(others))
            derivative = torch.lerp(derivative, there, len(a) / (len(a) + kept * len(unlabelled)))
        data = self.data_loss(prediction, u)
        gamma = self.weight(data, derivative, kept if self.labelled is None else None)
        self._measure(torch.stack([value.detach(), kept, torch.ones_like(kept)]))
        if self.value_weight is not None:
            value = self.value_weight(data, value, kept) * value
        return Losses(torch.addcmul(data, gamma, derivative) + value, data, derivative, gamma, value)

    def _measure(self, numbers: Tensor) -> None:
        if self._measured is None:
            self._measured = torch.zeros_like(numbers)
        self._measured += numbers

    def epoch_columns(self) -> dict[str, float]:
        """The columns of the form, the mean of L_value, and the share of the unlabelled inputs that counted."""
        columns = columns_of(self.term.form)
        if self._measured is not None:
            value, kept, updates = self._measured.tolist()
            self._measured.zero_()
            columns |= {"value": value / updates, "inputs_kept": kept / updates}
        return columns

    def ledger(self, samples: int, updates: int) -> dict[str, int]:
        unlabelled = updates * self.inputs.batch if self.inputs.batch else samples
        judged = unlabelled + (samples if self.labelled else 0)
        corrections = unlabelled if self.term.corrects else 0
        solved = solved_by(self.term.form, targets=judged * self.directions.q, corrections=corrections)
        return {"unlabelled_inputs": unlabelled} | solved

    def state_dict(self) -> dict:
        return {
            "inputs": self.inputs.state_dict(),
            "directions": self.directions.state_dict(),
            "weight": self.weight.state_dict(),
            "value_weight": self.value_weight and self.value_weight.state_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        self.inputs.load_state_dict(state["inputs"])
        self.directions.load_state_dict(state["directions"])
        self.weight.load_state_dict(state["weight"])
        if self.value_weight is not None:
            self.value_weight.load_state_dict(state["value_weight"])


def build(
    problem: Problem,
    settings: Stcl,
    data_loss: DataLoss,
    directions: DirectionSource,
    lam: float,
    responses: Tensor,
    seed: int,
) -> BeyondLabels:
    """The objective of a training with these responses, on their device; `seed` is that of the unlabelled inputs."""
    chosen = settings.settled_form
    corrects = state_of(chosen) == "corrected"
    # A corrected prediction is handed to the form as a label. The labelled batch has labels of its own.
    form = forms.load(problem, chosen.model_copy(update={"state": "label"}) if corrects else chosen)
    # Near-resonant responses have a larger norm than all training responses.
    norms = torch.linalg.vector_norm(problem.layout.score(responses).flatten(1), dim=1)
    largest = norms.max() if problem.resonant else None
    weight = partial(JudgedWeight, lam, settings.weighting, responses.device)
    return BeyondLabels(
        data_loss,
        UnlabelledTangents(problem, form, data_loss, settings.value, corrects, largest),
        SketchedTangents(form, directions) if settings.inputs == "both" else None,
        UnlabelledInputs(problem, settings.unlabelled_batch, settings.pool, responses.device, seed),
        directions,
        weight(),
        weight() if settings.value == "residual" else None,
    )
