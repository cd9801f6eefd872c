"""A few GMRES steps for problems in time, preconditioned by a space-time operator that is inverted mode by mode."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solved
from stcl.losses import settings
from stcl.tangent.krylov import gmres
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import products
from stcl.tangent.solver_choice import space_time_refusal
from stcl.tangent.space_time_fit import fit_space_time
from stcl.tangent.transforms import basis
from stcl.tangent.unknowns import embed

STATES = 2  # states that the fit looks at


class SpaceTime:
    """m steps for A x = g from zero, preconditioned by (Σ_k (T + W s_k) ⊗ φ_k φ_kᵀ)⁻¹ of stcl.tangent.space_time_fit.

    This has the residual's own differences in time, and a transform in space. Each mode is inverted exactly, by a dense
    matrix [frames, frames]. What is left to GMRES are coefficients that vary in space and time.
    """

    def __init__(
        self, equation: DiscreteEquation, settings: settings.SpaceTime, tangent_class: OperatorClass | None
    ) -> None:
        layout = equation.layout
        refusal = space_time_refusal(layout)
        if refusal is not None:
            raise ValueError(refusal)
        self.equation, self.settings = equation, settings
        a, u = equation.states(STATES)
        fit = fit_space_time([TangentOperator(equation, u[i], a[i]) for i in range(len(a))])
        self.time_axis = layout.axes.index(str(layout.time_axis))
        inverses = np.linalg.inv(fit.time + fit.weight * fit.symbol[..., None, None])
        self._inverses = inverses.reshape(-1, *fit.time.shape)  # [modes, frames, frames]
        self._bases = [basis(kind, m)[0] for kind, m in zip(fit.transforms, fit.symbol.shape, strict=True)]

    def with_steps(self, steps: int) -> "SpaceTime":
        """The same solver with another number of steps, without another fit."""
        other = copy.copy(self)
        other.settings = self.settings.model_copy(update={"steps": steps})
        return other

    @property
    def steps(self) -> int:
        return self.settings.steps

    products = steps

    @torch.no_grad()
    def at(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Solved]:
        product, grid = products(self.equation, u, a), self.equation.layout.grid

        def solve(g: Tensor) -> Solved:
            found = gmres(lambda x: product(embed(x, grid)), g, self.precondition, self.steps, g.ndim - 2)
            return Solved(embed(found.x, grid), found.residual, found.solved)

        return torch.no_grad()(solve)

    def precondition(self, r: Tensor) -> Tensor:
        """The preconditioner applied to r [B, q, *equations]."""
        bases = [like(r, modes) for modes in self._bases]
        first = r.movedim(2 + self.time_axis, 2)  # [B, q, frames, *space]
        waves = first.flatten(0, 2)
        for axis, modes in enumerate(bases, start=1):
            waves = (waves.movedim(axis, -1) @ modes.mT).movedim(-1, axis)
        by_mode = waves.view(-1, first.shape[2], waves[0].numel()).permute(2, 1, 0)
        solved = torch.bmm(like(r, self._inverses), by_mode).permute(2, 1, 0)
        fields = solved.reshape(waves.shape)
        for axis, modes in enumerate(bases, start=1):
            fields = (fields.movedim(axis, -1) @ modes).movedim(-1, axis)
        return fields.view(first.shape).movedim(2, 2 + self.time_axis)
