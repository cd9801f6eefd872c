"""The spec of one split of a dataset."""

from typing import Any, Literal

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs import Spec


class DataSpec(Spec):
    """Draw the first samples of a split and solve them."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    split: Literal["train", "val", "test"] = Field(description="which draws of the prior")
    samples: Positive = Field(description="samples to store")
