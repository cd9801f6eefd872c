"""The base class of all settings. A room keeps the settings of its own things in a file of its own."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """Settings that refuse unknown keys and do not change once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_name=True, validate_by_alias=True)
