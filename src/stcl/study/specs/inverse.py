"""The specs of inverse problems: of the reference answers, and of what is measured of trained cells."""

from typing import Any

from pydantic import Field

from stcl.study.inversions import Inversions, Sampling
from stcl.study.specs import Spec


class InverseReferenceSpec(Spec):
    """The inverse problems of one dataset, which the reference solver answers."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    inversions: Inversions = Field(description="the inverse problems")


class InverseSpec(Spec):
    """What is measured of the cells of one block."""

    sampling: Sampling | None = Field(description="the Markov chains; null if there are none")
