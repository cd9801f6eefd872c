"""What the rooms ask of each other: a discrete equation, a metric on its residuals, a form of the tangent loss."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from stcl.core.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

TangentClass = Literal["spd", "indefinite", "parabolic", "saddle"]
Transform = Literal["sine", "cosine", "fourier"]  # for an axis between walls, without flux, or periodic
Solver = Literal["minres", "cg", "gmres"]
OperatorClass = TangentClass | Literal["advective"]  # a probe may also find a steady A without a Laplacian


class Differentiable(Protocol):
    """F(u, a), and its derivatives where they are written out."""

    @property
    def tangent_residual(self) -> Callable[..., Any] | None:
        """(u, a, w, v) ↦ A w + B v, written out where that is measurably faster than forward mode; else None.

        Shapes are those of stcl.tangent.residual, and gradients in u and w flow.
        """

    @property
    def input_derivative(self) -> Callable[..., Any] | None:
        """(u, a, v) ↦ B v, [B, q, ...], written out; or None."""

    def residual(self, u: "Tensor", a: "Tensor") -> Any:
        """F(u, a) for u [B, *response_shape] and a [B, *input_shape]: a tensor [B, ...] or a named tuple of them."""


class March(Differentiable, Protocol):
    """A problem in time as steps from one frame to the next, so that A x = g is solved by one sweep through the frames.

    F has nodes and steps of its own choice. It may see what happens between two frames, or between two nodes, where the
    residual's own differences are too coarse to be worth solving.
    """

    def propagate(self, u: "Tensor", a: "Tensor") -> "Callable[[Tensor], Tensor]":
        """The map g ↦ x for right-hand sides g [B, q, ...] in the shape of F, to x [B, q, *response_shape]."""


class DiscreteEquation(Differentiable, Protocol):
    """F(u, a) = 0 between inputs a and responses u on a grid. This is all that a derivative term must know of a PDE.

    The problems of this package and `stcl.Equation`, which is made from a bare residual, both fulfil it.
    """

    @property
    def layout(self) -> Layout:
        """Names, nodes and shapes."""

    @property
    def tangent_class(self) -> TangentClass | None:
        """The declared class of A = ∂F/∂u; None where it must be measured."""

    @property
    def saddle(self) -> bool | None:
        """Whether a multiplier such as a pressure enforces a constraint; None where it must be detected."""

    @property
    def viscosity(self) -> float | None:
        """The viscosity µ of a flow problem, or None."""

    @property
    def wave_number(self) -> float | None:
        """The wave number κ of an operator like −Δ − κ², or None."""

    @property
    def held_nodes(self) -> int:
        """How many values of u the equation takes as fixed."""

    @property
    def state_products(self) -> Callable[..., Any] | None:
        """(u, a) ↦ the map w ↦ A w, [B, q, ...], without a gradient, where many products are faster so; or None."""

    @property
    def five_coefficients(self) -> Callable[..., Any] | None:
        """(u, a) ↦ A at the interior nodes of a rectangle, as five coefficients [B, 1, m1, m2] of each node; or None.

        They belong to the node itself, then to the next and the previous node along the first axis, then the second.
        Values on the boundary do not enter. A coefficient that is the same for all may have length one instead.
        """

    @property
    def march(self) -> March | None:
        """The problem as steps from one frame to the next; None where nobody has written them down."""

    def states(self, count: int) -> "tuple[Tensor, Tensor]":
        """At most `count` inputs and their responses, in float64 if possible. A is looked at there before training."""


class Metric(Protocol):
    """A positive operator M that weighs a tangent residual."""

    def at(self, a: "Tensor") -> Callable[[Any], Any]:
        """The map r ↦ M r for residuals r [B, q, ...] at the inputs a [B, ...]."""

    def energy(self, r: Any, a: "Tensor") -> "Tensor":
        """rᵀ M r for each sample and direction, [B, q]."""


@runtime_checkable
class Weighing(Protocol):
    """A form or a solver that has a metric."""

    metric: Metric


class InvertibleMetric(Metric, Protocol):
    """A metric whose inverse is as cheap as itself."""

    def inverse_at(self, a: "Tensor") -> Callable[[Any], Any]:
        """The map r ↦ M⁻¹ r."""


class Solved(NamedTuple):
    """What a solver has made of A x = g for several right-hand sides of each sample."""

    x: "Tensor"  # [B, q, *response_shape], zero at nodes without an equation
    residual: "Tensor"  # ‖g − A x‖/‖g‖ [B, q], 0 where g is zero
    solved: "Tensor"  # whether there is a solution at all [B, q]; where the solver broke down there is none


class TangentSolver(Protocol):
    """Solves A x = g with A = ∂F/∂u at given states, without gradients: for targets, and for Newton corrections."""

    @property
    def equation(self) -> Differentiable:
        """What F, A and B are meant: those of the form's own equation, or of the march that it offers."""

    @property
    def products(self) -> int:
        """How many products with A one solve of one right-hand side takes; ledgers count them."""

    @property
    def steps(self) -> int | None:
        """How many steps a solve takes; None where it does not go by steps."""

    def at(self, u: "Tensor", a: "Tensor") -> "Callable[[Any], Solved]":
        """The map g ↦ x for right-hand sides g [B, q, ...] in the shape of the residual, at u [B, ...] and a [B, ...].

        The target of directions v is at(u, a)(−B v). A Newton correction is u + at(u, a)(−F(u, a)).
        """


@runtime_checkable
class Measured(Protocol):
    """A form that measures itself while it is used."""

    def epoch_columns(self) -> dict[str, float]:
        """What was measured since the last call, for the history of the training."""


class TangentForm(Protocol):
    """How a tangent residual becomes a loss, averaged over samples and directions.

    A form is called with inputs a [B, ...], predictions u = u_θ(a) [B, ...], directions v [B, q, ...] or, shared by the
    batch, [q, ...], tangents w = DS_θ(a)[v] [B, q, ...], and the training responses `label` [B, ...].
    """

    def __call__(self, a: "Tensor", u: "Tensor", v: "Tensor", w: "Tensor", label: "Tensor") -> "Tensor": ...


@runtime_checkable
class TargetForm(Protocol):
    """A form that solves for its target.

    With state `label` it linearises at `label`, whatever stands there. Only samples that are `kept` [B] count. Who
    knows them has corrected the prediction, so a form with state `corrected` then takes `label` for the result.
    """

    solver: TangentSolver
    state: Literal["label", "prediction", "corrected"]

    def __call__(
        self, a: "Tensor", u: "Tensor", v: "Tensor", w: "Tensor", label: "Tensor", kept: "Tensor | None" = None
    ) -> "Tensor": ...
