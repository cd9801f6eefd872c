"""The spec of a comparison of run times."""

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs import Spec
from stcl.study.specs.train import TrainSpec


class TimingSpec(Spec):
    """Run a few epochs of several cells in turn."""

    cells: dict[str, TrainSpec] = Field(description="the cells by path", min_length=1)
    epochs: Positive = Field(description="epochs that are measured; one more is run first")
