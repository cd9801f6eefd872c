"""One sweep through the frames, with steps that the problem has written down."""

from collections.abc import Callable

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solved
from stcl.losses import settings


class March:
    """A x = g by the problem's own steps from one frame to the next, exactly. The equation is that of the steps."""

    products = 1  # a sweep takes as many operations as a product with A does
    steps = None

    def __init__(
        self, equation: DiscreteEquation, settings: settings.March, tangent_class: OperatorClass | None
    ) -> None:
        if equation.march is None:
            raise ValueError("solver march needs steps that the problem has written down as `march`; use space_time")
        self.equation = equation.march

    @torch.no_grad()
    def at(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Solved]:
        sweep = self.equation.propagate(u, a)

        def solve(g: Tensor) -> Solved:
            x = sweep(g)
            solved = x.flatten(2).isfinite().all(2)
            x = torch.where(solved.view(*solved.shape, *[1] * (x.ndim - 2)), x, 0)
            return Solved(x, x.new_zeros(solved.shape), solved)

        return torch.no_grad()(solve)
