"""The metric of saddle residuals: Leray projection and Oseen weights for the momentum, plain means for the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation
from stcl.losses import settings
from stcl.losses.metrics._tables import Tables


class LerayOseen:
    """rᵀ M r = Σ_j mean_k M_O(k) |(P(k) r̂(k))_j|² + w_div mean(r_div²) + w_bc mean(r_bc²).

        P(k) = I − k kᵀ/|k|²,  P(0) = I,     M_O(k) = 1 / (σ(k) + τ max σ),     σ(k)² = (µ|k|²)² + (b₀|k|)²

    r̂ is the orthonormal periodic transform of the momentum residual on the m×m interior nodes. As published, the mean
    runs over the half spectrum of a real transform, in which the columns k₁ = 0 and Nyquist weigh twice, and k is the
    continuous wave number, 2π times the frequency on nodes h apart. Velocities are named after the axes: the first one
    points along x1, which may be either axis of the arrays. All blocks after the divergence count as boundary.

    Ablations switch one part off. Without `project`, P = I. Without `weigh`, M_O is the mean of all M_O(k), so that a
    residual with equal power in all modes keeps its energy and the three terms stay comparable.
    """

    def __init__(self, equation: DiscreteEquation, settings: settings.LerayOseen) -> None:
        layout, viscosity = equation.layout, settings.viscosity or equation.viscosity
        if sorted(layout.axes) != ["x1", "x2"] or len(layout.scored) != 2 or viscosity is None:
            raise ValueError(
                f"metric leray_oseen needs two scored velocities on the axes x1 and x2 and a viscosity mu, got "
                f"{layout.scored} on {layout.axes} and mu = {viscosity}"
            )
        (m2, h2), (m1, h1) = ((len(c) - 2, c[1] - c[0]) for c in layout.coordinates)  # rows, columns
        k1 = 2 * np.pi * np.fft.rfftfreq(m1, h1)
        k2 = 2 * np.pi * np.fft.fftfreq(m2, h2)[:, None]
        square = k1**2 + k2**2
        symbol = np.sqrt((viscosity * square) ** 2 + settings.speed**2 * square)
        weight = 1 / (symbol + settings.shift * symbol.max()) / square.size
        if not settings.weigh:
            weight = np.full_like(weight, weight.mean())
        length = np.sqrt(np.where(square == 0, 1, square))  # k = 0 has nothing to project out
        # The half spectrum holds one of each conjugate pair, except in its self-conjugate columns.
        share = np.full(k1.size, 0.5)
        share[0] = 1.0
        if m1 % 2 == 0:
            share[-1] = 1.0
        self.settings, self.shape = settings, (m2, m1)
        along = (k1 / length, k2 / length) if settings.project else (np.zeros_like(square),) * 2
        self._tables = Tables(*(along if layout.axes == ("x2", "x1") else along[::-1]), weight, weight * share)

    def energy(self, r: Any, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q], of momentum [B, q, 2, m2, m1], divergence [B, q, m2, m1] and boundary [B, q, ...]."""
        momentum, divergence, *boundary = r
        e1, e2, weight, _ = self._tables.like(momentum)
        first, second = torch.fft.rfft2(momentum, norm="ortho").unbind(-3)
        removed = _square(e1 * first + e2 * second)
        energy = ((_square(first) + _square(second) - removed) * weight).sum((-2, -1))
        energy = energy + self.settings.divergence * divergence.square().mean((-2, -1))
        return energy + sum(self.settings.boundary * block.square().flatten(2).mean(-1) for block in boundary)

    def at(self, a: Tensor) -> Callable[[Any], Any]:
        """r ↦ M r, in blocks like those of r. It is the same for every input."""
        return self._apply

    def _apply(self, r: Any) -> Any:
        momentum, divergence, *boundary = r
        return type(r)(
            self._apply_to_momentum(momentum),
            self.settings.divergence * divergence / divergence[0, 0].numel(),
            *(self.settings.boundary * block / block[0, 0].numel() for block in boundary),
        )

    def matrix(self, a: Tensor) -> Tensor:
        """The momentum block of M as a dense matrix [2·m2·m1, 2·m2·m1]; the other blocks are multiples of I."""
        m2, m1 = self.shape
        columns = torch.eye(2 * m2 * m1, dtype=a.dtype, device=a.device).reshape(-1, 2, m2, m1)
        return self._apply_to_momentum(columns).flatten(1)

    def _apply_to_momentum(self, momentum: Tensor) -> Tensor:
        e1, e2, _, weight = self._tables.like(momentum)
        first, second = torch.fft.rfft2(momentum, norm="ortho").unbind(-3)
        along = e1 * first + e2 * second
        projected = torch.stack([first - e1 * along, second - e2 * along], -3)
        return torch.fft.irfft2(weight * projected, s=self.shape, norm="ortho")


def _square(z: Tensor) -> Tensor:
    """|z|², whose gradient, unlike that of the modulus, exists at zero."""
    return z.real.square() + z.imag.square()
