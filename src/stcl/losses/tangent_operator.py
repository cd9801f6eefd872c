"""A(u, a) at one state as a square linear operator, by products alone."""

from typing import Any

import torch
from torch import Tensor

from stcl.losses.tangent_residual import input_derivative, state_derivative
from stcl.problems.base import Problem


class TangentOperator:
    """A = ∂F/∂u (u, a) between the nodes that have an equation; fields vanish at all others.

    An axis with two equations fewer than nodes leaves out both its ends (walls), one with one fewer its first node (an
    initial frame). Of a residual in blocks, those on the grid belong to the responses in their order; others, such as
    boundary values, pin nodes that are left out. Vectors are [..., unknowns], blocks one after the other.
    """

    def __init__(self, problem: Problem, u: Tensor, a: Tensor) -> None:
        """At one sample, u [*response_shape] and a [*input_shape]."""
        self.problem, self.u, self.a = problem, u[None], a[None]
        residual = problem.residual(self.u, self.a)
        self._shapes = [block.shape[1:] for block in _blocks(residual)]
        self._of_blocks = torch.Tensor if isinstance(residual, Tensor) else type(residual)
        self._nodes = _unknowns(self._shapes, problem)
        self._index = torch.cat([nodes for nodes in self._nodes if nodes is not None]).to(u.device)
        self.sizes = [len(nodes) for nodes in self._nodes if nodes is not None]  # unknowns of each block
        self.response = self._index // torch.Size(problem.layout.grid).numel()  # which one an unknown belongs to

    @property
    def unknowns(self) -> int:
        return len(self._index)

    def product(self, x: Tensor) -> Tensor:
        """A x for x [k, unknowns]."""
        return self.join(state_derivative(self.problem, self.u, self.a, self.embed(x)[None]))[0]

    def transposed_product(self, y: Tensor) -> Tensor:
        """Aᵀ y for y [k, unknowns]."""

        def equations(x: Tensor) -> Tensor:
            state = self.u.flatten().index_add(0, self._index, x).view_as(self.u)
            return self.join(self.problem.residual(state, self.a), batch_axes=1)[0]

        _, pullback = torch.func.vjp(equations, torch.zeros_like(y[0]))
        return torch.func.vmap(pullback)(y)[0]

    def right_hand_side(self, v: Tensor) -> Tensor:
        """−B v [k, unknowns] for directions v [k, *input_shape]."""
        return -self.join(input_derivative(self.problem, self.u, self.a, v))[0]

    def matrix(self) -> Tensor:
        """A as a dense matrix."""
        return self.product(torch.eye(self.unknowns, dtype=self.u.dtype, device=self.u.device)).T

    # -- between vectors, fields and residuals ------------------------------------------------------------------

    def embed(self, x: Tensor) -> Tensor:
        """The fields [..., *response_shape] with these values at the unknowns, and zero elsewhere."""
        flat = x.new_zeros(*x.shape[:-1], self.u[0].numel())
        return flat.index_copy(-1, self._index, x).unflatten(-1, self.u.shape[1:])

    def join(self, residual: Any, batch_axes: int = 2) -> Tensor:
        """The equations at the unknowns as vectors [..., unknowns], for blocks with these leading axes."""
        pairs = zip(_blocks(residual), self._nodes, strict=True)
        return torch.cat([block.flatten(batch_axes) for block, nodes in pairs if nodes is not None], -1)

    def split(self, x: Tensor) -> Any:
        """The residual [..., blocks] with these values; blocks without unknowns are zero."""
        parts = iter(x.split(self.sizes, -1))
        blocks = [
            x.new_zeros(*x.shape[:-1], *shape) if nodes is None else next(parts).unflatten(-1, shape)
            for shape, nodes in zip(self._shapes, self._nodes, strict=True)
        ]
        return blocks[0] if self._of_blocks is Tensor else self._of_blocks(*blocks)


def _blocks(residual: Any) -> tuple[Tensor, ...]:
    return (residual,) if isinstance(residual, Tensor) else tuple(residual)


def _unknowns(shapes: list[torch.Size], problem: Problem) -> list[Tensor | None]:
    """For each block of the residual, where in a flat response its unknowns are; None for a block off the grid."""
    layout = problem.layout
    size, taken, found = torch.Size(layout.grid).numel(), 0, []
    for shape in shapes:
        nodes = _equation_nodes(shape[-len(layout.grid) :], layout.grid)
        if nodes is None:
            found.append(None)
            continue
        fields = shape.numel() // nodes.numel()
        found.append(torch.cat([nodes + size * field for field in range(taken, taken + fields)]))
        taken += fields
    if taken != len(layout.responses):
        raise ValueError(
            f"expected one equation for each response {', '.join(layout.responses)} at the nodes of the grid "
            f"{layout.grid}, or at those inside its walls, got a residual of shape "
            f"{' and '.join(str(tuple(shape)) for shape in shapes)}"
        )
    return found


def _equation_nodes(equations: torch.Size, grid: tuple[int, ...]) -> Tensor | None:
    """The flat indices of the nodes with an equation, of those of one field on the grid."""
    if len(equations) != len(grid) or any(not 0 <= n - m <= 2 for n, m in zip(grid, equations, strict=True)):
        return None
    first = [1 if n > m else 0 for n, m in zip(grid, equations, strict=True)]
    nodes = torch.arange(torch.Size(grid).numel()).reshape(grid)
    for axis, (start, length) in enumerate(zip(first, equations, strict=True)):
        nodes = nodes.narrow(axis, start, length)
    return nodes.flatten()
