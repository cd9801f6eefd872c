"""Colours with which a few products show the coefficients of A(u, a) for all nodes and samples at once."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.residual import state_derivative
from stcl.tangent.unknowns import embed


def colour(node: Sequence[Tensor], count: int | None = None) -> Tensor:
    """The colour Σ (i+1) xᵢ mod `count` of nodes x on a d-dimensional grid, from their d indices.

    A node and its 2d next neighbours have different colours if there are 2d+1 of them, as there are by default. So
    fields that are one on a colour and zero elsewhere show each coefficient of an A that couples next neighbours alone.
    Across the ends of a periodic axis this takes the number of `colours_of`.
    """
    total = torch.zeros((), dtype=torch.long, device=node[0].device)
    for i, x in enumerate(node):
        total = total + (i + 1) * x
    return total % (count or 2 * len(node) + 1)


def colours_of(grid: Sequence[int], equations: Sequence[int]) -> int:
    """The smallest number ≥ 2d+1 of colours with which a node differs from its neighbours, also on a periodic grid.

    The ends of a periodic axis i with m equations are neighbours. Their colours differ by (i+1)(m−1). An axis between
    two walls, which has two equations fewer than nodes, is not periodic.
    """
    pairs = zip(grid, equations, strict=True)
    steps = [(i + 1) * (m - 1) for i, (n, m) in enumerate(pairs) if n - m < 2 and m > 1]
    return next(k for k in itertools.count(2 * len(grid) + 1) if all(step % k for step in steps))


def diagonal(equation: DiscreteEquation, u: Tensor, a: Tensor, equations: torch.Size) -> Tensor:
    """The coefficient of each node in its own equation, [B, *equations], if A couples it to next neighbours only."""
    grid = equation.layout.grid
    shape = equations[-len(grid) :]
    nodes = torch.meshgrid(*[torch.arange(m, device=u.device) for m in shape], indexing="ij")
    count = colours_of(grid, shape)
    colours = colour(nodes, count)
    of_colour = torch.stack([colours == c for c in range(count)])
    if len(equations) > len(grid):  # every field is probed on its own
        each = torch.eye(equations[0], dtype=torch.bool, device=u.device)
        of_colour = each[:, None, :].unflatten(-1, (-1, *[1] * len(grid))) & of_colour[None, :, None]
        of_colour = of_colour.flatten(0, 1)
    probes = of_colour.to(u.dtype).expand(len(u), *of_colour.shape)
    return (state_derivative(equation, u, a, embed(probes, grid)) * probes).sum(1)
