"""The metric of saddle residuals: Leray projection and Oseen weights for the momentum, plain means for the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from stcl.core.arrays import like
from stcl.core.interfaces import DiscreteEquation
from stcl.losses import settings


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
                f"metric leray_oseen needs two scored velocities on the axes x1 and x2 and a viscosity, got "
                f"{layout.scored} on {layout.axes} and viscosity {viscosity}"
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
        first, second = along if layout.axes == ("x2", "x1") else along[::-1]
        self._tables = first, second, weight * share
        # The same for real and imaginary parts, which take turns along the rows.
        own = np.stack([weight * (1 - first**2), weight * (1 - second**2)])
        both = (np.repeat(table, 2, axis=-2) for table in (own, -weight * first * second))
        self._energy_tables = *_half_spectrum(m2, m1), *both

    def energy(self, r: Any, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q], of momentum [B, q, 2, m2, m1], divergence [B, q, m2, m1] and boundary [B, q, ...]."""
        momentum, divergence, *boundary = r
        waves, modes, own, cross = (like(momentum, table) for table in self._energy_tables)
        shares = self.settings.divergence, *[self.settings.boundary] * len(boundary)
        halves = (momentum.reshape(-1, self.shape[1]) @ waves).view(-1, len(modes), waves.shape[1] // 2)
        spectrum = torch.bmm(modes.expand(len(halves), -1, -1), halves).view(*momentum.shape[:3], len(modes), -1)
        return _Energy.apply(spectrum, own, cross, shares, divergence, *boundary)

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

    def _apply_to_momentum(self, momentum: Tensor) -> Tensor:
        e1, e2, weight = (like(momentum, table) for table in self._tables)
        first, second = torch.fft.rfft2(momentum, norm="ortho").unbind(-3)
        along = e1 * first + e2 * second
        projected = torch.stack([first - e1 * along, second - e2 * along], -3)
        return torch.fft.irfft2(weight * projected, s=self.shape, norm="ortho")


class _Energy(Function):
    """ẑᵀ Q ẑ + Σ shareᵢ mean(blockᵢ²), [B, q], for ẑ [B, q, 2, ...] and Q = (own₀, cross; cross, own₁) at each mode."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, own: Tensor, cross: Tensor, shares: tuple[float, ...], *blocks: Tensor) -> Tensor:
        weighted = z * own
        weighted[:, :, 0].addcmul_(cross, z[:, :, 1])
        weighted[:, :, 1].addcmul_(cross, z[:, :, 0])
        ctx.shares = [share / block[0, 0].numel() for share, block in zip(shares, blocks, strict=True)]
        ctx.save_for_backward(weighted, *blocks)
        rows = [x.reshape(x.shape[0] * x.shape[1], 1, -1) for x in (weighted, z, *blocks)]
        energy = torch.bmm(rows[0], rows[1].mT)
        for row, share in zip(rows[2:], ctx.shares, strict=True):
            energy.baddbmm_(row, row.mT, alpha=share)
        return energy.view(z.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor | None, ...]:
        weighted, *blocks = ctx.saved_tensors
        bars = [
            x * (2 * share * bar).view(*bar.shape, *[1] * (x.ndim - 2))
            for x, share in zip((weighted, *blocks), (1.0, *ctx.shares), strict=True)
        ]
        return bars[0], None, None, None, *bars[1:]


def _half_spectrum(m2: int, m1: int) -> tuple[np.ndarray, np.ndarray]:
    """rfft2(norm="ortho") of fields [m2, m1] as two real products, one from the right and one from the left.

    The first is [m1, 2k]: real, then imaginary parts of the k modes of each row. Read as [2·m2, k], its result has rows
    that take turns, and so has that of the second, [2·m2, 2·m2].
    """
    phase1, phase2 = (
        2 * np.pi / m * (np.outer(np.arange(m), np.arange(k)) % m) for m, k in ((m1, m1 // 2 + 1), (m2, m2))
    )
    waves = np.concatenate([np.cos(phase1), -np.sin(phase1)], axis=1) / np.sqrt(m1)
    cos, sin = np.cos(phase2), np.sin(phase2)
    turned = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)  # [k2, Re|Im, x2, Re|Im]
    return waves, turned.reshape(2 * m2, 2 * m2) / np.sqrt(m2)
