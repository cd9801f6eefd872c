"""The diagonal of A(u, a), of all samples at once, by a few products."""

import torch
from torch import Tensor

from stcl.problems.base import Problem
from stcl.tangent.residual import state_derivative
from stcl.tangent.unknowns import embed


def diagonal(problem: Problem, u: Tensor, a: Tensor, equations: torch.Size) -> Tensor:
    """The coefficient of each node in its own equation, [B, *equations], if A couples it to its next neighbours only.

    With the colour Σ (i+1) xᵢ mod 2d+1 of node x on a d-dimensional grid, a node and its 2d neighbours have different
    colours: fields that are one on a colour and zero elsewhere show each node's own coefficient alone.
    """
    grid = problem.layout.grid
    nodes = torch.meshgrid(*[torch.arange(m, device=u.device) for m in equations[-len(grid) :]], indexing="ij")
    colour = sum((i + 1) * x for i, x in enumerate(nodes)) % (2 * len(grid) + 1)
    of_colour = torch.stack([colour == c for c in range(2 * len(grid) + 1)])
    if len(equations) > len(grid):  # every field on its own
        each = torch.eye(equations[0], dtype=torch.bool, device=u.device)
        of_colour = each[:, None, :].unflatten(-1, (-1, *[1] * len(grid))) & of_colour[None, :, None]
        of_colour = of_colour.flatten(0, 1)
    probes = of_colour.to(u.dtype).expand(len(u), *of_colour.shape)
    return (state_derivative(problem, u, a, embed(probes, grid)) * probes).sum(1)
