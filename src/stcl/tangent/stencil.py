"""Colours with which a few products show the coefficients of A(u, a) for all nodes and samples at once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.residual import state_derivative
from stcl.tangent.unknowns import embed


def colour(node: Sequence[Tensor]) -> Tensor:
    """The colour Σ (i+1) xᵢ mod 2d+1 of nodes x on a d-dimensional grid, from their d indices.

    A node and its 2d next neighbours have different colours. So fields that are one on a colour and zero elsewhere show
    each coefficient of an A that couples next neighbours alone.
    """
    total = torch.zeros((), dtype=torch.long, device=node[0].device)
    for i, x in enumerate(node):
        total = total + (i + 1) * x
    return total % (2 * len(node) + 1)


def diagonal(equation: DiscreteEquation, u: Tensor, a: Tensor, equations: torch.Size) -> Tensor:
    """The coefficient of each node in its own equation, [B, *equations], if A couples it to next neighbours only."""
    grid = equation.layout.grid
    nodes = torch.meshgrid(*[torch.arange(m, device=u.device) for m in equations[-len(grid) :]], indexing="ij")
    colours = colour(nodes)
    of_colour = torch.stack([colours == c for c in range(2 * len(grid) + 1)])
    if len(equations) > len(grid):  # every field is probed on its own
        each = torch.eye(equations[0], dtype=torch.bool, device=u.device)
        of_colour = each[:, None, :].unflatten(-1, (-1, *[1] * len(grid))) & of_colour[None, :, None]
        of_colour = of_colour.flatten(0, 1)
    probes = of_colour.to(u.dtype).expand(len(u), *of_colour.shape)
    return (state_derivative(equation, u, a, embed(probes, grid)) * probes).sum(1)
