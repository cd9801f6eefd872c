"""The interface of a problem: the questions that it answers, and no others."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from stcl.core.arrays import norms
from stcl.core.interfaces import March, TangentClass
from stcl.core.layout import Layout

if TYPE_CHECKING:
    import torch

Split = Literal["train", "val", "test"]
Stream = Literal["train", "val", "test", "sketch"]


class SolveError(RuntimeError):
    """A reference solve did not converge or gave a bad field. The message names the sample and says what to do."""


@dataclass(frozen=True)
class Problem(ABC):
    """One PDE F(u, a) = 0 with its prior, reference solver, exact tangents and differentiable residual.

    A problem is a frozen dataclass whose fields are its constants, the grid size among them. Arrays are batched
    over samples: a is [samples, ...], directions v are [directions, ...] and shared by the samples. The reference
    solver and the stored draws are float64 numpy, the equation is torch, and what makes or maps inputs, which training
    does on its device, takes either. `counts` is a ledger that the solver fills as it works:
    factorisations, linear solves, Newton steps.
    """

    tangent_class: ClassVar[TangentClass]  # the decision rule picks the form of the loss from it
    tangent_tolerance: ClassVar[float] = 1e-4  # no label with a larger `tangent_defect` is stored
    # Whether `accept` leaves out responses with a large norm, as those near a resonance have. Training then leaves such
    # inputs out, too, where it draws inputs itself.
    resonant: ClassVar[bool] = False
    difference_step: ClassVar[float] = 1e-4  # step of the difference in `tangent_defect`, relative to the input

    counts: Counter = field(default_factory=Counter, init=False, repr=False, compare=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """What is written out belongs to one residual: a class with another one does not inherit it."""
        super().__init_subclass__(**kwargs)
        if "residual" in vars(cls):
            for name in ("tangent_residual", "input_derivative", "state_products", "five_coefficients", "march"):
                if name not in vars(cls):
                    setattr(cls, name, None)

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Names, nodes and shapes on the network's grid."""

    # -- prior ------------------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, count: int, split: Split) -> np.ndarray:
        """The first `count` candidate inputs of a split, as the solver takes them. A longer draw begins with them."""

    @property
    def input_noise_shape(self) -> tuple[int, ...]:
        """Shape of the standard normals that make one input. What draws inputs of its own asks for it."""
        raise ValueError(f"{type(self).__name__} does not say which normals make an input; give it input_noise_shape")

    def input(self, noise):
        """Inputs of the prior, as the solver takes them, from standard normals [..., *input_noise_shape].

        Like `direction`, it is written with operations that numpy and torch share, and it is differentiable.
        """
        raise ValueError(f"{type(self).__name__} does not say how normals make an input; give it a method input(noise)")

    def whitened(self, noise):
        """The prior of an inverse problem: inputs from normals [..., *input_noise_shape], smooth everywhere.

        It is `input` itself, unless that divides by something random: then one number takes its place.
        """
        return self.input(noise)

    @property
    @abstractmethod
    def noise_shape(self) -> tuple[int, ...]:
        """Shape of the standard normals that make one direction."""

    @abstractmethod
    def direction(self, noise):
        """Directions of the problem's own prior on the network's grid from normals [..., *noise_shape].

        It is written with operations that numpy and torch share, so that training can draw on its device.
        """

    @abstractmethod
    def directions(self, count: int, stream: Stream) -> np.ndarray:
        """The first `count` directions of a stream, as the solver takes them. All samples share them."""

    def network_input(self, a):
        """Inputs or directions as the network sees them, [..., *layout.input_shape]. The map is linear in a.

        Like `direction`, it is written with operations that numpy and torch share: stores ask for arrays, and inverse
        problems and unlabelled inputs for tensors.
        """
        return a

    # -- reference solver -------------------------------------------------------------------------------------

    @abstractmethod
    def solve(self, a: np.ndarray) -> np.ndarray:
        """Responses u [samples, *layout.response_shape]. It raises SolveError and never returns a bad field."""

    @abstractmethod
    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """w = DS(a)[v], the derivative of the discrete map: [samples, directions, *layout.tangent_shape]."""

    def tangent_defect(self, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The relative distance [samples] of w [samples, *layout.tangent_shape] from DS(a)[v] for a single v.

        It must not share code with `tangents`. Here it is |w − d| / |d| with d = (S(a + εv) − S(a − εv)) / 2ε, which
        takes two solves per sample. A problem whose w can be put into the sensitivity equation itself returns
        |A w + B v| / |B v|.
        """
        step = self.difference_step * norms(a) / np.linalg.norm(v)
        shift = step.reshape(-1, *[1] * v.ndim) * v
        change = self.layout.score(self.solve(a + shift) - self.solve(a - shift))
        difference = change / (2 * step.reshape(-1, *[1] * (w.ndim - 1)))
        return norms(w - difference) / norms(difference)

    def candidates(self, count: int) -> int:
        """The number of inputs to draw and solve so that `count` survive `accept`."""
        return count

    def accept(self, u: np.ndarray) -> np.ndarray:
        """Whether the response of each candidate stays in the dataset, [candidates] of bool."""
        return np.ones(len(u), dtype=bool)

    # -- the equation -----------------------------------------------------------------------------------------

    @abstractmethod
    def residual(self, u: "torch.Tensor", a: "torch.Tensor") -> Any:
        """F(u, a) on the network's grid, in torch, batched over leading axes and differentiable in both arguments.

        A problem whose loss weighs parts of the equation apart returns them as a NamedTuple of tensors.
        """

    # `stcl.core.interfaces.DiscreteEquation` asks for these, too. Most problems have nothing to add to them.
    tangent_residual: ClassVar[Callable[..., Any] | None] = None
    input_derivative: ClassVar[Callable[..., Any] | None] = None
    state_products: ClassVar[Callable[..., Any] | None] = None
    five_coefficients: ClassVar[Callable[..., Any] | None] = None
    saddle: ClassVar[bool | None] = None
    held_nodes: ClassVar[int] = 0

    @property
    def march(self) -> March | None:
        """Steps between the frames, for problems in time whose residual is too coarse for a solved target.

        Most problems in time have none: the solver `space_time` takes their residual as it is.
        """
        return None

    @property
    def viscosity(self) -> float | None:
        return None

    @property
    def wave_number(self) -> float | None:
        return None

    def states(self, count: int) -> "tuple[torch.Tensor, torch.Tensor]":
        """The first accepted inputs of the train split on the network's grid, and their responses, in float64."""
        import torch

        a = self.inputs(self.candidates(count), "train")
        u = self.solve(a)
        kept = np.flatnonzero(self.accept(u))[:count]
        return torch.as_tensor(self.network_input(a[kept])), torch.as_tensor(u[kept])
