"""The sketched tangent consistency loss for any torch model and any residual."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stcl.equation import Equation
from stcl.losses import forms
from stcl.losses.data import Losses
from stcl.losses.directions import combinations
from stcl.losses.rule import Findings, choose
from stcl.losses.settings import Form, KrylovTarget, NormalizedResidual, PreconditionedResidual, Residual, Weighting
from stcl.losses.sketched_tangents import SketchedTangents
from stcl.losses.weighting import RatioWeight
from stcl.probe import measure
from stcl.problems.base import Problem, unit_norm
from stcl.tangents import TangentError, value_and_tangents

FORMS = ("residual", "normalized_residual", "preconditioned_residual", "krylov_target")


class TangentConsistency:
    """γ · L_deriv(A w + B v), to be added to a data loss: w = DS_θ(a)[v] for q directions v that are drawn anew.

    equation    an Equation, a residual function F(u, a), or a problem of this package. A bare function becomes an
                Equation of the first batch it sees.
    form        how the tangent residual becomes a loss: "auto", which probes the operator and applies the paper's
                rule; a name, residual, normalized_residual, preconditioned_residual or krylov_target, whose metric is
                fitted to the operator; or a form with its settings, such as Residual(detach_state=False)
    directions  where v comes from: None, random combinations of what the batch's inputs differ by, of unit norm;
                "white", white noise of unit norm; a tensor [N, ...] to draw from; or a function count ↦ [count, ...]
    q           directions for each sample and update
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
        equation: Equation | Problem | Callable[[Tensor, Tensor], Any],
        form: str | Form = "auto",
        directions: Tensor | Callable[[int], Tensor] | str | None = None,
        q: int = 4,
        lam: float = 1.0,
        weighting: Weighting | None = None,
    ) -> None:
        if isinstance(form, str) and form not in ("auto", *FORMS):
            raise ValueError(f"form must be 'auto', one of {', '.join(FORMS)}, or a form's settings, got {form!r}")
        if q < 1 or not lam > 0:
            raise ValueError(f"expected q ≥ 1 directions and a positive lam, got q = {q}, lam = {lam}")
        self.q, self.lam, self.weighting = q, lam, weighting or Weighting()
        self.directions = Directions(directions, q)
        self.form, self.reasons = form, []  # settings once they are known, and why "auto" chose them
        self.last: Losses | None = None  # the terms of the last update, without gradients
        self._weight: RatioWeight | None = None
        self._loaded: dict | None = None
        self._residual = None if isinstance(equation, Equation | Problem) else equation
        self.equation = None
        if self._residual is None:
            self._use(equation)

    def __call__(self, model: Callable[[Tensor], Tensor], a: Tensor, u: Tensor | None = None, data=None) -> Tensor:
        """The weighted term for inputs a [B, ...] and their labels u.

        Its weight compares it with the data loss: yours if given as `data`, else the mean square of S_θ(a) − u, which
        costs nothing more. Without labels and data loss the weight is λ itself, and a Krylov form linearises at the
        prediction.
        """
        return self.with_prediction(model, a, u, data)[1]

    def with_prediction(self, model, a: Tensor, u: Tensor | None = None, data=None) -> tuple[Tensor, Tensor]:
        """S_θ(a), which is computed on the way, and the weighted term: saves a loop its own forward pass.

        `data` may be a function of the prediction.
        """
        if self.equation is None:
            if u is None:
                raise ValueError("the first call needs labels u, to probe the equation at; or pass stcl.Equation(…)")
            self._use(Equation(self._residual, a, u))
        surrogate = _Adapter(model, self.equation, first=self._weight is None)
        inputs = surrogate.inputs(a)
        label = None if u is None else surrogate.responses(u, "labels u")
        self.directions.inputs = inputs
        _, derivative = self.term(surrogate, inputs, label, None)
        prediction = surrogate.prediction
        if callable(data):
            data = data(prediction)
        elif data is None and u is not None:
            data = (prediction - u).square().mean()
        if self._weight is None:
            self._weight = RatioWeight(self.lam, self.weighting, a.device)
            if self._loaded is not None:
                self._weight.load_state_dict(self._loaded)
        gamma = torch.full_like(derivative, self.lam) if data is None else self._weight(data.detach(), derivative)
        term = gamma.detach() * derivative
        data = torch.zeros_like(term) if data is None else data.detach()
        self.last = Losses(data + term.detach(), data, derivative.detach(), gamma.detach())
        return prediction, term

    def state_dict(self) -> dict:
        """The moving averages of the weight. Directions come from torch's global generator."""
        return {} if self._weight is None else self._weight.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self._loaded = state or None
        self._weight = None

    def _use(self, equation: Equation | Problem) -> None:
        self.equation = equation
        if self.form == "auto":
            self.form, self.reasons = choose(_findings(equation))
        elif isinstance(self.form, str):
            self.form = named_form(self.form, equation)
        self.directions.shape = equation.layout.input_shape
        if isinstance(equation, Equation):
            self.directions.to_layout = equation.inputs_of
        self.term = SketchedTangents(forms.load(equation, self.form), self.directions)


def named_form(name: str, equation: Equation | Problem) -> Form:
    """A form by its name, with the metric that fits the operator."""
    match name:
        case "residual":
            return Residual()
        case "normalized_residual":
            return NormalizedResidual()
    found = _findings(equation)
    if found.metric is None:
        raise ValueError(
            f"{name} needs a metric, and none fits: this operator is {found.tangent_class}; use residual or "
            f"normalized_residual, or give the form with its metric"
        )
    if name == "krylov_target":
        return KrylovTarget(metric=found.metric, solver=found.solver)
    return PreconditionedResidual(metric=found.metric)


def _findings(equation: Equation | Problem) -> Findings:
    return equation.findings if isinstance(equation, Equation) else measure(equation, conditions=False)


class Directions:
    """q directions for each sample, [B, q, *input_shape] of the layout."""

    def __init__(self, source: Tensor | Callable[[int], Tensor] | str | None, q: int) -> None:
        if isinstance(source, str) and source != "white":
            raise ValueError(f"directions must be None, 'white', a tensor or a function, got {source!r}")
        self.source, self.q = source, q
        self.shape: tuple[int, ...] = ()
        self.inputs: Tensor | None = None  # of the current batch
        self.to_layout: Callable[[Tensor], Tensor] = lambda v: v

    def draw(self, batch: int) -> Tensor:
        lead, source = (batch, self.q), self.source
        if source is None:
            if batch < 2:
                raise ValueError(
                    "directions are differences between the inputs of a batch; with one sample give your own"
                )
            return combinations(self.inputs, lead)
        if isinstance(source, str):
            noise = torch.randn(*lead, *self.shape, dtype=self.inputs.dtype, device=self.inputs.device)
            return unit_norm(noise, len(self.shape))
        count = batch * self.q
        if isinstance(source, Tensor):
            drawn = source[torch.randint(len(source), (count,), device=source.device)]
        else:
            drawn = source(count)
        try:
            return self.to_layout(drawn).to(self.inputs).reshape(*lead, *self.shape)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"expected directions of shape (count, ...) with the shape {self.shape} of an input, got "
                f"{tuple(drawn.shape)} for a count of {count}"
            ) from error

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


class _Adapter:
    """A model in the shapes of the equation's layout."""

    def __init__(self, model: Callable[[Tensor], Tensor], equation: Equation | Problem, first: bool) -> None:
        self.model, self.equation, self.first = model, equation, first
        self.prediction: Tensor | None = None

    def inputs(self, a: Tensor) -> Tensor:
        return self.equation.inputs_of(a) if isinstance(self.equation, Equation) else a

    def responses(self, u: Tensor, what: str) -> Tensor:
        if isinstance(self.equation, Equation):
            u = self.equation.responses_of(u)
        expected = self.equation.layout.response_shape
        if tuple(u.shape[u.ndim - len(expected) :]) != expected:
            raise ValueError(f"expected {what} of shape (…, {expected}), got {tuple(u.shape)}")
        return u

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.equation, Equation):
            a, v = self.equation.model_inputs(a), self.equation.model_inputs(v)
        u, w = value_and_tangents(self.model, a, v)
        if self.first:
            _check_tangents(self.model, w)
        self.prediction = u
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
