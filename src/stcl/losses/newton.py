"""û = u − A⁻¹ F(u, a): one Newton step of the equation from a prediction, without gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation, Solved, TangentSolver
from stcl.tangent.unknowns import INPUT_DEPENDENT, Unknowns, spread

STATES = 8  # responses from which it is read what depends on the input
ROUNDING = 1e-3  # length of a second step, relative to u, that is always short enough
SOLVES = 2  # right-hand sides of a correction: the step's, and that of its test


class Newton:
    """One Newton step with a form's own solver.

    At nodes without an equation, such as walls, û has the values that all responses have there, and the step is taken
    from there. Where such values depend on the input, as those of an initial frame do, the prediction keeps its own.

    Newton's method converges near a solution alone. So a second step is solved for with the same A, and the first one
    is taken only if the second is shorter. Both are in the units of u; a test by ‖F‖ misjudges stiff problems. From
    Allen-Cahn responses that are mixed with 10 % of another one the step halves the error, and the second step has 0.6
    of its length; with 20 % the error grows, and the second step is three times as long. Where no step is taken û is
    the prediction, and the sample is not solved.
    """

    def __init__(self, equation: DiscreteEquation, solver: TangentSolver) -> None:
        self.solver, self._score = solver, equation.layout.score
        _, u = equation.states(1)
        own, fixed = nodes(equation)
        held = fixed & ~own
        self._free = (~held).to(u.dtype).cpu().numpy()
        self._values = torch.where(held, u[0], 0).cpu().numpy()

    @torch.no_grad()
    def __call__(self, u: Tensor, a: Tensor) -> Solved:
        """û [B, *response_shape] for predictions u and inputs a, and what the solver left of the step's system, [B]."""
        u = torch.addcmul(like(u, self._values), u, like(u, self._free))
        solve = self.solver.at(u, a)

        def step(x: Tensor) -> Solved:
            found = solve(on_blocks(lambda r: r.neg().unsqueeze(1), self.solver.equation.residual(x, a)))
            return Solved(*(of_sample.squeeze(1) for of_sample in found))

        first = step(u)
        x = u + first.x
        longest = torch.maximum(self._length(first.x), ROUNDING * self._length(x))
        taken = first.solved & (self._length(step(x).x) <= longest)
        return Solved(torch.where(taken.view(-1, *[1] * (u.ndim - 1)), x, u), first.residual, taken)

    def _length(self, u: Tensor) -> Tensor:
        """The norm of the scored responses of each sample, [B]."""
        return torch.linalg.vector_norm(self._score(u).flatten(1), dim=1)


def nodes(equation: DiscreteEquation) -> tuple[Tensor, Tensor]:
    """Which values of a response have an equation, and which are the same for all inputs; both [*response_shape].

    A face of the grid without equations, such as a wall or an initial frame, is the same for all inputs as a whole or
    not at all: a few localised initial states may agree at most nodes of their frame.
    """
    a, u = equation.states(STATES)
    unknowns = Unknowns(equation.residual(u[:1], a[:1]), equation.layout)
    own = unknowns.embed(torch.ones(len(unknowns), dtype=u.dtype, device=u.device)) > 0
    if (u == u[:1]).all():  # one state does not tell what depends on the input
        return own, torch.zeros_like(own)
    varying = spread(u) > INPUT_DEPENDENT
    return own, ~(varying | _on_varying_faces(own, varying, len(equation.layout.grid)))


def _on_varying_faces(own: Tensor, varying: Tensor, axes: int) -> Tensor:
    """The values without an equation on faces where one is `varying`; all are [*response_shape], with `axes` of a grid.

    Edges between two faces do not tell which of them it is that varies.
    """
    grid = tuple(range(-axes, 0))
    slabs = [~own.any(dim=[a for a in grid if a != axis], keepdim=True) if axes > 1 else ~own for axis in grid]
    found = torch.zeros_like(own)
    for axis, slab in zip(grid, slabs, strict=True):
        edges = torch.zeros_like(own)
        for other in slabs:
            edges |= other & (slab is not other)
        n = own.shape[axis]
        first = (torch.arange(n, device=own.device) < n // 2).view(-1, *[1] * (-axis - 1))
        for half in (first, ~first):
            face = slab & half
            found |= face & (varying & face & ~edges).any(dim=grid, keepdim=True)
    return found & ~own


def on_blocks(function: Callable[[Tensor], Tensor], residual: Any) -> Any:
    """A function of every block of a residual."""
    return function(residual) if isinstance(residual, Tensor) else type(residual)(*map(function, residual))
