"""A(u, a) as five coefficients per node: many products with the same A then cost little."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from stcl.problems.base import Problem
from stcl.tangent.residual import state_derivative
from stcl.tangent.unknowns import embed

OFFSETS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


def on_interior(problem: Problem, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
    """A for values [B, q, *equations] of fields that vanish elsewhere, by forward mode of the residual."""
    return lambda x: state_derivative(problem, u, a, embed(x, problem.layout.grid))


def five_point(problem: Problem, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
    """The same for an A that couples each interior node of a rectangle to its four neighbours at most.

    The colour (i + 2j) mod 5 of node (i, j) differs from that of its neighbours and among them: the images of five
    fields, each one on its colour and zero elsewhere, hold every coefficient once.
    """
    m1, m2 = (n - 2 for n in problem.layout.grid)
    i, j = torch.arange(m1, device=u.device)[:, None], torch.arange(m2, device=u.device)
    probes = torch.stack([((i + 2 * j) % 5 == colour).to(u.dtype) for colour in range(5)])
    images = on_interior(problem, u, a)(probes.expand(len(u), -1, -1, -1))
    colours = torch.stack([(i + di + 2 * (j + dj)) % 5 for di, dj in OFFSETS])
    coefficients = images.gather(1, colours.expand(len(u), -1, -1, -1)).unsqueeze(2).unbind(1)

    def operator(x: Tensor) -> Tensor:
        padded = pad(x, (1, 1, 1, 1))
        image = coefficients[0] * x
        for c, (di, dj) in zip(coefficients[1:], OFFSETS[1:], strict=True):
            image = torch.addcmul(image, c, padded[..., 1 + di : 1 + di + m1, 1 + dj : 1 + dj + m2])
        return image

    return operator
