"""The spec of one bank of tangents."""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive
from stcl.study.specs.data import DataSpec


class BankSpec(DataSpec):
    """The first samples of a split, and the directions along which their tangents are solved for."""

    directions: Positive = Field(description="number of directions, which all samples share")
    basis: Literal["prior", "white"] = Field(
        description="distribution of the directions: the problem's own prior, or white noise of unit norm"
    )
    check: bool = Field(description="whether tangents are checked before they are stored")
