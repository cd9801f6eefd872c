"""A(u, a) as five coefficients per node: many products with the same A then cost little."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

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
    m1, m2 = (n - 2 for n in equation.layout.grid)
    i, j = torch.arange(m1, device=u.device)[:, None], torch.arange(m2, device=u.device)
    probes = torch.stack([(colour((i, j)) == c).to(u.dtype) for c in range(5)])
    images = on_interior(equation, u, a)(probes.expand(len(u), -1, -1, -1))
    colours = torch.stack([colour((i + di, j + dj)) for di, dj in OFFSETS])
    coefficients = images.gather(1, colours.expand(len(u), -1, -1, -1)).unsqueeze(2).unbind(1)

    def operator(x: Tensor) -> Tensor:
        padded = pad(x, (1, 1, 1, 1))
        image = coefficients[0] * x
        for c, (di, dj) in zip(coefficients[1:], OFFSETS[1:], strict=True):
            image = torch.addcmul(image, c, padded[..., 1 + di : 1 + di + m1, 1 + dj : 1 + dj + m2])
        return image

    return operator


def is_five_point(equation: DiscreteEquation, u: Tensor, a: Tensor) -> bool:
    """Whether five coefficients per node are all of A at one state. This is tried on random fields."""
    equations = single_block(equation.residual(u, a), "five_point").shape[1:]
    if equations != tuple(n - 2 for n in equation.layout.grid) or len(equations) != 2:
        return False
    x = torch.randn(1, 2, *equations, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(u)
    exact = on_interior(equation, u, a)(x)
    return bool((five_point(equation, u, a)(x) - exact).norm() < ROUNDING * exact.norm())
