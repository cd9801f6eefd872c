"""What the problems on the unit square share: nodes, cosine fields, centred differences, the five-point solve.

Arrays are [..., n, n] with the boundary nodes included. Differences live at the (n-2)×(n-2) interior nodes.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from stcl.core.arrays import norms, unit_norm
from stcl.core.layout import Layout
from stcl.problems._block_tridiagonal import BlockTridiagonal
from stcl.problems.base import Problem, Split, Stream

COMPLEX_STEP = 1e-30  # f(x + iεy) = f(x) + iε f'(x) y to rounding, for analytic f and any tiny ε


@dataclass(frozen=True)
class OnSquare(Problem):
    """A problem on the n×n nodes of the unit square."""

    n: int = 65  # nodes per side, boundary included

    @property
    def h(self) -> float:
        """The distance between nodes."""
        return 1.0 / (self.n - 1)

    @cached_property
    def nodes(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, self.n)


@dataclass(frozen=True)
class ScalarOnSquare(OnSquare):
    """A problem with one input field and one response field, whose prior is a linear map of normals."""

    input_seed: ClassVar[dict[Split, int]]
    direction_seed: ClassVar[dict[Stream, int]]

    @cached_property
    def layout(self) -> Layout:
        return scalar_layout(self.nodes)

    @abstractmethod
    def _fields(self, noise):
        """Draws of the prior [..., n, n] from normals [..., *noise_shape], numpy or torch."""

    def inputs(self, count: int, split: Split) -> np.ndarray:
        rng = np.random.default_rng(self.input_seed[split])
        return self.input(rng.standard_normal((count, *self.input_noise_shape)))

    @property
    def input_noise_shape(self) -> tuple[int, ...]:
        return self.noise_shape

    def input(self, noise):
        return self._fields(noise)

    def direction(self, noise):
        return unit_norm(self._fields(noise), axes=2)

    def directions(self, count: int, stream: Stream) -> np.ndarray:
        rng = np.random.default_rng(self.direction_seed[stream])
        return self.direction(rng.standard_normal((count, *self.noise_shape)))


def scalar_layout(nodes: np.ndarray) -> Layout:
    """The layout of one input field a and one response field u at the same nodes, indexed [x1, x2]."""
    return Layout(
        axes=("x1", "x2"),
        coordinates=(nodes, nodes),
        lengths=(1.0, 1.0),
        inputs=("a",),
        responses=("u",),
        channels=("x1", "x2", "a"),
        input_axes=("x1", "x2"),
        scored=("u",),
    )


def cosines(count: int, nodes: np.ndarray) -> np.ndarray:
    """The values cos(kπx) for k = 0 … count-1, [count, n]."""
    return np.cos(np.pi * np.outer(np.arange(count), nodes))


def inner(field):
    return field[..., 1:-1, 1:-1]


def centred(field, h: float):
    """Derivatives of nodal values along the last two axes, in array order."""
    return (
        (field[..., 2:, 1:-1] - field[..., :-2, 1:-1]) / (2 * h),
        (field[..., 1:-1, 2:] - field[..., 1:-1, :-2]) / (2 * h),
    )


def differences(field):
    """Next minus previous node along the last two axes, in array order."""
    return (field[..., 2:, 1:-1] - field[..., :-2, 1:-1], field[..., 1:-1, 2:] - field[..., 1:-1, :-2])


def laplacian(field, h: float):
    neighbours = field[..., 2:, 1:-1] + field[..., :-2, 1:-1] + field[..., 1:-1, 2:] + field[..., 1:-1, :-2]
    return (neighbours - 4 * field[..., 1:-1, 1:-1]) / h**2


def zero_boundary(field):
    """The torch field with its boundary values replaced by zero."""
    from torch.nn.functional import pad

    return pad(inner(field), (1, 1, 1, 1))


def embed(interior: np.ndarray) -> np.ndarray:
    """The field [..., n, n] with these values [..., n-2, n-2] at the interior nodes and zeros on the boundary."""
    *lead, m, k = interior.shape
    field = np.zeros((*lead, m + 2, k + 2))
    field[..., 1:-1, 1:-1] = interior
    return field


def boundary(field: np.ndarray) -> np.ndarray:
    """The values at the boundary nodes, [..., 4(n-1)]."""
    sides = [field[..., 0, :], field[..., -1, :], field[..., 1:-1, 0], field[..., 1:-1, -1]]
    return np.concatenate(sides, axis=-1)


def tangent_defect(residual: Callable, u, a, w, v, h: float) -> np.ndarray:
    """|F'(u, a)[w, v]| / |F'(u, a)[0, v]| of each sample for a numpy residual(u, a), by a complex step.

    A tangent vanishes on the boundary. A value that it has there counts as the residual of w / h² = 0.
    """

    def derivative(w):
        return residual(u + 1j * COMPLEX_STEP * w, a + 1j * COMPLEX_STEP * v).imag / COMPLEX_STEP

    return np.hypot(norms(derivative(w)), norms(boundary(w)) / h**2) / norms(derivative(np.zeros_like(w)))


def factorise_five_point(centre, axis1, axis2) -> BlockTridiagonal:
    """The factorised matrix with this stencil at each interior node, [samples, n-2, n-2].

    The stencil has the coefficient of the node itself and, for both axes, the pair (previous node, next node).
    """
    samples, m, _ = centre.shape
    row = np.arange(m)
    blocks = np.zeros((samples, m, m, m))
    blocks[:, :, row, row] = centre
    blocks[:, :, row[1:], row[:-1]] = axis2[0][:, :, 1:]
    blocks[:, :, row[:-1], row[1:]] = axis2[1][:, :, :-1]
    return BlockTridiagonal.factorise(blocks, {(0, 0): axis1[0]}, {(0, 0): axis1[1]})


def solve_onto(factor: BlockTridiagonal, rhs: np.ndarray, out: np.ndarray) -> None:
    """Puts the solutions for rhs [samples, n-2, n-2, r] into the interior of out [samples, r, n, n]. Overwrites rhs."""
    x = factor.solve(rhs)
    for i in range(x.shape[1]):  # axes are swapped in one grid row after the other, because a row fits the cache
        out[:, :, i + 1, 1:-1] = np.moveaxis(x[:, i], -1, 1)


def solve_five_point(centre, axis1, axis2, rhs: np.ndarray) -> np.ndarray:
    """The solutions x [samples, r, n, n], zero on the boundary, for rhs [samples, n-2, n-2, r]. Overwrites `rhs`."""
    samples, m, _, r = rhs.shape
    x = np.zeros((samples, r, m + 2, m + 2))
    solve_onto(factorise_five_point(centre, axis1, axis2), rhs, x)
    return x
