"""The size of equations at walls beside that of the equations inside.

A wall's equation, u − value or a difference to the next node, has coefficients of size 1 or 1/h where those inside have
1/h². It is as true in any size. But in an operator with such rows no Laplacian is recognised, none of the metrics
fits, and a loss hardly sees the walls.
"""

import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.tangent.unknowns import Unknowns

APART = 10.0  # ratio of row sizes from which on a face is brought to the size of the inside
PROBES = 16  # random vectors by which rows are measured


def wall_factors(products: Tensor, unknowns: Unknowns, layout: Layout) -> Tensor | None:
    """Factors [unknowns] that bring the equations of each face of the grid to the size of those inside, or None.

    `products` are A z [PROBES, unknowns] for vectors z of random signs: the mean of (A z)ᵢ² is the square of row i's
    norm. All rows of a face have one factor, and so has each field, so that coefficients may vary as they do.
    """
    rows = products.square().mean(0).sqrt()
    nodes = unknowns.index % torch.Size(layout.grid).numel()
    factors = torch.ones_like(rows)
    for field in unknowns.response.unique():
        of_field = unknowns.response == field
        faces = [of_field & (place == end) for place, n in _places(nodes, layout.grid) for end in (0, n - 1)]
        inside = _median(rows[of_field & ~torch.stack(faces).any(0)])
        for face in faces:
            at_wall = _median(rows[face])
            if min(inside, at_wall) > 0 and max(inside / at_wall, at_wall / inside) > APART:
                factors[face] = inside / at_wall
    return None if bool((factors == 1).all()) else factors


def _median(rows: Tensor) -> float:
    """The median of norms, 0 if there are none."""
    return float(rows.median()) if len(rows) else 0.0


def _places(nodes: Tensor, grid: tuple[int, ...]) -> list[tuple[Tensor, int]]:
    """Where flat nodes are along each axis, beside the number of nodes of the axis."""
    found = []
    for n in reversed(grid):
        found.append((nodes % n, n))
        nodes = nodes // n
    return found[::-1]
