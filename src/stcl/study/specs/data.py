"""The spec of one split of a dataset."""

from typing import Any, Literal

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs import Spec


class DataSpec(Spec):
    """The first samples of a split, which are drawn and solved."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    split: Literal["train", "val", "test"] = Field(description="the split, each of which has draws of its own")
    samples: Positive = Field(description="number of samples to store")
