"""M = D^-1/2 (−Δₕ)⁻¹ D^-1/2: the metric of stiff elliptic residuals."""

from collections.abc import Callable

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.losses import settings
from stcl.losses.metrics._sines import ShiftedInverse


class InverseLaplacian:
    """M = D^-1/2 (−Δₕ)⁻¹ D^-1/2 with D = eᵃ, on the interior nodes with zero boundary values."""

    def __init__(self, equation: DiscreteEquation, settings: settings.InverseLaplacian) -> None:
        layout = equation.layout
        if layout.input_shape != layout.grid:
            raise ValueError(
                f"metric inverse_laplacian needs one log-coefficient on the grid {layout.grid}, got inputs "
                f"{layout.inputs} of shape {layout.input_shape}"
            )
        self._inverse = ShiftedInverse(layout, shift=0.0)

    def at(self, a: Tensor) -> Callable[[Tensor], Tensor]:
        """r ↦ M r for a [B, n1, n2] and r [B, q, m1, m2]."""
        scale = _scale(a)
        return lambda r: scale * self._inverse.apply(scale * r)

    def energy(self, r: Tensor, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q]: a plain sum over the interior nodes, as in the published loss."""
        return self._inverse.energy(_scale(a) * r)


def _scale(a: Tensor) -> Tensor:
    """D^-1/2, [B, 1, m1, m2], with the published guard against eᵃ = 0."""
    return torch.rsqrt(a[..., 1:-1, 1:-1].exp() + 1e-10).unsqueeze(-3)
