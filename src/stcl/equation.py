"""A problem from a residual function alone: F(u, a) = 0 with a few states, and nothing else."""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.problems.base import TangentClass
from stcl.tangent.unknowns import Unknowns, as_blocks

if TYPE_CHECKING:
    from stcl.losses.rule import Findings

FEW = 4  # leading axes of up to this size are fields, axes of a grid have more nodes


class EquationError(ValueError):
    """The residual cannot be used. The message says what was found and what to do."""


@dataclass(frozen=True, eq=False)
class GivenLayout(Layout):
    """A layout whose inputs may have any shape, not only that of the grid."""

    given_input_shape: tuple[int, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.given_input_shape


class Equation:
    """F(u, a) = 0 between inputs a and responses u, given by its residual.

    residual   F(u, a) for torch tensors [B, ...] in the shapes of your model's input and output, differentiable in
               both. It returns a tensor [B, ...] with one equation per node, or per node inside the walls; or, for
               equations of different kinds, a tuple of tensors (momentum, divergence, boundary values).
    a, u       a few inputs and their responses, [B, ...]: training samples will do. The operator is probed there.
    time_axis  which axis of the grid is time, counted without batch and fields; None for a steady problem
    lengths    extent of the domain along each axis of the grid, 1 if left out
    axes       names of the axes of the grid, in array order; x1, x2, x3 and t if left out
    fields     how many fields u has, if its shape leaves that open. They are its first axis after the batch.
    saddle     True if a multiplier such as a pressure enforces a constraint; left out: detected
    walls      "held": nodes without an equation keep the value that they have in the states, whatever the model says,
               and their tangents are zero. "free": they enter as the model gives them; then A w + B v = 0 has more
               solutions than one, and training may find a useless one. Where the residual does not use such values, or
               holds them by a block of their own, this makes no difference.

    >>> import torch, stcl
    >>> def residual(u, a):  # −u'' = a on 33 nodes, u = 0 at both ends
    ...     return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 32**2 - a[:, 1:-1]
    >>> x = torch.linspace(0, 1, 33)
    >>> a = torch.stack([torch.sin(3.14159 * k * x) for k in (1, 2, 3)])
    >>> u = torch.stack([a[k - 1] / (3.14159 * k) ** 2 for k in (1, 2, 3)])
    >>> stcl.Equation(residual, a, u)
    Equation: u on x (33 nodes) from inputs of shape (33,), 31 unknowns
    """

    def __init__(
        self,
        residual: Callable[[Tensor, Tensor], Any],
        a: Any,
        u: Any,
        *,
        time_axis: int | None = None,
        lengths: tuple[float, ...] | None = None,
        axes: tuple[str, ...] | None = None,
        fields: int | None = None,
        saddle: bool | None = None,
        walls: Literal["held", "free"] = "held",
    ) -> None:
        if walls not in ("held", "free"):
            raise EquationError(f"walls must be 'held' or 'free', got {walls!r}")
        a, u = _tensor("a", a), _tensor("u", u)
        if len(a) != len(u) or len(a) == 0:
            raise EquationError(f"expected as many inputs as responses, got a {tuple(a.shape)} and u {tuple(u.shape)}")
        self.function, self.saddle = residual, saddle
        self._held: tuple[Tensor, Tensor] | None = None  # which nodes, and their values
        self._input_shape, self._response_shape = a.shape[1:], u.shape[1:]
        shape = [n for n in u.shape[1:] if n > 1]
        count = _fields(shape, fields, u)
        grid = tuple(shape[1:] if count > 1 else shape)
        time_axis = _time_axis(time_axis, grid)
        self.layout = _layout(grid, count, count, time_axis, lengths, axes, tuple(n for n in a.shape[1:] if n > 1))
        a, u = self.inputs_of(a), self.responses_of(u)
        dtype = self._dtype(u[:1], a[:1])
        self.states = a.to(dtype), u.to(dtype)
        check_residual(self)
        try:
            self.unknowns = Unknowns(self.residual(*self._first()), self.layout)
        except ValueError as error:
            raise EquationError(f"{error}; leave out rows that only repeat boundary values, or give `fields`") from None
        if walls == "held" and self.unknowns.all_on_grid:
            self._held = self._held_values()
        blocks = self.unknowns.sizes
        if len(blocks) > 1:  # velocities count, a multiplier does not
            scored = blocks[0] * count // len(self.unknowns)
            self.layout = _layout(grid, count, scored, time_axis, lengths, axes, self.layout.input_shape)

    def __repr__(self) -> str:
        layout = self.layout
        nodes = ", ".join(f"{axis} ({n} nodes)" for axis, n in zip(layout.axes, layout.grid, strict=True))
        return (
            f"Equation: {', '.join(layout.responses)} on {nodes} from inputs of shape {layout.input_shape}, "
            f"{len(self.unknowns)} unknowns"
        )

    def residual(self, u: Tensor, a: Tensor) -> Any:
        """F(u, a) for u [B, *response_shape] and a [B, *input_shape] of the layout: without axes of length one."""
        if self._held is not None:
            nodes, values = self._held
            u = torch.where(nodes, values.to(u.dtype), u)
        found = self.function(u.reshape(len(u), *self._response_shape), a.reshape(len(a), *self._input_shape))
        if isinstance(found, Tensor):
            return _squeezed(found)
        return _named(found)

    @property
    def held_nodes(self) -> int:
        """How many values of u the equation takes as fixed."""
        return 0 if self._held is None else int(self._held[0].sum())

    def inputs_of(self, a: Tensor) -> Tensor:
        """The model's inputs [B, ...] or directions [B, q, ...] in the shape of the layout."""
        lead = a.shape[: a.ndim - len(self._input_shape)]
        self._check("input", a.shape[len(lead) :], self._input_shape)
        return a.reshape(*lead, *(n for n in self._input_shape if n > 1))

    def responses_of(self, u: Tensor) -> Tensor:
        """The model's responses [B, ...] or tangents [B, q, ...] in the shape of the layout."""
        lead = u.shape[: max(u.ndim - len(self._response_shape), 1)]
        self._check("response", u.shape[len(lead) :], self._response_shape)
        return u.reshape(*lead, *(n for n in self._response_shape if n > 1))

    def model_inputs(self, v: Tensor) -> Tensor:
        """Directions in the layout's shape as the model takes them."""
        return v.reshape(*v.shape[: v.ndim - len(self.layout.input_shape)], *self._input_shape)

    @cached_property
    def findings(self) -> "Findings":
        """What a probe of the tangent operator finds, condition numbers left out."""
        from stcl.probe import measure

        return measure(self, conditions=False)

    @property
    def tangent_class(self) -> TangentClass:
        """What a Krylov form must know before it picks its solver; spd only if positive definite."""
        negative = self.findings.tangent_class == "spd" and self.findings.solver == "minres"
        return "indefinite" if negative else self.findings.tangent_class

    def _held_values(self) -> tuple[Tensor, Tensor] | None:
        """The nodes without an equation, and their values in all states; None if the residual does not use them."""
        a, u = self.states
        nodes = torch.ones(u[0].numel(), dtype=torch.bool, device=u.device).index_fill(0, self.unknowns.index, False)
        nodes, values = nodes.reshape(u.shape[1:]), u.mean(0)
        moved = self.residual(torch.where(nodes, u[:1] + u.abs().max(), u[:1]), a[:1])
        if all(
            torch.equal(x, y) for x, y in zip(as_blocks(moved), as_blocks(self.residual(u[:1], a[:1])), strict=True)
        ):
            return None
        spread = float(((u - values) * nodes).abs().max() / u.abs().max())
        if spread > 1e-3:
            raise EquationError(
                f"{int(nodes.sum())} nodes of u enter the residual without an equation, and differ between the states "
                f"by {spread:.0%} of the largest |u|. Values that depend on the input, such as an initial frame, must "
                f"come from it, as in torch.cat([a[:, None], u[:, 1:]], 1); others need an equation, or walls='free'"
            )
        return nodes, values

    def _first(self) -> tuple[Tensor, Tensor]:
        a, u = self.states
        return u[:1], a[:1]

    def _dtype(self, u: Tensor, a: Tensor) -> torch.dtype:
        """float64, unless the residual holds constants that insist on the dtype of the data."""
        try:
            self.residual(u.double(), a.double())
        except RuntimeError:  # anything else it may mean happens again with the data as they are, and is reported
            return u.dtype
        return torch.float64

    @staticmethod
    def _check(what: str, found: torch.Size, expected: torch.Size) -> None:
        if found != expected:
            raise EquationError(f"expected {what}s of shape {tuple(expected)} as in the states, got {tuple(found)}")


def check_residual(equation: Equation) -> None:
    """Refuse a residual that is not one: shapes, finite values, and true derivatives in both arguments."""
    (a, u), function = equation.states, equation.residual
    few = slice(min(len(u), 2))
    a, u = a[few], u[few]
    shapes = f"u {tuple(u.shape)} and a {tuple(a.shape)}"
    try:
        blocks = as_blocks(function(u, a))
    except EquationError:
        raise
    except Exception as error:
        raise EquationError(f"residual(u, a) failed for {shapes}: {type(error).__name__}: {error}") from error
    for block in blocks:
        if block.ndim < 2 or len(block) != len(u):
            raise EquationError(
                f"residual(u, a) must keep the batch as its first axis and give one value per equation, got shape "
                f"{tuple(block.shape)} for {shapes}; do not sum or average over nodes or samples"
            )
        if not torch.isfinite(block).all():
            raise EquationError(
                "residual(u, a) is not finite at the given states; check units and the states themselves"
            )
    alone = as_blocks(function(u[:1], a[:1]))
    if any(
        not torch.allclose(x[:1], y, rtol=1e-4, atol=1e-6 * float(x.abs().max()))
        for x, y in zip(blocks, alone, strict=True)
    ):
        raise EquationError(
            "residual(u, a) of a sample depends on the other samples of its batch; treat each on its own"
        )
    generator = torch.Generator().manual_seed(0)
    for name, at in (("u", u), ("a", a)):
        along = torch.randn(at.shape, generator=generator, dtype=torch.float64).to(at)
        along = along * at.abs().mean().clamp_min(1e-3)
        partial = (lambda x: function(x, a)) if name == "u" else (lambda x: function(u, x))
        _check_derivative(name, partial, at, along)


def _check_derivative(name: str, function: Callable[[Tensor], Any], x: Tensor, along: Tensor) -> None:
    """Forward mode against central differences."""
    try:
        _, derivative = torch.func.jvp(
            lambda x: torch.cat([b.flatten() for b in as_blocks(function(x))]), (x,), (along,)
        )
    except Exception as error:
        raise EquationError(
            f"residual(u, a) has no forward-mode derivative in {name}: {type(error).__name__}: {error}. Write it with "
            f"torch operations only: no numpy, no .item(), no in-place writes into its arguments"
        ) from error
    step = 1e-5 if x.dtype == torch.float64 else 1e-2
    ahead, behind = (torch.cat([b.flatten() for b in as_blocks(function(x + s * along))]) for s in (step, -step))
    difference = (ahead - behind) / (2 * step)
    size = float(difference.norm())
    rounding = 100 * torch.finfo(x.dtype).eps * float(ahead.norm()) / step
    if size <= rounding and not derivative.any():
        raise EquationError(
            f"residual(u, a) does not depend on {name}; the tangent equation A w + B v = 0 needs both. "
            + (
                "Is the prediction used in it?"
                if name == "u"
                else "Pass the input that the operator maps, not a constant."
            )
        )
    wrong = float((derivative - difference).norm()) / max(size, rounding)
    if wrong > (1e-3 if x.dtype == torch.float64 else 0.1):
        raise EquationError(
            f"the derivative of residual(u, a) in {name} is {wrong:.0%} away from its finite difference: something "
            f"that depends on {name} is detached (.detach(), .data, torch.no_grad, a Python float) or has a jump"
        )


def _tensor(name: str, x: Any) -> Tensor:
    x = torch.as_tensor(x)
    if not x.is_floating_point() or x.ndim < 2:
        raise EquationError(
            f"expected {name} as a floating-point batch [samples, ...], got {x.dtype} of shape {tuple(x.shape)}"
        )
    if not torch.isfinite(x).all():
        raise EquationError(f"{name} has values that are not finite")
    return x.detach()


def _fields(shape: list[int], fields: int | None, u: Tensor) -> int:
    """How many fields the response has."""
    guess = shape[0] if len(shape) > 1 and shape[0] <= FEW else 1
    count = guess if fields is None else fields
    grid = shape[1:] if count > 1 else shape
    if not grid or any(n <= FEW for n in grid) or (count > 1 and shape[0] != count):
        raise EquationError(
            f"cannot tell the grid of a response of shape {tuple(u.shape[1:])}: expected [fields, *nodes] or [*nodes] "
            f"with more than {FEW} nodes along each axis; put fields first and say how many with `fields`"
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


def _layout(grid, fields, scored, time_axis, lengths, axes, input_shape) -> GivenLayout:
    lengths = lengths or (1.0,) * len(grid)
    space = [i for i in range(len(grid)) if i != time_axis]
    names = ["t"] * len(grid)
    for number, i in enumerate(space, start=1):
        names[i] = "x" if len(space) == 1 else f"x{number}"
    axes = tuple(axes or names)
    if len(lengths) != len(grid) or len(axes) != len(grid):
        raise EquationError(f"expected one length and one name for each axis of the grid {grid}, got {lengths}, {axes}")
    responses = ("u",) if fields == 1 else tuple(f"u{i + 1}" for i in range(fields))
    return GivenLayout(
        axes=axes,
        coordinates=tuple(np.linspace(0.0, length, n) for n, length in zip(grid, lengths, strict=True)),
        lengths=tuple(lengths),
        inputs=("a",),
        responses=responses,
        channels=(*axes, "a"),
        input_axes=(),
        scored=responses[:scored],
        given_input_shape=tuple(input_shape),
    )


def _squeezed(block: Tensor) -> Tensor:
    return block.reshape(len(block), *(n for n in block.shape[1:] if n > 1)) if block.ndim > 1 else block


def _named(found: Any) -> Any:
    """Blocks as a named tuple, in their order."""
    if isinstance(found, Mapping):
        names, blocks = tuple(found), tuple(found.values())
    elif isinstance(found, tuple | list):
        names = getattr(found, "_fields", tuple(f"block{i + 1}" for i in range(len(found))))
        blocks = tuple(found)
    else:
        names, blocks = (), ()
    if not blocks or not all(isinstance(block, Tensor) for block in blocks):
        raise EquationError(f"residual(u, a) must return a tensor or a tuple of tensors, got {type(found).__name__}")
    return _blocks_type(names)(*map(_squeezed, blocks))


@cache
def _blocks_type(names: tuple[str, ...]) -> type:
    return namedtuple("Blocks", names)
