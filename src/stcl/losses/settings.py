"""Settings of the derivative term: sketch, form, metric, weighting.

They are apart from the settings that every cell has, so that a new form here does not touch cells that have none.
"""

from typing import Annotated, Literal

from pydantic import Field

from stcl.core.interfaces import Solver, Transform
from stcl.core.settings import NotNegativeFloat, Positive, PositiveFloat, Settings


class Weighting(Settings):
    """γ = λ · EMA(L_data) / max(EMA(L_deriv), floor)."""

    decay: float = Field(0.99, description="share of its past that each moving average keeps at an update", ge=0, lt=1)
    floor: PositiveFloat = Field(1e-20, description="smallest derivative loss in the denominator of γ")
    update: Literal["before", "after"] = Field(
        "before",
        description="whether the averages take the current losses before γ is computed or after it; with `after`, the "
        "first γ is λ",
    )


class Sketch(Settings):
    """Where the q directions of an sTCL update come from."""

    source: Literal["fresh", "pool"] = Field(
        "fresh", description="`fresh` draws new directions at each update, `pool` cycles through a fixed pool"
    )
    pool: Positive = Field(2048, description="number of directions in the pool, for source `pool`")
    shared: bool = Field(
        False, description="whether the whole batch shares one set of q directions, or each sample has its own"
    )


class InverseLaplacian(Settings):
    """M = D^-1/2 (−Δₕ)⁻¹ D^-1/2 with D = eᵃ, for stiff elliptic residuals."""

    name: Literal["inverse_laplacian"] = Field(
        "inverse_laplacian", description="the name by which the configuration asks for this metric"
    )


class ShiftedLaplacian(Settings):
    """M = (−Δₕ + shift)⁻¹, for elliptic operators with a bounded indefinite part."""

    name: Literal["shifted_laplacian"] = Field(
        "shifted_laplacian", description="the name by which the configuration asks for this metric"
    )
    shift: PositiveFloat | None = Field(
        None, description="number that is added to −Δₕ; if left out, κ²/2 with the wave number κ of the problem"
    )


class FittedLaplacian(Settings):
    """M = D^-1/2 (Σ wᵢ Lᵢ + shift)⁻¹ D^-1/2 with the second difference Lᵢ of each axis and D the diagonal of A."""

    name: Literal["fitted_laplacian"] = Field(
        "fitted_laplacian", description="the name by which the configuration asks for this metric"
    )
    transforms: list[Transform] | None = Field(
        None,
        description="transform of each axis: sine between walls, cosine without flux, fourier if periodic; this and "
        "the next three keys are fitted to the operator before training if they are left out",
    )
    weights: list[NotNegativeFloat] | None = Field(None, description="weight wᵢ of each axis, 1/h² for a Laplacian")
    shift: NotNegativeFloat | None = Field(None, description="number that is added to Σ wᵢ Lᵢ")
    scaled: bool | None = Field(None, description="whether D comes from the operator's own diagonal, or is 1")


class LerayOseen(Settings):
    """Leray-projected momentum weighed by an inverse Oseen symbol, plus divergence and boundary terms."""

    name: Literal["leray_oseen"] = Field(
        "leray_oseen", description="the name by which the configuration asks for this metric"
    )
    viscosity: PositiveFloat | None = Field(
        None, description="viscosity µ of the Oseen symbol; if left out, it is the problem's `viscosity`"
    )
    speed: NotNegativeFloat = Field(3.0, description="characteristic speed b₀ of the Oseen symbol")
    shift: PositiveFloat = Field(0.005, description="share τ of the largest symbol that is added to every symbol")
    divergence: PositiveFloat = Field(0.05, description="weight of the mean squared divergence")
    boundary: PositiveFloat = Field(1.0, description="weight of the mean squared boundary values")
    project: bool = Field(
        True, description="whether the gradient part of the momentum is taken out; `false` is for ablations"
    )
    weigh: bool = Field(
        True,
        description="whether each mode has the weight of its own symbol; `false`, for ablations, gives all modes the "
        "mean of the weights, which keeps the size of the loss",
    )


EllipticMetricSettings = Annotated[InverseLaplacian | ShiftedLaplacian | FittedLaplacian, Field(discriminator="name")]
MetricSettings = Annotated[
    InverseLaplacian | ShiftedLaplacian | FittedLaplacian | LerayOseen, Field(discriminator="name")
]

DetachState = Annotated[bool, Field(description="whether gradients stop at u_θ where it is a coefficient")]


class Residual(Settings):
    """Mean square of the tangent residual."""

    name: Literal["residual"] = Field("residual", description="the name by which the configuration asks for this form")
    detach_state: DetachState = True


class NormalizedResidual(Settings):
    """Square of the tangent residual relative to that of its right-hand side."""

    name: Literal["normalized_residual"] = Field(
        "normalized_residual", description="the name by which the configuration asks for this form"
    )
    detach_state: DetachState = True


class PreconditionedResidual(Settings):
    """Energy of the tangent residual in a metric."""

    name: Literal["preconditioned_residual"] = Field(
        "preconditioned_residual", description="the name by which the configuration asks for this form"
    )
    detach_state: DetachState = True
    metric: MetricSettings = Field(description="the metric that weighs the residual")


class KrylovTarget(Settings):
    """Mean square distance to a tangent that a few Krylov steps have solved for."""

    name: Literal["krylov_target"] = Field(
        "krylov_target", description="the name by which the configuration asks for this form"
    )
    metric: EllipticMetricSettings = Field(description="the metric that preconditions the solver")
    steps: Positive = Field(5, description="number m of steps that the solver takes")
    solver: Solver | None = Field(None, description="Krylov method; if left out, the one that fits the operator")
    state: Literal["label", "prediction"] = Field(
        "label", description="where the equation is linearised: at the training response u, or at the prediction u_θ"
    )


class Krylov(Settings):
    """A few preconditioned Krylov steps, for elliptic operators."""

    name: Literal["krylov"] = Field("krylov", description="the name by which the configuration asks for this solver")
    metric: EllipticMetricSettings = Field(
        default_factory=FittedLaplacian, description="the metric that preconditions the steps"
    )
    steps: Positive = Field(10, description="number m of steps")
    method: Solver | None = Field(None, description="Krylov method; if left out, the one that fits the operator")


class SpaceTime(Settings):
    """A few GMRES steps in space and time, for problems in time with one response.

    The preconditioner has the residual's own differences in time and is diagonal in a transform in space. It is fitted
    to the operator before training.
    """

    name: Literal["space_time"] = Field(
        "space_time", description="the name by which the configuration asks for this solver"
    )
    steps: Positive = Field(12, description="number of steps")


class Stokes(Settings):
    """A few GMRES steps with a Stokes preconditioner, for two velocities and a pressure between walls."""

    name: Literal["stokes"] = Field("stokes", description="the name by which the configuration asks for this solver")
    steps: Positive = Field(11, description="number of steps")
    viscosity: PositiveFloat | None = Field(
        None, description="viscosity µ of the preconditioner; if left out, it is the problem's `viscosity`"
    )


class March(Settings):
    """One sweep through the frames with steps that the problem has written down, for problems in time."""

    name: Literal["march"] = Field("march", description="the name by which the configuration asks for this solver")


StepwiseSettings = Annotated[Krylov | SpaceTime | Stokes | March, Field(discriminator="name")]


class Direct(Settings):
    """The inverse of A for each training sample, made once and kept in memory, for operators with few unknowns."""

    name: Literal["direct"] = Field("direct", description="the name by which the configuration asks for this solver")
    limit: Positive = Field(
        2**30,
        description="bytes that may be kept, unknowns² numbers a sample; nothing is thrown out when they are full",
    )
    otherwise: StepwiseSettings | None = Field(
        None, description="what solves for samples that are not kept; if left out, they are inverted at every update"
    )


SolverSettings = Annotated[Krylov | SpaceTime | Stokes | March | Direct, Field(discriminator="name")]


class SolvedTarget(Settings):
    """Mean square distance to a tangent that a solver has found from the equation."""

    name: Literal["solved_target"] = Field(
        "solved_target", description="the name by which the configuration asks for this form"
    )
    solver: SolverSettings = Field(description="what solves A ŵ = −B v")
    state: Literal["label", "prediction", "corrected"] = Field(
        "label",
        description="where the equation is linearised: at the training response u, at the prediction u_θ, or at the "
        "prediction after one Newton step",
    )
    warm_start: bool = Field(
        False,
        description="whether the solver starts from the network's own tangent, ŵ = w + A⁻¹(−A w − B v), or from 0",
    )


class JacobianPenalty(Settings):
    """Mean square of the tangents themselves: a control that knows nothing of the equation.

    The loss can vanish, and γ then grows without bound. `weighting.floor: 1` prevents this.
    """

    name: Literal["jacobian_penalty"] = Field(
        "jacobian_penalty", description="the name by which the configuration asks for this form"
    )


FormSettings = Annotated[
    Residual | NormalizedResidual | PreconditionedResidual | KrylovTarget | SolvedTarget | JacobianPenalty,
    Field(discriminator="name"),
]


def solvers_of(form: FormSettings) -> list[SolverSettings]:
    """The solver of a target, and the one that stands in for it."""
    if not isinstance(form, SolvedTarget):
        return []
    other = form.solver.otherwise if isinstance(form.solver, Direct) else None
    return [form.solver] if other is None else [form.solver, other]


def metric_of(form: FormSettings) -> MetricSettings | None:
    """The metric that a form or a solver of it uses."""
    if isinstance(form, PreconditionedResidual | KrylovTarget):
        return form.metric
    return next((solver.metric for solver in solvers_of(form) if isinstance(solver, Krylov)), None)


def state_of(form: FormSettings) -> Literal["label", "prediction", "corrected"] | None:
    """Where the equation of a target is linearised; None for a form without a target."""
    return form.state if isinstance(form, KrylovTarget | SolvedTarget) else None


class OfflineDi(Settings):
    """Matching of stored tangents."""

    q: Positive = Field(
        4, description="number of directions per update, drawn without replacement and shared by the batch"
    )
    weighting: Weighting = Field(default_factory=Weighting, description="how the derivative loss is weighted")


class Stcl(Settings):
    """The sketched tangent consistency loss."""

    q: Positive = Field(4, description="number of directions per update")
    form: FormSettings | None = Field(
        None, description="how the tangent residual becomes a loss; if left out, the problem's tangent class decides"
    )
    sketch: Sketch = Field(default_factory=Sketch, description="where the directions come from")
    weighting: Weighting = Field(default_factory=Weighting, description="how the derivative loss is weighted")
    inputs: Literal["labelled", "unlabelled", "both"] = Field(
        "labelled",
        description="where tangents are judged: at the training inputs, as published, at inputs from the problem's "
        "prior that nobody has solved, or at both. The data loss is that of the training inputs in any case",
    )
    pool: Positive | None = Field(
        None,
        description="number of unlabelled inputs, which updates then take in turn; if left out, every update draws "
        "new ones",
    )
    unlabelled_batch: Positive | None = Field(
        None, description="number of unlabelled inputs per update; if left out, as many as the batch has samples"
    )
    value: Literal["none", "residual", "corrected"] = Field(
        "none",
        description="what the prediction at unlabelled inputs is drawn to: `none` judges its tangents alone, "
        "`residual` adds its residual in the equation with the weight of the derivative loss, `corrected` adds its "
        "squared distance to itself after one Newton step of the equation, with the weight of the data loss",
    )

    @property
    def settled_form(self) -> FormSettings:
        """The form, which a parsed configuration always has."""
        if self.form is None:
            raise ValueError("no form was chosen; stcl.study.config.parse fills in what the rule says")
        return self.form
