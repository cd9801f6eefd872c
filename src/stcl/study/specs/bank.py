"""The spec of one bank of tangents."""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs.data import DataSpec


class BankSpec(DataSpec):
    """Solve for the tangents of the first samples of a split along the directions of a stream."""

    directions: Positive = Field(description="directions, shared by all samples")
    basis: Literal["prior", "white"] = Field(description="distribution of the directions")
    check: bool = Field(description="whether labels are checked before they are stored")
