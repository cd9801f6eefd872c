"""The spec of a measurement of one tangent operator."""

from typing import Any

from pydantic import Field

from stcl.core.settings import Positive
from stcl.losses.settings import FormSettings
from stcl.study.specs import Spec


class ConditioningSpec(Spec):
    """The operator to measure at a few states, and the form of the loss whose effect on it is measured."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    form: FormSettings = Field(description="form of the sTCL loss")
    samples: Positive = Field(description="number of states at which the operator is measured")
    seed: int = Field(description="seed of the directions along which the error of a target is measured", ge=0)
