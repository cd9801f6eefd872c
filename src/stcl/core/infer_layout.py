"""The layout of an equation that is given by arrays alone."""

from dataclasses import dataclass

import numpy as np

from stcl.core.errors import EquationError
from stcl.core.layout import Layout

FEW = 4  # leading axes of up to this size are fields, axes of a grid have more nodes


@dataclass(frozen=True, eq=False)
class GivenLayout(Layout):
    """A layout whose inputs may have any shape, not only that of the grid."""

    given_input_shape: tuple[int, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.given_input_shape


def infer_layout(
    response_shape: tuple[int, ...],
    input_shape: tuple[int, ...],
    time_axis: int | None,
    lengths: tuple[float, ...] | None,
    axes: tuple[str, ...] | None,
    fields: int | None,
) -> GivenLayout:
    """The layout of responses and inputs of these shapes, which leave out the batch.

    The other arguments are those of `stcl.Equation`. Axes of length one do not count. All fields are scored.
    """
    shape = without_ones(response_shape)
    count = _count_fields(shape, fields, response_shape)
    grid = shape[1:] if count > 1 else shape
    time = _time_axis(time_axis, grid)
    names = tuple(axes or _names(len(grid), time))
    lengths = tuple(lengths or (1.0,) * len(grid))
    if len(lengths) != len(grid) or len(names) != len(grid):
        raise EquationError(
            f"expected one length and one name for each axis of the grid {grid}, got {lengths}, {names}"
        )
    responses = ("u",) if count == 1 else tuple(f"u{i + 1}" for i in range(count))
    return GivenLayout(
        axes=names,
        coordinates=tuple(np.linspace(0.0, length, n) for n, length in zip(grid, lengths, strict=True)),
        lengths=lengths,
        inputs=("a",),
        responses=responses,
        channels=(*names, "a"),
        input_axes=(),
        scored=responses,
        time_axis=None if time is None else names[time],
        given_input_shape=without_ones(input_shape),
    )


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without axes of length one, which models have and equations do not need."""
    return tuple(n for n in shape if n > 1)


def _count_fields(shape: tuple[int, ...], fields: int | None, given: tuple[int, ...]) -> int:
    """How many fields the response has."""
    guess = shape[0] if len(shape) > 1 and shape[0] <= FEW else 1
    count = guess if fields is None else fields
    grid = shape[1:] if count > 1 else shape
    if not grid or any(n <= FEW for n in grid) or (count > 1 and shape[0] != count):
        raise EquationError(
            f"cannot tell the grid of a response of shape {tuple(given)}: expected [fields, *nodes] or [*nodes] with "
            f"more than {FEW} nodes along each axis; put fields first and say how many with `fields`"
        )
    return count


def _time_axis(axis: int | None, grid: tuple[int, ...]) -> int | None:
    if axis is None:
        return None
    if not -len(grid) <= axis < len(grid):
        raise EquationError(
            f"time_axis must be an axis of the grid {grid}, counted without batch and fields, got {axis}"
        )
    return axis % len(grid)


def _names(count: int, time: int | None) -> list[str]:
    """The axis of time is t; a single axis of space is x, several are x1, x2 and so on."""
    names = ["t"] * count
    space = [i for i in range(count) if i != time]
    for number, i in enumerate(space, start=1):
        names[i] = "x" if len(space) == 1 else f"x{number}"
    return names
