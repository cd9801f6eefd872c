"""The sketched tangent consistency loss for any torch model and any residual."""

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from stcl.core.batches import as_batch
from stcl.core.infer_layout import without_ones
from stcl.core.interfaces import DiscreteEquation, TargetForm
from stcl.equation import Equation, check_batch, model_shapes
from stcl.losses import forms
from stcl.losses.batch_directions import BatchDirections, DirectionsOf, all_equal
from stcl.losses.data import Losses
from stcl.losses.kept_weight import KeptWeight
from stcl.losses.scale import Scale
from stcl.losses.settings import FormSettings, Weighting
from stcl.losses.settle import FORMS, in_words, settle
from stcl.losses.solvers.direct import Direct, fingerprints
from stcl.losses.spaces import Spaces
from stcl.losses.unlabelled_choice import VALUES, unlabelled_term
from stcl.losses.unlabelled_tangents import Judged, UnlabelledTangents
from stcl.probe import probe
from stcl.tangents import TangentError, value_and_tangents

InputsOf = Tensor | Callable[[int], Any] | None  # inputs, or a function of their number
DataLossOf = Tensor | Callable[[Tensor], Tensor]  # a data loss, or a function that computes it from the prediction
# Losses have the units of the user. A floor for 1/L_deriv must not be above one of 1e-35, as with pascals and metres.
SMALLEST = torch.finfo(torch.float32).tiny


class TangentConsistency(nn.Module):
    """The term γ · L_deriv(A w + B v), to be added to a data loss.

    w = DS_θ(a)[v] is the model's tangent along each of q directions v, which are drawn anew at every update.

    equation    an Equation, a residual function F(u, a), or a problem of this package. A bare function becomes an
                Equation of the first batch it sees.
    form        how the tangent residual becomes a loss. "auto" probes the operator and applies stcl.losses.rule; if it
                has few unknowns, its inverse is kept for every label, in up to 1 GiB of memory. A name
                (residual, normalized_residual, preconditioned_residual, krylov_target or solved_target) stands for that
                form. Its metric, if it has one, is fitted to the operator, and its solver is the one that fits. A form
                with its settings, such as Residual(detach_state=False), is taken as it is.
    directions  where v comes from. None takes random combinations, of unit norm, of what the batch's inputs differ by.
                "white" takes white noise of unit norm. A tensor [N, ...] is drawn from, and a function
                count ↦ [count, ...] is called. They are in the model's space.
    q           number of directions for each sample and update
    lam         λ, the ratio of derivative to data loss: γ = λ EMA(L_data) / EMA(L_deriv)
    weighting   how fast the averages forget, and more: a Weighting
    scale       a Scale, if the model works with other numbers than the equation, normalised ones for example
    value       what the model's value is drawn to at unlabelled inputs, see `forward`: "corrected", to itself after one
                Newton step of the equation, which needs a form that solves for its target; "none"; or "auto", which
                takes "corrected" where that form is there and such a step leaves solved responses as they are, to 5 %

    It is an nn.Module: as an attribute of another one it keeps its averages and the size of the largest label in that
    one's state_dict. Neither changes in eval mode and under torch.no_grad. At the first update one line says what was
    chosen and why. It goes to the logger "stcl", or to stderr where no logging is set up.

    >>> import torch, stcl
    >>> def residual(u, a):  # −u'' + u³ = a on 17 nodes, u = 0 at both ends
    ...     return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 256 + u[:, 1:-1] ** 3 - a[:, 1:-1]
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(17, 32), torch.nn.Tanh(), torch.nn.Linear(32, 17))
    >>> u = torch.nn.functional.pad(torch.randn(8, 15), (1, 1))
    >>> a = torch.nn.functional.pad(residual(u, torch.zeros(8, 17)), (1, 1))  # whose solution is u
    >>> tangents = stcl.TangentConsistency(residual, lam=0.5)
    >>> data = torch.nn.functional.mse_loss(model(a), u)
    >>> loss = data + tangents(model, a, u)
    >>> tangents
    TangentConsistency(solved_target, direct; q = 4, λ = 0.5; u on x (17 nodes))
    >>> round((loss / data).item(), 4)  # at the first update the derivative term counts exactly λ
    1.5
    """

    largest: Tensor  # norm of the largest label so far, by which resonances are recognised at unlabelled inputs

    def __init__(
        self,
        equation: DiscreteEquation | Callable[[Tensor, Tensor], Any],
        form: str | FormSettings = "auto",
        directions: DirectionsOf | np.ndarray = None,
        q: int = 4,
        lam: float = 1.0,
        weighting: Weighting | None = None,
        scale: Scale | None = None,
        value: str = "auto",
    ) -> None:
        super().__init__()
        if isinstance(form, str) and form not in ("auto", *FORMS):
            raise ValueError(f"form must be 'auto', one of {', '.join(FORMS)}, or a form's settings, got {form!r}")
        if q < 1 or not lam > 0:
            raise ValueError(f"expected q ≥ 1 directions and a positive lam, got q = {q}, lam = {lam}")
        if isinstance(directions, np.ndarray):
            directions = torch.as_tensor(directions)
        if not (directions is None or callable(directions) or isinstance(directions, Tensor) or directions == "white"):
            raise ValueError(f"directions must be None, 'white', a tensor, an array or a function, got {directions!r}")
        if scale is not None and not isinstance(scale, Scale):
            raise ValueError(f"scale must be a stcl.Scale(a=(mean, deviation), u=(mean, deviation)), got {scale!r}")
        if value not in VALUES:
            raise ValueError(f"value must be 'auto', 'none' or 'corrected', got {value!r}")
        self.q, self.lam, self.scale, self.value = q, lam, scale, value
        self.weight = KeptWeight(lam, weighting or Weighting(floor=SMALLEST))
        self.register_buffer("largest", torch.zeros(()))
        self.form: str | FormSettings = form  # it becomes settings as soon as the equation is known
        self.reasons: list[str] = []  # why "auto" chose these settings
        self.last: Losses | None = None  # the terms of the last update, without gradients
        self.equation: DiscreteEquation | None = None
        self._given = (equation, directions)  # in a tuple, where torch does not take a module for a part of this one
        self._first = True  # whether tangents are still to be checked
        self.announced = False  # whether a line has said what was chosen
        self._beyond: UnlabelledTangents | None = None  # the term at unlabelled inputs, once there are any
        if not callable(equation):
            self._use(equation)

    def forward(
        self,
        model: Callable[[Tensor], Tensor],
        a: Any,
        u: Any = None,
        data: DataLossOf | None = None,
        unlabelled: InputsOf = None,
    ) -> Tensor:
        """The weighted term for inputs a [B, ...] and their labels u.

        Its weight compares it with the data loss. That is `data` if you give it, and otherwise the mean square of
        S_θ(a) − u, which costs nothing more. Without labels and data loss the weight is λ itself. Without labels a form
        that solves for its target linearises at the prediction.

        `unlabelled` are inputs [B', ...] that nobody has solved, or a function B ↦ [B, ...] that draws them. Tangents
        are judged there, too, and L_deriv is the mean over all inputs. With `value`, a squared error of the prediction
        is added, which counts there what it counts in the data loss.
        """
        return self.with_prediction(model, a, u, data, unlabelled)[1]

    def with_prediction(
        self,
        model: Callable[[Tensor], Tensor],
        a: Any,
        u: Any = None,
        data: DataLossOf | None = None,
        unlabelled: InputsOf = None,
    ) -> tuple[Tensor, Tensor]:
        """The prediction S_θ(a) and the weighted term.

        The prediction is computed on the way, so a training loop saves its own forward pass. `data` may be a function
        of the prediction.
        """
        a, u = _tensors(model, a, u)
        with _no_autocast(a):
            spaces = self._spaces(a, u)
        inputs, label = spaces.inputs(a), None if u is None else spaces.responses(u, "labels u")
        v = self._drawn(a)
        prediction, w = _as_precise(a, *value_and_tangents(model, a, v))
        if self._first:
            _check_tangents(model, w)
        state = spaces.responses(prediction, "the model's output")
        self._keep_for(u, a)
        v, w = spaces.input_tangents(a, v), spaces.response_tangents(prediction, w)
        with _no_autocast(a):
            derivative = self.tangent_form(inputs, state, v, w, label=state if label is None else label)
        compared, value = _compared(prediction, u, data), None
        if unlabelled is not None:
            there, count = self._judged(model, a, unlabelled, label)
            kept = there.kept * count
            derivative = torch.lerp(derivative, there.derivative, kept / (len(a) + kept))
            value = there.value * self._error_weight(state, label, compared)
        self._first = False
        if not self.announced:
            self.announced = True
            _say(f"stcl: {self!r}: {'; '.join(self.reasons) or 'as asked for'}")
        return prediction, self._weighted(derivative, compared, value)

    def _judged(
        self, model: Callable[[Tensor], Tensor], a: Tensor, unlabelled: InputsOf, label: Tensor | None
    ) -> tuple[Judged, int]:
        """The losses at inputs without labels, and their number."""
        given, _ = _tensors(model, unlabelled(len(a)) if callable(unlabelled) else unlabelled, None)
        inputs = self.spaces.inputs(given)
        self._keep_for(None, given)  # none of these inputs comes again
        if self._beyond is None:
            with _no_autocast(given):
                self._beyond, why = self._unlabelled_term()
            self.reasons += why
        if self._beyond.largest is not None:
            if label is not None and self.training and torch.is_grad_enabled():
                size = self.spaces.layout.score(label).flatten(1).norm(dim=1).max()
                self.largest = torch.maximum(self.largest.to(size), size)
            self._beyond.largest = torch.maximum(self._beyond.largest.to(inputs), self.largest.to(inputs))
        v = self._drawn(given)
        prediction, w = _as_precise(given, *value_and_tangents(model, given, v))
        state = self.spaces.responses(prediction, "the model's output")
        v, w = self.spaces.input_tangents(given, v), self.spaces.response_tangents(prediction, w)
        with _no_autocast(given):
            return self._beyond.judge(inputs, state, v, w), len(given)

    def _drawn(self, a: Tensor) -> Tensor:
        """Directions [B, q, ...] for the model's inputs a [B, ...]."""
        self.directions.inputs = a
        with _no_autocast(a):
            return self.directions.draw(len(a))

    def _keep_for(self, u: Tensor | None, a: Tensor) -> None:
        """What a solver keeps from now on belongs to these samples, which it knows by what the user gave.

        It keeps nothing for a state that changes: a prediction, which also stands for a label that is not there.
        """
        form = self.tangent_form
        if isinstance(form, TargetForm) and isinstance(form.solver, Direct):
            known = u if form.state == "label" else None
            form.solver.keys_of = lambda *_: None if known is None else fingerprints(known, a)

    def _error_weight(self, state: Tensor, label: Tensor | None, data: Tensor | None) -> Tensor | float:
        """What a mean squared error counts in the data loss: 1 if that is what the data loss is."""
        if label is None or data is None:
            return 1.0
        score = self.spaces.layout.score
        error = mse_loss(score(state.detach()), score(label))
        return data.detach() / error.clamp_min(torch.finfo(error.dtype).tiny)

    def _weighted(self, derivative: Tensor, data: Tensor | None, value: Tensor | None) -> Tensor:
        """γ · L_deriv, where γ compares it with a data loss and is λ where there is none, and the value's term."""
        if data is None:
            gamma, data = torch.full_like(derivative, self.lam), torch.zeros_like(derivative)
        else:
            data = data.detach()
            gamma = self.weight(data, derivative).detach()
        term = gamma * derivative if value is None else gamma * derivative + value
        seen = None if value is None else value.detach()
        self.last = Losses(data + term.detach(), data, derivative.detach(), gamma, seen)
        return term

    def _spaces(self, a: Tensor, u: Tensor | None) -> Spaces:
        """How the model's arrays become the equation's. A bare residual becomes an equation at the first batch."""
        if self.equation is None:
            residual, scale = self._given[0], self.scale
            if u is None:
                raise ValueError("the first call needs labels u, to probe the equation at; or pass stcl.Equation(…)")
            if all_equal(a):
                raise ValueError(
                    f"the first batch, a {tuple(a.shape)}, has one sample or equal ones, and an equation is read from "
                    f"what differs between samples. Make it beforehand from a few training samples: equation = "
                    f"stcl.Equation(residual, a, u); then pass it: stcl.TangentConsistency(equation)"
                )
            with torch.inference_mode(False):  # the equation outlives the caller's context, and so do its states
                a, u = a.clone(), u.clone()
                if scale is not None:
                    a, u = scale.inputs(a), scale.responses(u)
                self._use(Equation(residual, a, u))  # type: ignore[arg-type]  # what is no equation is a function
        elif self._first and u is not None:
            check_batch(self.equation, self.spaces.inputs(a), self.spaces.responses(u, "labels u"))
        return self.spaces

    def _use(self, equation: DiscreteEquation) -> None:
        """Settle on an equation, and on all that follows from it."""
        self.form, self.reasons, kind = settle(self.form, equation, partial(probe, conditions=False))
        self.tangent_form = forms.load(equation, self.form, kind)
        self._unlabelled_term = partial(unlabelled_term, equation, self.tangent_form, self.form, kind, self.value)
        self.spaces = Spaces(equation.layout, model_shapes(equation), self.scale)
        known = partial(_known_inputs, equation) if self.scale is None else None  # those of a scaled model are not
        self.directions = BatchDirections(self._given[1], self.q, known)
        self.equation = equation

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """A buffer takes what is loaded in the precision that it was saved with."""
        saved = state_dict.get(f"{prefix}largest", self.largest)
        self.largest = self.largest.to(saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        if self.equation is None:
            return f"TangentConsistency({in_words(self.form)}; q = {self.q}, λ = {self.lam:g}; no equation yet)"
        scaled = "" if self.scale is None else f"; {self.scale}"
        where = self.equation.layout.in_words
        return f"TangentConsistency({in_words(self.form)}; q = {self.q}, λ = {self.lam:g}; {where}{scaled})"


def _known_inputs(equation: DiscreteEquation) -> Tensor:
    return equation.states(8)[0]


def _tensors(model: Any, a: Any, u: Any) -> tuple[Tensor, Tensor | None]:
    """A batch as tensors of one type. What is none yet, a numpy array for example, goes to where the model is."""
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    given = isinstance(a, Tensor)
    a = as_batch("a", a)
    a = a if given or weight is None else a.to(weight)
    if u is not None:
        u = as_batch("u", u).to(a.dtype) if isinstance(u, Tensor) else as_batch("u", u).to(a)
    if u is not None and len(u) != len(a):
        raise ValueError(f"expected as many labels as inputs, got a {tuple(a.shape)} and u {tuple(u.shape)}")
    return a, u


def _as_precise(a: Tensor, *outputs: Tensor) -> list[Tensor]:
    """A model's outputs at least in the precision of its inputs, which those under autocast do not have."""
    return [x.to(torch.promote_types(x.dtype, a.dtype)) for x in outputs]


def _no_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """For directions and the equation: differences of neighbouring values lose all their digits in half precision."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def _compared(prediction: Tensor, u: Tensor | None, data: DataLossOf | None) -> Tensor | None:
    """The data loss that γ compares with, None where there is none."""
    if callable(data):
        return data(prediction)
    if data is not None or u is None:
        return data
    if without_ones(prediction.shape) != without_ones(u.shape):
        raise ValueError(f"the model gives {tuple(prediction.shape)} for labels u of shape {tuple(u.shape)}")
    return (prediction.reshape(u.shape) - u).square().mean()


def _say(line: str) -> None:
    """One line for the user: by logging where that is set up, and on stderr elsewhere."""
    logger = logging.getLogger("stcl")
    if logger.hasHandlers():
        logger.info(line)
    else:
        print(line, file=sys.stderr)


def _check_tangents(model: Any, w: Tensor) -> None:
    name = type(model).__name__
    if not torch.isfinite(w).all():
        raise TangentError(f"{name} has tangents that are not finite; is it differentiable at its inputs?")
    largest, smallest = float(w.detach().abs().max()), torch.finfo(w.dtype).tiny ** 0.5
    if 0 < largest < smallest:  # those of an output layer that starts at zero are zero, and it can learn
        raise TangentError(
            f"tangents of {name} are at most {largest:.1e}, and squares of what is below {smallest:.1e} are zero in "
            f"{w.dtype}. Give larger directions, directions=…, or fields in other units"
        )
    trained = isinstance(model, torch.nn.Module) and any(p.requires_grad for p in model.parameters())
    if trained and torch.is_grad_enabled() and not w.requires_grad:
        raise TangentError(f"tangents of {name} have no gradient in its weights; it is run under torch.no_grad")
