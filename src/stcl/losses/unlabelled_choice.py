"""The term at unlabelled inputs for an equation and a form; whether it corrects values is tried on solved responses."""

from functools import partial

from torch import Tensor
from torch.nn.functional import mse_loss

from stcl.core.interfaces import DiscreteEquation, OperatorClass, TangentForm, TargetForm
from stcl.core.layout import Layout
from stcl.losses.rule import WORTH_CORRECTING
from stcl.losses.settings import FormSettings
from stcl.losses.settle import in_words
from stcl.losses.unlabelled_tangents import SOLVED, UnlabelledTangents

VALUES = ("auto", "none", "corrected")  # what a user may ask for


def unlabelled_term(
    equation: DiscreteEquation, form: TangentForm, settings: FormSettings, kind: OperatorClass | None, value: str
) -> tuple[UnlabelledTangents, list[str]]:
    """The term of a form, with these settings, for an A of this class, and why values are not corrected if they could.

    value  "corrected" draws them to themselves after a Newton step, "none" does not. "auto" does, where the form solves
           for its target and such a step leaves solved responses as they are, to 5 %.
    """
    a, u = equation.states(8)
    term = partial(UnlabelledTangents, equation, form, partial(_error, equation.layout))
    if not isinstance(form, TargetForm):
        if value == "corrected":
            raise ValueError(f"value='corrected' needs a form that solves for its target, not {in_words(settings)}")
        return term(value="none"), []
    # An indefinite operator may be nearly singular. What is larger than every label is taken for a resonance.
    largest = equation.layout.score(u).flatten(1).norm(dim=1).max() if kind == "indefinite" else None
    beyond = term(value="corrected", correct=True, largest=largest)
    if beyond.kept_from_zero(u, a) < 0.5:
        raise ValueError(
            f"the solver of {in_words(settings)} does not solve for most of your own responses to {SOLVED:.0%}, so "
            f"it cannot tell which unlabelled inputs are near a resonance; give the form with more steps"
        )
    change = beyond.change(u, a) if value == "auto" else 0.0
    if value == "none" or change > WORTH_CORRECTING:
        beyond.value = "none"
    if change > WORTH_CORRECTING:
        return beyond, [f"a Newton step moves your labels by {change:.0%}: values are not drawn to it"]
    return beyond, []


def _error(layout: Layout, prediction: Tensor, u: Tensor) -> Tensor:
    """The mean squared error of the scored responses."""
    return mse_loss(layout.score(prediction), layout.score(u))
