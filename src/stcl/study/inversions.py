"""The settings of the inverse problems of a study."""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive, PositiveFloat, Settings


class Inversions(Settings):
    """The inverse problems of a study: what is observed, with which noise, and which inputs are looked for."""

    sensors: list[Positive] = Field(
        [5, 5],
        description="number of sensors along each axis of the grid, in space or in space and time; each observes all "
        "scored responses",
        min_length=1,
    )
    noise: PositiveFloat = Field(
        0.02, description="standard deviation of the noise, relative to the root mean square of what is observed"
    )
    truths: Positive = Field(8, description="number of inputs to be found that are drawn from the prior")
    outside: int = Field(
        4, description="number of inputs to be found that are drawn from a wider prior, outside the bulk", ge=0
    )
    scale: PositiveFloat = Field(2.0, description="how many times as wide that prior is")
    modes: Positive = Field(
        64, description="number of leading modes of the prior in which inputs are looked for; it may have fewer"
    )
    points: Positive = Field(16, description="number of inputs of the prior at which gradients are compared")


class Sampling(Settings):
    """Delayed-acceptance Markov chains, whose proposals come from the surrogate and which the solver corrects."""

    chains: Positive = Field(16, description="number of chains, which advance together")
    steps: int = Field(150, description="number of steps of each chain; the first fifth is not counted", ge=2)
    beta: PositiveFloat = Field(0.5, description="size of a proposal, at most 1, which would be independent", le=1)


class InverseStudy(Inversions):
    """The inverse problems of one problem, and the trainings that they are solved with."""

    cells: Literal["shown", "all"] = Field(
        "all",
        description="the trainings through which they are solved: `all` of the problem's main ones, or those with the "
        "training size that is `shown` in figures",
    )
    sampling: Sampling | None = Field(
        None, description="makes Markov chains for the first of the inverse problems; there are none if left out"
    )
