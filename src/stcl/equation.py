"""An equation F(u, a) = 0 that is made from a residual function and a few states alone."""

import math
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from stcl.core.batches import as_batch
from stcl.core.errors import EquationError
from stcl.core.infer_layout import GivenLayout, infer_layout, without_ones
from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.data_verdict import check_data
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual_check import check_residual, widest
from stcl.tangent.structure import random_signs
from stcl.tangent.unknowns import INPUT_DEPENDENT, Unknowns, as_blocks, spread
from stcl.tangent.wall_rows import PROBES, wall_factors

ADVICE = (
    "Look at residual(u, a) of a few samples, node by node. A grid that is too coarse for u, data of another "
    "discretisation, or noise in u can be the reason, too. stcl.Equation(…, check=False) goes on anyway"
)


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
    saddle     True if a multiplier such as a pressure enforces a constraint; it is detected if left out
    walls      "held": nodes without an equation keep the value that they have in the states, whatever the model says,
               and their tangents are zero. "free": they enter as the model gives them. A w + B v = 0 then has more
               than one solution, and training may find a useless one. Where the residual does not use such values, or
               holds them by a block of their own, this makes no difference.
    check      F(u, a) = 0 is checked at the states. Data that contradict it raise an EquationError, data that hardly
               fulfil it an EquationWarning; both say what was measured and what it may be. False takes the equation as
               it is, also for the batches that it is trained with.

    >>> import torch, stcl
    >>> def residual(u, a):  # −u'' = a on 33 nodes, u = 0 at both ends
    ...     return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 32**2 - a[:, 1:-1]
    >>> x = torch.linspace(0, 1, 33)
    >>> a = torch.stack([torch.sin(3.14159 * k * x) for k in (1, 2, 3)])
    >>> u = torch.stack([a[k - 1] / (3.14159 * k) ** 2 for k in (1, 2, 3)])
    >>> stcl.Equation(residual, a, u)
    Equation: u on x (33 nodes) from inputs of shape (33,), 31 unknowns
    """

    # stcl.core.interfaces.DiscreteEquation asks for these. A residual alone does not say them, so they are None.
    tangent_class = None
    tangent_residual = None
    input_derivative = None
    state_products = None
    five_coefficients = None
    march = None
    viscosity = None
    wave_number = None

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
        check: bool = True,
    ) -> None:
        if walls not in ("held", "free"):
            raise EquationError(f"walls must be 'held' or 'free', got {walls!r}")
        a, u = _tensor("a", a), _tensor("u", u)
        if len(a) != len(u) or len(a) == 0:
            raise EquationError(f"expected as many inputs as responses, got a {tuple(a.shape)} and u {tuple(u.shape)}")
        self.function, self.saddle, self.check = residual, saddle, check
        self._input_shape, self._response_shape = a.shape[1:], u.shape[1:]
        self._held: tuple[Tensor, Tensor] | None = None  # a mask of the nodes that are held, and their values
        self._factors: Tensor | None = None  # of the equations, where those at walls have another size
        layout = infer_layout(u.shape[1:], a.shape[1:], time_axis, lengths, axes, fields)
        a = a.reshape(len(a), *without_ones(a.shape[1:]))
        u = u.reshape(len(u), *without_ones(u.shape[1:]))
        dtype = widest(self._evaluate, u, a)
        a, u = a.to(dtype), u.to(dtype)
        check_residual(self._evaluate, u, a)
        try:
            self.unknowns = Unknowns(self._evaluate(u[:1], a[:1]), layout)
        except ValueError as error:
            raise EquationError(f"{error}. {_advice(self._evaluate(u[:1], a[:1]), layout)}") from None
        self.layout = _scored(layout, self.unknowns)
        self._states = a, u
        if walls == "held" and self.unknowns.all_on_grid:
            self._held = held_values(self._evaluate, self.unknowns, u, a)
        self._factors = self._wall_factors(u, a)
        if check:
            check_data(self._evaluate, self.layout, a, u, ADVICE)

    def __repr__(self) -> str:
        layout, unknowns = self.layout, len(self.unknowns)
        return f"Equation: {layout.in_words} from inputs of shape {layout.input_shape}, {unknowns} unknowns"

    def residual(self, u: Tensor, a: Tensor) -> Any:
        """F(u, a) for u [B, *response_shape] and a [B, *input_shape] of the layout, which has no axes of length one.

        In a steady problem, equations at walls are brought to the size of those inside.
        """
        if self._held is not None:
            nodes, values = self._held
            if nodes.device != u.device:  # the states may be elsewhere than the batches
                nodes, values = self._held = nodes.to(u.device), values.to(u.device)
            u = torch.where(nodes, values.to(u.dtype), u)
        found = self._evaluate(u, a)
        return found if self._factors is None else found * self._factors.to(found)

    def _evaluate(self, u: Tensor, a: Tensor) -> Any:
        """The given function in the layout's shapes, with no values held."""
        found = self.function(u.reshape(len(u), *self._response_shape), a.reshape(len(a), *self._input_shape))
        if isinstance(found, Tensor):
            return _squeezed(found)
        return _named(found)

    def _wall_factors(self, u: Tensor, a: Tensor) -> Tensor | None:
        """What the equations of a steady problem, in one block, are multiplied with."""
        if self.layout.time_axis is not None or len(self.unknowns.sizes) > 1 or not self.unknowns.all_on_grid:
            return None
        operator = TangentOperator(self, u[0], a[0])
        factors = wall_factors(operator.product(random_signs(operator, PROBES)), self.unknowns, self.layout)
        return None if factors is None else self.unknowns.split(factors)

    def states(self, count: int) -> tuple[Tensor, Tensor]:
        """The first of the inputs and responses that the equation was given."""
        a, u = self._states
        return a[:count], u[:count]

    @property
    def held_nodes(self) -> int:
        """How many values of u the equation takes as fixed."""
        return 0 if self._held is None else int(self._held[0].sum())

    @property
    def given_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of one input and one response as they were given, with axes of length one."""
        return tuple(self._input_shape), tuple(self._response_shape)


def _advice(residual: Any, layout: GivenLayout) -> str:
    """What to do about a residual whose equations are not one for each response at each node."""
    values = len(layout.responses) * math.prod(layout.grid)
    missing = values - sum(block[0].numel() for block in as_blocks(residual))
    if missing > 0:
        return (
            f"{missing} of {values} values of u have no equation. Only the first node of an axis, or the first and the "
            f"last, may have none; give the others one, such as u − value, or give `fields`"
        )
    if missing < 0:
        return (
            f"There are {-missing} equations more than the {values} values of u; leave out those that only repeat "
            f"boundary values, and add what fixes a free constant to the others, such as u.mean(1, keepdim=True)"
        )
    return "There are as many as values of u, in another shape: use that of u, or give `fields`"


def model_shapes(equation: DiscreteEquation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of one input and one response as a model has them: those that were given, or else the layout's."""
    layout = equation.layout
    return equation.given_shapes if isinstance(equation, Equation) else (layout.input_shape, layout.response_shape)


def check_batch(equation: DiscreteEquation, a: Tensor, u: Tensor) -> None:
    """Check F(u, a) = 0 at a batch in the layout's shapes, unless the equation is to be taken as it is."""
    if not isinstance(equation, Equation) or equation.check:
        dtype = widest(equation.residual, u, a)
        check_data(equation.residual, equation.layout, a.detach().to(dtype), u.detach().to(dtype), ADVICE)


def held_values(
    residual: Callable[[Tensor, Tensor], Any], unknowns: Unknowns, u: Tensor, a: Tensor
) -> tuple[Tensor, Tensor] | None:
    """The nodes without an equation that all states agree at, and their values; None if the residual uses none of them.

    Nodes at which states differ belong to an initial frame, for example. They must not enter the residual.
    """

    def enter(some: Tensor) -> bool:
        """Whether the residual at the first state changes with the values at `some` nodes."""
        moved = as_blocks(residual(torch.where(some, u[:1] + u.abs().max(), u[:1]), a[:1]))
        return not all(torch.equal(x, y) for x, y in zip(moved, as_blocks(residual(u[:1], a[:1])), strict=True))

    nodes = torch.ones(u[0].numel(), dtype=torch.bool, device=u.device).index_fill(0, unknowns.index, False)
    nodes, apart = nodes.reshape(u.shape[1:]), spread(u)
    differing = nodes & (apart > INPUT_DEPENDENT)
    if differing.any() and enter(differing):
        raise EquationError(
            f"{int(differing.sum())} nodes of u enter the residual without an equation, and differ between the states "
            f"by {float(apart[differing].max()):.0%} of the largest |u|. One equation fewer than nodes along an axis "
            f"means that the first node has none, two fewer that the first and the last have none. Values there that "
            f"depend on the input, such as an initial frame, must come from it, as in "
            f"torch.cat([a[:, None], u[:, 1:]], 1). If it is other nodes that have none, give these an equation each, "
            f"such as u − value"
        )
    same = nodes & ~differing
    return (same, u.mean(0)) if enter(same) else None


def _scored(layout: GivenLayout, unknowns: Unknowns) -> GivenLayout:
    """The layout with the responses that count as scored.

    Where the residual comes in blocks, these are the velocities without the multiplier.
    """
    if len(unknowns.sizes) == 1:
        return layout
    count = int(unknowns.response[: unknowns.sizes[0]].max()) + 1  # the first block may have fewer nodes than others
    return replace(layout, scored=layout.responses[:count])


def _tensor(name: str, x: Any) -> Tensor:
    try:
        x = as_batch(name, x)
    except ValueError as error:
        raise EquationError(str(error)) from None
    if not torch.isfinite(x).all():
        raise EquationError(f"{name} has values that are not finite")
    return x.detach()


def _squeezed(block: Tensor) -> Tensor:
    """A block without axes of length one; a single equation, such as a gauge, keeps one."""
    return block.reshape(len(block), *(without_ones(block.shape[1:]) or (1,))) if block.ndim > 1 else block


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
