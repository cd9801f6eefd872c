"""Where the equations of a residual stand, and the maps between fields, residuals and vectors of unknowns."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from stcl.core.layout import Layout

INPUT_DEPENDENT = 1e-3  # spread of a value from which on it depends on the input


class Unknowns:
    """The nodes of the responses that have an equation; fields vanish at all others.

    An axis with two equations fewer than nodes leaves out both its ends (walls). An axis with one fewer leaves out its
    first node (an initial frame). If a residual comes in blocks, those on the grid belong to the responses in their
    order. Other blocks, such as boundary values, pin nodes that are left out. Vectors are [..., unknowns] and hold the
    blocks one after the other.
    """

    def __init__(self, residual: Any, layout: Layout) -> None:
        """Find the unknowns of a residual [B, ...] of a problem with this layout."""
        blocks = as_blocks(residual)
        self.response_shape = layout.response_shape
        self._shapes = [block.shape[1:] for block in blocks]
        self._like = None if isinstance(residual, Tensor) else type(residual)
        self._nodes = _find(self._shapes, layout)
        self.index = torch.cat([nodes for nodes in self._nodes if nodes is not None]).to(blocks[0].device)
        self.sizes = [len(nodes) for nodes in self._nodes if nodes is not None]  # number of unknowns of each block
        self.all_on_grid = all(nodes is not None for nodes in self._nodes)  # no block pins other nodes
        self.response = self.index // torch.Size(layout.grid).numel()  # the response that each unknown belongs to

    def __len__(self) -> int:
        return len(self.index)

    def embed(self, x: Tensor) -> Tensor:
        """The fields [..., *response_shape] with these values at the unknowns, and zero elsewhere."""
        flat = x.new_zeros(*x.shape[:-1], torch.Size(self.response_shape).numel())
        return flat.index_copy(-1, self.index, x).unflatten(-1, self.response_shape)

    def restrict(self, fields: Tensor) -> Tensor:
        """The values at the unknowns of fields [..., *response_shape]."""
        return fields.flatten(-len(self.response_shape)).index_select(-1, self.index)

    def join(self, residual: Any, batch_axes: int = 2) -> Tensor:
        """The equations at the unknowns as vectors [..., unknowns], from a residual with `batch_axes` leading axes."""
        pairs = zip(as_blocks(residual), self._nodes, strict=True)
        return torch.cat([block.flatten(batch_axes) for block, nodes in pairs if nodes is not None], -1)

    def off_grid(self, residual: Any) -> Tensor:
        """The equations that belong to no unknown, such as boundary values, as vectors [B, equations]."""
        pairs = zip(as_blocks(residual), self._nodes, strict=True)
        return torch.cat([block.flatten(1) for block, nodes in pairs if nodes is None], 1)

    def split(self, x: Tensor) -> Any:
        """The residual with these values; blocks without unknowns are zero."""
        parts = iter(x.split(self.sizes, -1))
        blocks = [
            x.new_zeros(*x.shape[:-1], *shape) if nodes is None else next(parts).unflatten(-1, shape)
            for shape, nodes in zip(self._shapes, self._nodes, strict=True)
        ]
        return blocks[0] if self._like is None else self._like(*blocks)

    def on_vectors(self, apply: Callable[[Any], Any] | None) -> Callable[[Tensor], Tensor]:
        """A map of residuals [B, q, ...], such as a metric, as one of vectors [k, unknowns]; the identity for None."""
        return (lambda x: x) if apply is None else (lambda x: self.join(apply(self.split(x[None])))[0])


def spread(u: Tensor) -> Tensor:
    """How far the values of states u [B, ...] are from their means at most, relative to the largest |u|."""
    return (u - u.mean(0)).abs().amax(0) / u.abs().max()


def as_blocks(residual: Any) -> tuple[Tensor, ...]:
    return (residual,) if isinstance(residual, Tensor) else tuple(residual)


def _find(shapes: list[torch.Size], layout: Layout) -> list[Tensor | None]:
    """Where in a flat response the unknowns of each block are; None for a block off the grid."""
    size, taken = torch.Size(layout.grid).numel(), 0
    found: list[Tensor | None] = []
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
    """The flat indices of the nodes of one field that have an equation; None if the equations are off the grid."""
    if len(equations) != len(grid) or any(not 0 <= n - m <= 2 for n, m in zip(grid, equations, strict=True)):
        return None
    nodes = torch.arange(torch.Size(grid).numel()).reshape(grid)
    for axis, (n, m) in enumerate(zip(grid, equations, strict=True)):
        nodes = nodes.narrow(axis, margins(n, m)[0], m)
    return nodes.flatten()


def margins(nodes: int, equations: int) -> tuple[int, int]:
    """How many nodes of an axis have no equation, at its beginning and at its end."""
    return {0: (0, 0), 1: (1, 0), 2: (1, 1)}[nodes - equations]


def embed(x: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Values at the equations' nodes [..., *equations] as fields [..., *grid] that vanish at the others."""
    pairs = zip(reversed(grid), reversed(x.shape), strict=False)  # pad counts axes from the last
    return pad(x, [margin for n, m in pairs for margin in margins(n, m)])
