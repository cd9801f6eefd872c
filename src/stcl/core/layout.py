"""How the arrays of a problem are laid out. This is the one thing that problems and networks both know."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Layout:
    """Names and nodes of the input a and the response u on the network's grid.

    A single field has no channel axis: a diffusion input is [..., n, n], a Navier-Stokes forcing [..., 2, n, n].
    An input that is constant along some grid axes does not carry them: a Burgers forcing f(t) is [..., 100].
    """

    axes: tuple[str, ...]  # grid axes in array order, e.g. ("x1", "x2") or ("x", "t")
    coordinates: tuple[np.ndarray, ...]  # nodes of each axis, physical units
    lengths: tuple[float, ...]  # extent of the domain along each axis; networks see coordinate / length
    inputs: tuple[str, ...]  # input fields, e.g. ("a",)
    responses: tuple[str, ...]  # response fields, e.g. ("u",) or ("y1", "y2", "p")
    channels: tuple[str, ...]  # what a network sees, in order: every name of `axes` and of `inputs` once
    input_axes: tuple[str, ...]  # grid axes along which the input varies
    scored: tuple[str, ...]  # leading responses that errors and stored tangents count
    time_axis: str | None = None  # the axis along which the equation marches; None for a steady problem
    initial_axis: str | None = None  # time axis whose first frame is the input itself: u = a + (t/T) net(a)

    def __post_init__(self) -> None:
        if sorted(self.channels) != sorted(self.axes + self.inputs):
            raise ValueError(f"channels {self.channels} must list each of {self.axes + self.inputs} once")
        if self.responses[: len(self.scored)] != self.scored:
            raise ValueError(f"scored {self.scored} must be the leading responses of {self.responses}")
        if not set(self.input_axes) <= set(self.axes):
            raise ValueError(f"input_axes {self.input_axes} must be among the axes {self.axes}")
        if self.time_axis not in (None, *self.axes):
            raise ValueError(f"time_axis {self.time_axis!r} must be one of the axes {self.axes}, or None")
        if self.initial_axis not in (None, self.time_axis):
            raise ValueError(f"initial_axis {self.initial_axis!r} must be the time_axis, which is {self.time_axis!r}")

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.coordinates)

    @property
    def in_words(self) -> str:
        """The responses and the grid, for example "u on x1 (17 nodes) × x2 (17 nodes)"."""
        axes = " × ".join(f"{axis} ({n} nodes)" for axis, n in zip(self.axes, self.grid, strict=True))
        return f"{', '.join(self.responses)} on {axes}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input on the network's grid."""
        nodes = tuple(n for n, axis in zip(self.grid, self.axes, strict=True) if axis in self.input_axes)
        return _fields(self.inputs) + nodes

    @property
    def response_shape(self) -> tuple[int, ...]:
        return _fields(self.responses) + self.grid

    @property
    def tangent_shape(self) -> tuple[int, ...]:
        """Shape of the scored part of one response, or of one stored tangent."""
        return _fields(self.scored) + self.grid

    @property
    def input_dims(self) -> tuple[str, ...]:
        """Names of the axes of one input."""
        return (("input",) if len(self.inputs) > 1 else ()) + tuple(a for a in self.axes if a in self.input_axes)

    @property
    def response_dims(self) -> tuple[str, ...]:
        return (("response",) if len(self.responses) > 1 else ()) + self.axes

    @property
    def tangent_dims(self) -> tuple[str, ...]:
        return (("scored",) if len(self.scored) > 1 else ()) + self.axes

    def score(self, u: Any) -> Any:
        """The scored part of responses [..., *response_shape], numpy or torch."""
        if self.scored == self.responses:
            return u
        fields = slice(len(self.scored)) if len(self.scored) > 1 else 0
        return u[(..., fields) + (slice(None),) * len(self.grid)]


def _fields(names: tuple[str, ...]) -> tuple[int, ...]:
    return (len(names),) if len(names) > 1 else ()
