"""The training protocol as typed settings: network, optimisation, weighting, sketch, form.

Defaults are what a new problem should start from. Where the published tables used something else for one of the
problems, `config/paper.yaml` says so and docs/protocol.md says why.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
ModuleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Settings(BaseModel):
    """Settings that refuse unknown keys and do not change once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_name=True, validate_by_alias=True)


class Network(Settings):
    """The Fourier neural operator."""

    width: Positive = Field(32, description="channels of the hidden layers")
    modes: Positive = Field(12, description="Fourier modes kept per axis")
    layers: Positive = Field(4, description="Fourier layers")
    head: Positive = Field(128, description="hidden width of the pointwise output head")
    init: Literal["normal", "uniform"] = Field("normal", description="spectral weights: N(0,1) or U[0,1), over width²")
    standardise: bool = Field(False, description="subtract mean and divide by std of the training inputs")


class Schedule(Settings):
    """Learning-rate reduction on a plateau of the monitored validation error."""

    factor: PositiveFloat = Field(0.5, description="multiplies the learning rate", lt=1)
    patience: Positive = Field(50, description="epochs without improvement before a reduction")
    minimum: PositiveFloat = Field(1e-6, description="smallest learning rate")


class Training(Settings):
    """Optimisation, shared by all methods of a problem."""

    epochs: Positive = Field(2000, description="passes over the training set")
    batch: Positive = Field(32, description="samples per update")
    learning_rate: PositiveFloat = Field(1e-3, description="Adam's initial step size")
    adam_eps: PositiveFloat = Field(1e-8, description="Adam's denominator floor")
    clip: PositiveFloat = Field(1.0, description="largest norm of the total gradient")
    monitor: Literal["mse", "relative"] = Field(
        "mse", description="validation error that picks the checkpoint and drives the schedule"
    )
    schedule: Schedule = Field(default_factory=Schedule, description="learning-rate reduction")


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


class Form(Settings):
    """How the tangent residual becomes a loss."""

    name: ModuleName = Field("preconditioned_residual", description="a module of stcl/losses")
    metric: ModuleName = Field("inverse_laplacian", description="a module of stcl/losses/metrics")
    detach_state: bool = Field(True, description="no gradient through u_θ where it is a coefficient")


class Fno(Settings):
    """Data loss only."""


class OfflineDi(Settings):
    """Matching of stored tangents."""

    q: Positive = Field(4, description="directions per update, without replacement, shared by the batch")
    weighting: Weighting = Field(default_factory=Weighting, description="of the derivative loss")


class Stcl(Settings):
    """The sketched tangent consistency loss."""

    q: Positive = Field(4, description="directions per update")
    form: Form = Field(default_factory=Form, description="residual to loss")
    sketch: Sketch = Field(default_factory=Sketch, description="where directions come from")
    weighting: Weighting = Field(default_factory=Weighting, description="of the derivative loss")
