"""The training protocol as typed settings: what every cell has, whatever its method.

Defaults are what a new problem should start from. Where the published tables used something else for one of the
problems, `config/paper.yaml` says so and docs/protocol.md says why. The settings of the network are in
stcl.operators.settings, those of the derivative term in stcl.losses.settings.
"""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive, PositiveFloat, Settings


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
