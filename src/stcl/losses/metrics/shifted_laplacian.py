"""M = (−Δₕ + shift)⁻¹: the preconditioner of indefinite elliptic operators."""

from collections.abc import Callable

from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.losses import settings
from stcl.losses.metrics._sines import ShiftedInverse


class ShiftedLaplacian:
    """M = (−Δₕ + shift)⁻¹ on the interior nodes with zero boundary values, the same for every input."""

    def __init__(self, equation: DiscreteEquation, settings: settings.ShiftedLaplacian) -> None:
        shift = settings.shift
        if shift is None:
            if equation.wave_number is None:
                raise ValueError(
                    "metric shifted_laplacian needs a shift: the equation has no wave number κ from which κ²/2 could "
                    "be taken; give `shift`"
                )
            shift = equation.wave_number**2 / 2
        self._inverse = ShiftedInverse(equation.layout, shift)

    def at(self, a: Tensor) -> Callable[[Tensor], Tensor]:
        """r ↦ M r for r [B, q, m1, m2]."""
        return self._inverse.apply

    def energy(self, r: Tensor, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q]: a plain sum over the interior nodes."""
        return self._inverse.energy(r)
