"""The training protocol as typed settings: what every cell has. Those of the derivative term: stcl.losses.settings.

Defaults are what a new problem should start from. Where the published tables used something else for one of the
problems, `config/paper.yaml` says so and docs/protocol.md says why.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


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
    auxiliary_weight: PositiveFloat = Field(
        0.05, description="of the squared error of responses that are not scored, up to a constant per sample"
    )
    gradient_variance: bool = Field(False, description="record the gradients' variance within each epoch")
