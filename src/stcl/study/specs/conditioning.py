"""The spec of a look at one tangent operator."""

from typing import Any

from pydantic import Field

from stcl.core.settings import Positive
from stcl.losses.settings import FormSettings
from stcl.study.specs import Spec


class ConditioningSpec(Spec):
    """Measure the operator of a problem at a few states, and what a form makes of it."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    form: FormSettings = Field(description="form of the sTCL loss")
    samples: Positive = Field(description="states")
    seed: int = Field(description="seed of the directions of the target's error", ge=0)
