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


def too_many_modes(modes: int, grid: tuple[int, ...]) -> str | None:
    """Why a grid of two axes cannot hold this many modes per axis; None if it can."""
    if 2 * modes <= grid[0] and modes <= grid[1] // 2 + 1:
        return None
    return (
        f"{modes} modes need a grid of at least {2 * modes} x {2 * modes - 2} nodes, "
        f"got {' x '.join(map(str, grid))}; use fewer modes or a finer grid"
    )
