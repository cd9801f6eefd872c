"""The training protocol as typed settings, which every training has, whatever its method.

A new problem should start from the defaults. Where the published tables used something else for one of the problems,
`config/paper.yaml` says so and docs/protocol.md says why. The settings of the network are in stcl.operators.settings,
and those of the derivative term are in stcl.losses.settings.
"""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive, PositiveFloat, Settings


class Schedule(Settings):
    """Reduction of the learning rate on a plateau of the monitored validation error."""

    factor: PositiveFloat = Field(0.5, description="factor that multiplies the learning rate at a reduction", lt=1)
    patience: Positive = Field(50, description="number of epochs without improvement that a reduction waits for")
    minimum: PositiveFloat = Field(1e-6, description="learning rate below which no reduction goes")


class Training(Settings):
    """Optimisation, which all methods of a problem share."""

    epochs: Positive = Field(2000, description="number of passes over the training set")
    batch: Positive = Field(32, description="number of samples per update")
    learning_rate: PositiveFloat = Field(1e-3, description="initial step size of Adam")
    adam_eps: PositiveFloat = Field(1e-8, description="number ε that is added to the denominator of Adam's step")
    clip: PositiveFloat = Field(1.0, description="norm of the total gradient above which the gradient is scaled down")
    monitor: Literal["mse", "relative", "jacobian"] = Field(
        "mse",
        description="the validation error that picks the checkpoint, drives the schedule and chooses λ: mean squared, "
        "relative, or that of the Jacobian, which needs `jacobian_every: 1`",
    )
    schedule: Schedule = Field(default_factory=Schedule, description="when and how the learning rate is reduced")
    auxiliary_weight: PositiveFloat = Field(
        0.05,
        description="weight in the data loss of responses that no error scores, such as a pressure; their squared "
        "error counts up to a constant per sample",
    )
    jacobian_every: Positive | None = Field(
        None,
        description="number of epochs between two measurements of the Jacobian error on validation data, along the "
        "directions of `bank.val`; if left out, it is not measured. The published protocol does not use it",
    )
    finish_after: Positive | None = Field(
        None,
        description="number of epochs after which a training ends early: all of them had the lowest learning rate that "
        "the schedule reaches, and none of them had the best monitored error so far; if left out, every training goes "
        "through its epochs. The published protocol does not use it",
    )
    gradient_variance: bool = Field(
        False, description="whether the history records how much the gradients vary within each epoch"
    )
    cuda_graphs: bool = Field(
        False,
        description="whether a GPU records an update once and repeats it, which saves the time between its kernels; "
        "without a GPU, and with `gradient_variance`, it changes nothing. It has not been run on a GPU yet",
    )
