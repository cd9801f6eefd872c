"""The spec of a comparison of run times."""

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs import Spec
from stcl.study.specs.train import TrainSpec


class TimingSpec(Spec):
    """The cells whose epochs are run in turn."""

    cells: dict[str, TrainSpec] = Field(description="spec of each cell, under the cell's path", min_length=1)
    epochs: Positive = Field(
        description="number of epochs of each cell that are measured; one more runs first and does not count"
    )
