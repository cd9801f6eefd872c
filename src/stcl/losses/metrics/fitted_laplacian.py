"""M = D^-1/2 (Σ wᵢ Lᵢ + shift)⁻¹ D^-1/2: an inverse Laplacian with the coefficients of A itself."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation
from stcl.losses import settings
from stcl.tangent.laplacian_fit import LaplacianFit, fit_laplacian
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import single_block
from stcl.tangent.stencil import diagonal
from stcl.tangent.transforms import basis, laplacian_diagonal

STATES = 2  # states that a fit before training looks at
SMALLEST = 1e-3  # smallest entry of D that is used


class FittedLaplacian:
    """M = D^-1/2 (Σ wᵢ Lᵢ + shift)⁻¹ D^-1/2 on the nodes that have an equation.

    Lᵢ is the second difference along an axis with unit spacing, diagonal in the axis' transform. D is the diagonal of
    A(ū, a) over that of the bracket, at the mean ū of a few responses, so that it follows the input. D is 1 if not
    `scaled`.
    """

    def __init__(self, equation: DiscreteEquation, settings: settings.FittedLaplacian) -> None:
        chosen = complete(equation, settings)
        self.equation, self.scaled = equation, chosen.scaled
        a, u = equation.states(4)
        self._equations = single_block(equation.residual(u[:1], a[:1]), "fitted_laplacian").shape[1:]
        nodes = self._equations[-len(equation.layout.grid) :]
        weights, transforms, shift = chosen.weights or [], chosen.transforms or [], chosen.shift or 0.0
        if len(weights) != len(nodes) or len(transforms) != len(nodes):
            raise ValueError(
                f"metric fitted_laplacian needs a weight and a transform for each of the axes {equation.layout.axes}, "
                f"got {weights} and {transforms}"
            )
        symbol, bases = np.array(shift), []
        for axis, (kind, weight) in enumerate(zip(transforms, weights, strict=True)):
            modes, values = basis(kind, nodes[axis])
            bases.append(modes)
            symbol = symbol + weight * values.reshape(-1, *[1] * (len(nodes) - 1 - axis))
        smallest = 1e-12 * symbol.max()
        if not symbol.min() > smallest:
            raise ValueError(
                f"metric fitted_laplacian is not positive: weights {weights} and shift {shift:g} leave a "
                f"mode with eigenvalue {symbol.min():.1e}; give a positive shift"
            )
        own = laplacian_diagonal(transforms, weights, shift, tuple(nodes))
        self._mean_state, self._own_diagonal = u.mean(0, keepdim=True).cpu().numpy(), own
        self._symbol, self._bases = symbol, bases

    def at(self, a: Tensor) -> Callable[[Tensor], Tensor]:
        """r ↦ M r for a [B, *input_shape] and r [B, q, *equations]."""
        scale, symbol, bases = self._scale(a), *self._waves(a)
        back = [modes.mT for modes in bases]
        return lambda r: scale * _along_axes(_along_axes(scale * r, bases) / symbol, back)

    def inverse_at(self, a: Tensor) -> Callable[[Tensor], Tensor]:
        """r ↦ M⁻¹ r."""
        scale, symbol, bases = self._scale(a), *self._waves(a)
        back = [modes.mT for modes in bases]
        return lambda r: _along_axes(_along_axes(r / scale, bases) * symbol, back) / scale

    def energy(self, r: Tensor, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q]: a plain sum over the nodes."""
        symbol, bases = self._waves(r)
        return (_along_axes(self._scale(a) * r, bases).square() / symbol).flatten(2).sum(-1)

    def _waves(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The eigenvalues of the bracket, [*equations], and the modes of each axis."""
        return like(x, self._symbol), [like(x, modes) for modes in self._bases]

    @torch.no_grad()
    def _scale(self, a: Tensor) -> Tensor:
        """D^-1/2, [B, 1, *equations] or 1."""
        if not self.scaled:
            return a.new_ones(())
        u, own = like(a, self._mean_state), like(a, self._own_diagonal)
        d = diagonal(self.equation, u.repeat(len(a), *[1] * (u.ndim - 1)), a, self._equations).abs() / own
        return d.clamp_min(SMALLEST).rsqrt().unsqueeze(1)


def settings_of(fit: LaplacianFit) -> settings.FittedLaplacian:
    """The positive metric of a fit."""
    return settings.FittedLaplacian(
        transforms=list(fit.transforms), weights=list(fit.weights), shift=fit.positive_shift, scaled=fit.scaled
    )


def complete(equation: DiscreteEquation, chosen: settings.FittedLaplacian) -> settings.FittedLaplacian:
    """The settings, in which all that was left out is fitted to the operator at a few states."""
    given = chosen.model_dump(exclude_none=True)
    if len(given) == len(type(chosen).model_fields):
        return chosen
    a, u = equation.states(STATES)
    fit = fit_laplacian([TangentOperator(equation, u[i], a[i]) for i in range(len(a))])
    return settings_of(fit).model_copy(update=given)


def _along_axes(x: Tensor, matrices: list[Tensor]) -> Tensor:
    """The matrices applied along the last axes of x, in order."""
    for axis, matrix in enumerate(matrices, start=-len(matrices)):
        x = matrix @ x if axis == -2 else (x.movedim(axis, -1) @ matrix.mT).movedim(-1, axis)
    return x
