"""A(u, a) as five coefficients per node: many products with the same A then cost little."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from stcl.core import neighbours
from stcl.core.interfaces import DiscreteEquation
from stcl.tangent.residual import single_block, state_derivative
from stcl.tangent.stencil import colour
from stcl.tangent.unknowns import embed

OFFSETS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
ROUNDING = 1e-8  # largest relative difference of two products with the same A in float64


def on_interior(equation: DiscreteEquation, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
    """A for values [B, q, *equations] of fields that vanish elsewhere, by forward mode of the residual."""
    return lambda x: state_derivative(equation, u, a, embed(x, equation.layout.grid))


def five_point(equation: DiscreteEquation, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
    """`on_interior` for an A that couples each interior node of a rectangle to its four neighbours at most."""
    if equation.five_coefficients is not None:
        return neighbours.on_interior(equation.five_coefficients(u, a))
    m1, m2 = (n - 2 for n in equation.layout.grid)
    probes, colours = _probes(m1, m2, u.dtype, u.device)
    images = on_interior(equation, u, a)(probes.expand(len(u), -1, -1, -1))
    return neighbours.on_interior(images.gather(1, colours.expand(len(u), -1, -1, -1)).unsqueeze(2).unbind(1))


@lru_cache(maxsize=16)
def _probes(m1: int, m2: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Fields that are one on a colour, and the colours of a node and its neighbours. Both are [5, m1, m2]."""
    with torch.inference_mode(False):  # the cache outlives the caller's context
        i, j = torch.arange(m1, device=device)[:, None], torch.arange(m2, device=device)
        probes = torch.stack([(colour((i, j)) == c).to(dtype) for c in range(5)])
        return probes, torch.stack([colour((i + di, j + dj)) for di, dj in OFFSETS])


def is_five_point(equation: DiscreteEquation, u: Tensor, a: Tensor) -> bool:
    """Whether five coefficients per node are all of A at one state. This is tried on random fields."""
    equations = single_block(equation.residual(u, a), "five_point").shape[1:]
    if equations != tuple(n - 2 for n in equation.layout.grid) or len(equations) != 2:
        return False
    x = torch.randn(1, 2, *equations, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(u)
    exact = on_interior(equation, u, a)(x)
    return bool((five_point(equation, u, a)(x) - exact).norm() < ROUNDING * exact.norm())
