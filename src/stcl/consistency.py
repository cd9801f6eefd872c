"""The sketched tangent consistency loss for any torch model and any residual."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stcl.core.arrays import unit_norm
from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.equation import Equation
from stcl.losses import forms
from stcl.losses.data import Losses
from stcl.losses.directions import combinations
from stcl.losses.rule import choose
from stcl.losses.settings import (
    FormSettings,
    KrylovTarget,
    LerayOseen,
    NormalizedResidual,
    PreconditionedResidual,
    Residual,
    Weighting,
)
from stcl.losses.sketched_tangents import SketchedTangents
from stcl.losses.weighting import RatioWeight
from stcl.probe import probe
from stcl.tangents import TangentError, value_and_tangents

DataLossOf = Tensor | Callable[[Tensor], Tensor]  # a data loss, or a function that computes it from the prediction

FORMS = ("residual", "normalized_residual", "preconditioned_residual", "krylov_target")


class TangentConsistency:
    """The term γ · L_deriv(A w + B v), to be added to a data loss.

    w = DS_θ(a)[v] is the model's tangent along each of q directions v, which are drawn anew at every update.

    equation    an Equation, a residual function F(u, a), or a problem of this package. A bare function becomes an
                Equation of the first batch it sees.
    form        how the tangent residual becomes a loss. "auto" probes the operator and applies stcl.losses.rule. A name
                (residual, normalized_residual, preconditioned_residual or krylov_target) stands for that form, and its
                metric, if it has one, is fitted to the operator. A form with its settings, such as
                Residual(detach_state=False), is taken as it is.
    directions  where v comes from. None takes random combinations, of unit norm, of what the batch's inputs differ by.
                "white" takes white noise of unit norm. A tensor [N, ...] is drawn from, and a function
                count ↦ [count, ...] is called.
    q           number of directions for each sample and update
    lam         λ, the ratio of derivative to data loss: γ = λ EMA(L_data) / EMA(L_deriv)

    >>> import torch, stcl
    >>> def residual(u, a):  # −u'' + u³ = a on 17 nodes, u = 0 at both ends
    ...     return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 256 + u[:, 1:-1] ** 3 - a[:, 1:-1]
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(17, 32), torch.nn.Tanh(), torch.nn.Linear(32, 17))
    >>> a, u = torch.randn(8, 17), torch.nn.functional.pad(torch.randn(8, 15), (1, 1))
    >>> tangents = stcl.TangentConsistency(residual, lam=0.5)
    >>> data = torch.nn.functional.mse_loss(model(a), u)
    >>> loss = data + tangents(model, a, u)
    >>> tangents.form.name, tangents.form.solver
    ('krylov_target', 'cg')
    >>> round((loss / data).item(), 4)  # at the first update the derivative term counts exactly λ
    1.5
    """

    def __init__(
        self,
        equation: DiscreteEquation | Callable[[Tensor, Tensor], Any],
        form: str | FormSettings = "auto",
        directions: Tensor | Callable[[int], Tensor] | str | None = None,
        q: int = 4,
        lam: float = 1.0,
        weighting: Weighting | None = None,
    ) -> None:
        if isinstance(form, str) and form not in ("auto", *FORMS):
            raise ValueError(f"form must be 'auto', one of {', '.join(FORMS)}, or a form's settings, got {form!r}")
        if q < 1 or not lam > 0:
            raise ValueError(f"expected q ≥ 1 directions and a positive lam, got q = {q}, lam = {lam}")
        if isinstance(directions, str) and directions != "white":
            raise ValueError(f"directions must be None, 'white', a tensor or a function, got {directions!r}")
        self.q, self.lam, self.weighting = q, lam, weighting or Weighting()
        self.source = directions
        self.form: str | FormSettings = form  # it becomes settings as soon as the equation is known
        self.reasons: list[str] = []  # why "auto" chose these settings
        self.last: Losses | None = None  # the terms of the last update, without gradients
        self._weight: RatioWeight | None = None
        self._loaded: dict[str, Any] | None = None
        self.equation: DiscreteEquation | None = None
        self._given = equation
        if not callable(equation):
            self._use(equation)

    def __call__(
        self, model: Callable[[Tensor], Tensor], a: Tensor, u: Tensor | None = None, data: DataLossOf | None = None
    ) -> Tensor:
        """The weighted term for inputs a [B, ...] and their labels u.

        Its weight compares it with the data loss. That is `data` if you give it, and otherwise the mean square of
        S_θ(a) − u, which costs nothing more. Without labels and data loss the weight is λ itself. Without labels a
        Krylov form linearises at the prediction.
        """
        return self.with_prediction(model, a, u, data)[1]

    def with_prediction(
        self, model: Callable[[Tensor], Tensor], a: Tensor, u: Tensor | None = None, data: DataLossOf | None = None
    ) -> tuple[Tensor, Tensor]:
        """The prediction S_θ(a) and the weighted term.

        The prediction is computed on the way, so a training loop saves its own forward pass. `data` may be a function
        of the prediction.
        """
        equation = self._equation_at(a, u)
        surrogate = _Adapter(model, equation, first=self._weight is None)
        inputs = equation.inputs_of(a)
        label = None if u is None else surrogate.responses(u, "labels u")
        self.directions.inputs = inputs
        _, derivative = self.term(surrogate, inputs, label, self.term.draw(inputs))
        prediction = surrogate.predictions[-1]
        if callable(data):
            compared: Tensor | None = data(prediction)
        elif data is None and u is not None:
            compared = (prediction - u).square().mean()
        else:
            compared = data
        if self._weight is None:
            self._weight = RatioWeight(self.lam, self.weighting, a.device)
            if self._loaded is not None:
                self._weight.load_state_dict(self._loaded)
        if compared is None:
            gamma, compared = torch.full_like(derivative, self.lam), torch.zeros_like(derivative)
        else:
            gamma = self._weight(compared.detach(), derivative)
        term = gamma.detach() * derivative
        data_loss = compared.detach()
        self.last = Losses(data_loss + term.detach(), data_loss, derivative.detach(), gamma.detach())
        return prediction, term

    def _equation_at(self, a: Tensor, u: Tensor | None) -> DiscreteEquation:
        """The equation; a bare residual becomes one at the first batch."""
        if self.equation is not None:
            return self.equation
        if u is None or not callable(self._given):
            raise ValueError("the first call needs labels u, to probe the equation at; or pass stcl.Equation(…)")
        return self._use(Equation(self._given, a, u))

    def state_dict(self) -> dict[str, Any]:
        """The moving averages of the weight. Directions come from torch's global generator."""
        return {} if self._weight is None else self._weight.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loaded = state or None
        self._weight = None

    def _use(self, equation: DiscreteEquation) -> DiscreteEquation:
        form, self.reasons, tangent_class = settle(self.form, equation)
        self.directions = Directions(self.source, self.q, equation)
        self.term = SketchedTangents(forms.load(equation, form, tangent_class), self.directions)
        self.equation, self.form = equation, form
        return equation


def settle(
    form: str | FormSettings, equation: DiscreteEquation
) -> tuple[FormSettings, list[str], OperatorClass | None]:
    """The settings of a form that is asked for, why they were chosen, and the class of A where it had to be known."""
    if form == "residual":
        return Residual(), [], None
    if form == "normalized_residual":
        return NormalizedResidual(), [], None
    if not isinstance(form, str) and (equation.tangent_class is not None or not isinstance(form, KrylovTarget)):
        return form, [], equation.tangent_class
    found = probe(equation, conditions=False)
    tangent_class: OperatorClass = equation.tangent_class or found.krylov_class
    if not isinstance(form, str):
        return form, [], tangent_class
    if form == "auto":
        return *choose(found), tangent_class
    if found.metric is None:
        raise ValueError(
            f"{form} needs a metric, and none fits: this operator is {found.tangent_class}; use residual or "
            f"normalized_residual, or give the form with its metric"
        )
    if form == "krylov_target":
        if isinstance(found.metric, LerayOseen):
            raise ValueError(
                "krylov_target needs an elliptic operator, this one is saddle; use preconditioned_residual"
            )
        return KrylovTarget(metric=found.metric, solver=found.solver), [], tangent_class
    return PreconditionedResidual(metric=found.metric), [], tangent_class


class Directions:
    """q directions for each sample, [B, q, *input_shape], in the shape of the layout."""

    inputs: Tensor  # inputs of the current batch; they must be set before a draw

    def __init__(
        self, source: Tensor | Callable[[int], Tensor] | str | None, q: int, equation: DiscreteEquation
    ) -> None:
        self.source, self.q, self.equation = source, q, equation

    def draw(self, batch: int) -> Tensor:
        lead, source, shape = (batch, self.q), self.source, self.equation.layout.input_shape
        if source is None:
            if batch < 2:
                raise ValueError(
                    "directions are differences between the inputs of a batch; with one sample give your own"
                )
            return combinations(self.inputs, lead)
        if isinstance(source, str):
            noise = torch.randn(*lead, *shape, dtype=self.inputs.dtype, device=self.inputs.device)
            return unit_norm(noise, len(shape))
        count = batch * self.q
        if isinstance(source, Tensor):
            drawn = source[torch.randint(len(source), (count,), device=source.device)]
        else:
            drawn = source(count)
        try:
            return self.equation.inputs_of(drawn).to(self.inputs).reshape(*lead, *shape)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"expected directions of shape (count, ...) with the shape {shape} of an input, got "
                f"{tuple(drawn.shape)} for a count of {count}"
            ) from error

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class _Adapter:
    """A model in the shapes of the equation's layout."""

    def __init__(self, model: Callable[[Tensor], Tensor], equation: DiscreteEquation, first: bool) -> None:
        self.model, self.equation, self.first = model, equation, first
        self.predictions: list[Tensor] = []  # what the model has predicted, in its own shape

    def responses(self, u: Tensor, what: str) -> Tensor:
        u = self.equation.responses_of(u)
        expected = self.equation.layout.response_shape
        if tuple(u.shape[u.ndim - len(expected) :]) != expected:
            raise ValueError(f"expected {what} of shape (…, {expected}), got {tuple(u.shape)}")
        return u

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        u, w = value_and_tangents(self.model, self.equation.model_inputs(a), self.equation.model_inputs(v))
        if self.first:
            _check_tangents(self.model, w)
        self.predictions.append(u)
        return self.responses(u, "predictions"), self.responses(w, "tangents")


def _check_tangents(model: Any, w: Tensor) -> None:
    name = type(model).__name__
    if not torch.isfinite(w).all():
        raise TangentError(f"{name} has tangents that are not finite; is it differentiable at its inputs?")
    if not w.any():
        raise TangentError(f"{name} has tangents that are all zero: it ignores its input, or detaches it on the way")
    trained = isinstance(model, torch.nn.Module) and any(p.requires_grad for p in model.parameters())
    if trained and torch.is_grad_enabled() and not w.requires_grad:
        raise TangentError(f"tangents of {name} have no gradient in its weights; it is run under torch.no_grad")
