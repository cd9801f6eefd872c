"""A few GMRES steps for saddle problems, preconditioned by the Stokes operator of the same grid."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solved
from stcl.losses import settings
from stcl.tangent.krylov import gmres
from stcl.tangent.residual import products
from stcl.tangent.transforms import basis, frequencies
from stcl.tangent.unknowns import Unknowns


class Stokes:
    """m steps for A x = g from zero, for velocities y and a pressure p at the m2 × m1 interior nodes.

    With K = −µΔₕ, G = ∇ₕ and D = ∇ₕ· by centred differences, the preconditioner is the block factorisation of the
    Stokes operator (K, G; D, 0), with an approximate Schur complement S ≈ −D K⁻¹ G:

        ŷ = K⁻¹ f,   p = S⁻¹ (c − D ŷ),   y = ŷ − K⁻¹ G p     for momentum f and continuity c.

    K is diagonal in sines. So all of it is done in sines, in which D and G are matrices along one axis. S⁻¹ is µ for
    smooth pressures. For rough ones, whose centred differences are small, it is µ Σᵢ 4 sin²(θᵢ/2) / Σᵢ sin²θᵢ.

    Velocities are named after the axes: the first one points along x1, which may be either axis of the arrays. A block
    of boundary values of g does not count: x is zero there.
    """

    def __init__(
        self, equation: DiscreteEquation, settings: settings.Stokes, tangent_class: OperatorClass | None
    ) -> None:
        layout, viscosity = equation.layout, settings.viscosity or equation.viscosity
        if sorted(layout.axes) != ["x1", "x2"] or len(layout.responses) != 3 or viscosity is None:
            raise ValueError(
                f"solver stokes needs two velocities and a pressure on the axes x1 and x2 and a viscosity, got "
                f"{layout.responses} on {layout.axes} and viscosity {viscosity}"
            )
        a, u = equation.states(1)
        self.equation, self.settings, self.viscosity = equation, settings, viscosity
        self.unknowns = Unknowns(equation.residual(u, a), layout)
        nodes = [(len(c) - 2, c[1] - c[0]) for c in layout.coordinates]
        if self.unknowns.sizes != [2 * nodes[0][0] * nodes[1][0], nodes[0][0] * nodes[1][0]]:
            raise ValueError(
                f"solver stokes needs equations at the interior nodes of the grid {layout.grid}: two of momentum, "
                f"then one of continuity, got blocks of {self.unknowns.sizes}"
            )
        self._first_along_rows = layout.axes == ("x1", "x2")  # whether x1 is the first axis of the arrays
        sines = [basis("sine", m)[0] for m, _ in nodes]
        differences = [(np.eye(m, k=1) - np.eye(m, k=-1)) / (2 * h) for m, h in nodes]
        waves = [frequencies("sine", m) for m, _ in nodes]  # 2 sin(θ/2); sin²θ is their square times 1 − sin²(θ/2)
        spacings = [h for _, h in nodes]
        bends = [(f / h) ** 2 for f, h in zip(waves, spacings, strict=True)]
        slopes = [(f / h) ** 2 * (1 - f**2 / 4) for f, h in zip(waves, spacings, strict=True)]
        laplacian = bends[0][:, None] + bends[1]
        # Tables have zeros for the walls: matrices of the whole grid multiply faster than those of the interior nodes.
        self._sines = [np.pad(s, 1) for s in sines]
        self._slopes = [np.pad(s @ d @ s, 1) for s, d in zip(sines, differences, strict=True)]
        self._inverse = np.pad(1 / (viscosity * laplacian), 1)
        self._schur = np.pad(viscosity * laplacian / (slopes[0][:, None] + slopes[1]), 1)

    @property
    def steps(self) -> int:
        return self.settings.steps

    products = steps

    @torch.no_grad()
    def at(self, u: Tensor, a: Tensor) -> Callable[[Any], Solved]:
        product = products(self.equation, u, a)

        def solve(g: Any) -> Solved:
            found = gmres(lambda x: _joined(product(x)), _joined(g), self.precondition, self.steps, axes=3)
            return Solved(*found)

        return torch.no_grad()(solve)

    def precondition(self, r: Tensor) -> Tensor:
        """The preconditioner applied to momentum and continuity r [B, q, 3, n2, n1], which vanish at the walls."""
        inverse, schur, rows, columns = (like(r, t) for t in (self._inverse, self._schur, *self._sines))
        slope_rows, slope_columns = (like(r, s) for s in self._slopes)
        waves = _both(r, rows, columns)
        first, second, continuity = waves.unbind(2)
        first.mul_(inverse)
        second.mul_(inverse)
        along = (first, second) if self._first_along_rows else (second, first)  # velocities along rows' axis, columns'
        pressure = continuity.sub_(_left(slope_rows, along[0])).sub_(along[1] @ slope_columns.mT).mul_(schur)
        along[0].addcmul_(inverse, _left(slope_rows, pressure), value=-1)
        along[1].addcmul_(inverse, pressure @ slope_columns.mT, value=-1)
        return _both(waves, rows, columns)


def _joined(residual: Any) -> Tensor:
    """Momentum and continuity as fields [B, q, 3, n2, n1] that vanish at the walls."""
    momentum, continuity, *_ = residual
    joined = momentum.new_zeros(*momentum.shape[:2], 3, *(m + 2 for m in momentum.shape[3:]))
    joined[:, :, :2, 1:-1, 1:-1] = momentum
    joined[:, :, 2, 1:-1, 1:-1] = continuity
    return joined


def _both(x: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """left x right for fields x [..., n2, n1] and symmetric matrices, as a new tensor."""
    return _left(left, (x.reshape(-1, x.shape[-1]) @ right).view(x.shape))


def _left(matrix: Tensor, x: Tensor) -> Tensor:
    fields = x.reshape(-1, *x.shape[-2:])
    return torch.bmm(matrix.expand(len(fields), -1, -1), fields).view(x.shape)
