"""Settings of the derivative term: sketch, form, metric, weighting.

They are apart from the settings that every cell has, so that a new form here does not touch cells that have none.
"""

from typing import Annotated, Literal

from pydantic import Field

from stcl.core.interfaces import Solver, Transform
from stcl.core.settings import NotNegativeFloat, Positive, PositiveFloat, Settings


class Weighting(Settings):
    """γ = λ · EMA(L_data) / max(EMA(L_deriv), floor)."""

    decay: float = Field(0.99, description="of both moving averages", ge=0, lt=1)
    floor: PositiveFloat = Field(1e-20, description="smallest derivative loss that is divided by")
    update: Literal["before", "after"] = Field(
        "before", description="averages take the current losses before γ is used, or after (first γ = λ)"
    )


class Sketch(Settings):
    """Where the q directions of an sTCL update come from."""

    source: Literal["fresh", "pool"] = Field("fresh", description="new draws at each update, or a fixed pool, cycled")
    pool: Positive = Field(2048, description="size of the pool, for source `pool`")
    shared: bool = Field(False, description="one set of q directions for the whole batch, instead of per sample")


class InverseLaplacian(Settings):
    """M = D^-1/2 (−Δₕ)⁻¹ D^-1/2 with D = eᵃ, for stiff elliptic residuals."""

    name: Literal["inverse_laplacian"] = Field("inverse_laplacian", description="of the metric")


class ShiftedLaplacian(Settings):
    """M = (−Δₕ + shift)⁻¹, for elliptic operators with a bounded indefinite part."""

    name: Literal["shifted_laplacian"] = Field("shifted_laplacian", description="of the metric")
    shift: PositiveFloat = Field(12.5, description="κ²/2 of the published Helmholtz problem")


class FittedLaplacian(Settings):
    """M = D^-1/2 (Σ wᵢ Lᵢ + shift)⁻¹ D^-1/2 with the second difference Lᵢ of each axis and D the diagonal of A."""

    name: Literal["fitted_laplacian"] = Field("fitted_laplacian", description="of the metric")
    transforms: list[Transform] | None = Field(
        None,
        description="of each axis: sine between walls, cosine without flux, fourier if periodic; this and the next "
        "three, if left out, are fitted to the operator before training",
    )
    weights: list[NotNegativeFloat] | None = Field(None, description="wᵢ of each axis, 1/h² for a Laplacian")
    shift: NotNegativeFloat | None = Field(None, description="added to the Laplacian")
    scaled: bool | None = Field(None, description="divide by the operator's own diagonal, or D = 1")


class LerayOseen(Settings):
    """Leray-projected momentum weighed by an inverse Oseen symbol, plus divergence and boundary terms."""

    name: Literal["leray_oseen"] = Field("leray_oseen", description="of the metric")
    viscosity: PositiveFloat | None = Field(None, description="µ of the Oseen symbol; left out: the problem's mu")
    speed: NotNegativeFloat = Field(3.0, description="characteristic speed b₀ of the Oseen symbol")
    shift: PositiveFloat = Field(0.005, description="τ, share of the largest symbol that is added to all")
    divergence: PositiveFloat = Field(0.05, description="weight of the mean squared divergence")
    boundary: PositiveFloat = Field(1.0, description="weight of the mean squared boundary values")


EllipticMetricSettings = Annotated[InverseLaplacian | ShiftedLaplacian | FittedLaplacian, Field(discriminator="name")]
MetricSettings = Annotated[
    InverseLaplacian | ShiftedLaplacian | FittedLaplacian | LerayOseen, Field(discriminator="name")
]

DetachState = Annotated[bool, Field(description="no gradient through u_θ where it is a coefficient")]


class Residual(Settings):
    """Mean square of the tangent residual."""

    name: Literal["residual"] = Field("residual", description="of the form")
    detach_state: DetachState = True


class NormalizedResidual(Settings):
    """Square of the tangent residual relative to that of its right-hand side."""

    name: Literal["normalized_residual"] = Field("normalized_residual", description="of the form")
    detach_state: DetachState = True


class PreconditionedResidual(Settings):
    """Energy of the tangent residual in a metric."""

    name: Literal["preconditioned_residual"] = Field("preconditioned_residual", description="of the form")
    detach_state: DetachState = True
    metric: MetricSettings = Field(description="what weighs the residual")


class KrylovTarget(Settings):
    """Mean square distance to a tangent that a few Krylov steps have solved for."""

    name: Literal["krylov_target"] = Field("krylov_target", description="of the form")
    metric: EllipticMetricSettings = Field(description="the solver's preconditioner")
    steps: Positive = Field(5, description="m, steps of the solver")
    solver: Solver | None = Field(None, description="left out: the one that fits the operator")
    state: Literal["label", "prediction"] = Field("label", description="where the equation is linearised: u or u_θ")


class JacobianPenalty(Settings):
    """Mean square of the tangents themselves: a control that knows nothing of the equation. It can vanish, and γ then
    grows without bound: `weighting.floor: 1` prevents it."""

    name: Literal["jacobian_penalty"] = Field("jacobian_penalty", description="of the form")


FormSettings = Annotated[
    Residual | NormalizedResidual | PreconditionedResidual | KrylovTarget | JacobianPenalty,
    Field(discriminator="name"),
]


class OfflineDi(Settings):
    """Matching of stored tangents."""

    q: Positive = Field(4, description="directions per update, without replacement, shared by the batch")
    weighting: Weighting = Field(default_factory=Weighting, description="of the derivative loss")


class Stcl(Settings):
    """The sketched tangent consistency loss."""

    q: Positive = Field(4, description="directions per update")
    form: FormSettings | None = Field(None, description="residual to loss; left out: by the problem's tangent class")
    sketch: Sketch = Field(default_factory=Sketch, description="where directions come from")
    weighting: Weighting = Field(default_factory=Weighting, description="of the derivative loss")

    @property
    def settled_form(self) -> FormSettings:
        """The form, which a parsed configuration always has."""
        if self.form is None:
            raise ValueError("no form was chosen; stcl.study.config.parse fills in what the rule says")
        return self.form
