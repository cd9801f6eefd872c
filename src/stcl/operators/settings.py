"""Settings of the surrogate. They are apart from the network itself, so that a configuration is read without torch."""

from typing import Literal

from pydantic import Field

from stcl.core.settings import Positive, Settings


class Network(Settings):
    """The Fourier neural operator."""

    width: Positive = Field(32, description="channels of the hidden layers")
    modes: Positive = Field(12, description="Fourier modes kept per axis")
    layers: Positive = Field(4, description="Fourier layers")
    head: Positive = Field(128, description="hidden width of the pointwise output head")
    init: Literal["normal", "uniform"] = Field("normal", description="spectral weights: N(0,1) or U[0,1), over width²")
    standardise: bool = Field(False, description="subtract mean and divide by std of the training inputs")
