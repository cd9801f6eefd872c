"""Settings of the surrogate. They are apart from the network itself, so that a configuration is read without torch."""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive, Settings


class Network(Settings):
    """The Fourier neural operator."""

    width: Positive = Field(32, description="number of channels of the hidden layers")
    modes: Positive = Field(12, description="number of Fourier modes that are kept per axis")
    layers: int = Field(4, description="number of Fourier layers", ge=2)
    head: Positive = Field(128, description="hidden width of the pointwise output head")
    init: Literal["normal", "uniform"] = Field(
        "normal", description="law of the spectral weights, N(0,1) or U[0,1), before they are divided by width²"
    )
    standardise: bool = Field(
        False, description="whether to subtract the mean of the training inputs and divide by their standard deviation"
    )
