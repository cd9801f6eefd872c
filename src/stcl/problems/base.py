"""The questions a problem answers, and no others."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from stcl.core.layout import Layout

if TYPE_CHECKING:
    import torch

Split = Literal["train", "val", "test"]
Stream = Literal["train", "val", "test", "sketch"]
TangentClass = Literal["spd", "indefinite", "parabolic", "saddle"]


class SolveError(RuntimeError):
    """A reference solve did not converge or gave a bad field. The message names the sample and what to do."""


@dataclass(frozen=True)
class Problem(ABC):
    """One PDE F(u, a) = 0 with its prior, reference solver, exact tangents and differentiable residual.

    A problem is a frozen dataclass whose fields are its constants, the grid size among them. Arrays are batched
    over samples: a is [samples, ...], directions v are [directions, ...] and shared by the samples. Everything
    but `residual` and `direction` is float64 numpy. `counts` is a ledger that the solver fills as it works:
    factorisations, linear solves, Newton steps.
    """

    tangent_class: ClassVar[TangentClass]  # the decision rule picks the form of the loss from it
    tangent_tolerance: ClassVar[float] = 1e-4  # no label with a larger `tangent_defect` is stored
    difference_step: ClassVar[float] = 1e-4  # of the finite difference in `tangent_defect`, relative to the input

    counts: Counter = field(default_factory=Counter, init=False, repr=False, compare=False)

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Names, nodes and shapes on the network's grid."""

    # -- prior ------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, count: int, split: Split) -> np.ndarray:
        """The first `count` candidate inputs of a split, as the solver takes them. Longer draws begin the same."""

    @property
    @abstractmethod
    def noise_shape(self) -> tuple[int, ...]:
        """Shape of the standard normals that make one direction."""

    @abstractmethod
    def direction(self, noise):
        """Directions of the problem's own prior on the network's grid from normals [..., *noise_shape].

        Written with operations that numpy and torch share, so that training can draw on its device.
        """

    @abstractmethod
    def directions(self, count: int, stream: Stream) -> np.ndarray:
        """The first `count` directions of a stream, as the solver takes them; shared by all samples."""

    def network_input(self, a: np.ndarray) -> np.ndarray:
        """Inputs or directions as the network sees them, [..., *layout.input_shape]. Linear in a."""
        return a

    # -- reference solver -------------------------------------------------------------------------------------

    @abstractmethod
    def solve(self, a: np.ndarray) -> np.ndarray:
        """Responses u [samples, *layout.response_shape]. Raises SolveError; never returns a bad field."""

    @abstractmethod
    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """w = DS(a)[v], the derivative of the discrete map: [samples, directions, *layout.tangent_shape]."""

    def tangent_defect(self, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        """How far w [samples, *layout.tangent_shape] is from DS(a)[v] for a single v, relative: [samples].

        It must not share code with `tangents`. Here |w − d| / |d| with d = (S(a + εv) − S(a − εv)) / 2ε, two solves
        per sample. A problem whose w can be put into the sensitivity equation itself returns |A w + B v| / |B v|.
        """
        step = self.difference_step * norms(a) / np.linalg.norm(v)
        shift = step.reshape(-1, *[1] * v.ndim) * v
        change = self.layout.score(self.solve(a + shift) - self.solve(a - shift))
        difference = change / (2 * step.reshape(-1, *[1] * (w.ndim - 1)))
        return norms(w - difference) / norms(difference)

    def candidates(self, count: int) -> int:
        """How many inputs to draw and solve so that `count` survive `accept`."""
        return count

    def accept(self, u: np.ndarray) -> np.ndarray:
        """Which of all candidates' responses stay in the dataset, [candidates] of bool."""
        return np.ones(len(u), dtype=bool)

    # -- the equation -----------------------------------------------------------------------------------------

    @abstractmethod
    def residual(self, u: "torch.Tensor", a: "torch.Tensor") -> "torch.Tensor":
        """F(u, a) on the network's grid: torch, batched over leading axes, differentiable in both arguments.

        A problem whose loss weighs parts of the equation apart returns them as a NamedTuple of tensors.
        """


def check_fields(what: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse arrays that are not finite batches of `shape`, before any solver sees them."""
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        raise ValueError(f"expected {what} of shape (samples, {', '.join(map(str, shape))}), got {array.shape}")
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
        raise ValueError(
            f"{what} {bad[:5].tolist()} have non-finite values; check the prior or the store they came from"
        )


def norms(fields: np.ndarray) -> np.ndarray:
    """The Euclidean norm of each sample: [samples]."""
    return np.linalg.norm(fields.reshape(len(fields), -1), axis=1)


def unit_norm(fields, axes: int):
    """Divide each field by its Euclidean norm over its last `axes` axes, numpy or torch."""
    square = (fields * fields).reshape(*fields.shape[: fields.ndim - axes], -1).sum(-1)
    return fields / (square**0.5).reshape(*square.shape, *([1] * axes))


def like(x, table: np.ndarray):
    """A constant table next to x: itself for numpy, on x's device (and in its dtype, if floating) for torch."""
    if isinstance(x, np.ndarray):
        return table
    import torch

    tensor = torch.from_numpy(table).to(x.device)
    return tensor.to(x.dtype) if tensor.is_floating_point() else tensor
