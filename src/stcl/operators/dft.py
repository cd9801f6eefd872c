"""The truncated two-dimensional real DFT as matrix products.

A spectral layer keeps rows kx = 0..m−1 and −m..−1 and columns ky = 0..m−1 of rfft2(f, norm="ortho"): for 65×65
nodes and m = 8 that is 128 modes of 2145. Thin real products give exactly those, without complex numbers, in any
dtype and on any device, and forward mode, reverse mode and vmap pass through them.

Fields are [B, nx, r, ny, C]: r fields of C channels for each of B inputs, row by row. Along y, every row is transformed
on its own, into a half spectrum [B, nx, r, 2m, C] with real, then imaginary parts. Along x, those become modes
[m, 2m, 2, B·r, C], indexed by ky, kx and Re|Im: one matrix of fields by channels per mode.
A field that is constant along x or y may be stored with one node there: it has only the zero mode of that axis.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class TruncatedDFT(NamedTuple):
    """The real matrices of the transform on one grid."""

    analysis_y: Tensor  # [2m, ny]: rows Re ky = 0..m−1, then Im
    synthesis_y: Tensor  # [ny, 2m]
    waves_x: Tensor  # [2m+1, nx]: cosines 0..m, then sines 1..m
    signs_x: Tensor  # [4m, 2(2m+1)]: from (wave, Re|Im) to (kx, Re|Im)

    def transposed(self) -> "TruncatedDFT":
        """Matrices with which analysis is the adjoint of synthesis, and the other way round."""
        return self._replace(analysis_y=self.synthesis_y.mT, synthesis_y=self.analysis_y.mT)


@lru_cache(maxsize=64)
def truncated_dft(nx: int, ny: int, modes: int, dtype: torch.dtype, device: torch.device) -> TruncatedDFT:
    ky = np.arange(modes)
    cos, sin = _waves(ky, ny)
    # irfft counts a column and its conjugate; ky = 0 and the Nyquist column are their own conjugates.
    count = np.where((ky == 0) | (2 * ky == ny), 1.0, 2.0)[:, None]
    analysis_y = np.concatenate([cos, -sin])
    synthesis_y = np.concatenate([count * cos, -count * sin]).T

    cos, sin = _waves(np.arange(modes + 1), nx)
    waves_x = np.concatenate([cos, sin[1:]])
    # The entries are those of (Re + i Im)(cos kx − i sin kx) for both signs of kx.
    signs_x = np.zeros((2 * modes, 2, 2 * modes + 1, 2))
    for row, k in enumerate([*range(modes), *range(-modes, 0)]):
        signs_x[row, 0, abs(k), 0] = signs_x[row, 1, abs(k), 1] = 1
        if k != 0:
            signs_x[row, 0, modes + abs(k), 1] = np.sign(k)
            signs_x[row, 1, modes + abs(k), 0] = -np.sign(k)
    matrices = (analysis_y, synthesis_y, waves_x, signs_x.reshape(4 * modes, -1))
    # The cache outlives the caller's context. It holds no inference tensors and, unlike from_numpy's, no wrapped ones.
    kind = getattr(np, str(dtype).removeprefix("torch."), np.float64)
    with torch.inference_mode(False):
        tensors = [torch.from_dlpack(np.ascontiguousarray(a, dtype=kind)) for a in matrices]
        return TruncatedDFT(*[t if (t.dtype, t.device) == (dtype, device) else t.to(device, dtype) for t in tensors])


def _waves(k: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π k j / n over √n, [len(k), n]; for a constant axis (n = 1) only k = 0 is not zero."""
    angle = 2 * math.pi / n * (np.outer(k, np.arange(n)) % n)
    kept = np.ones((len(k), 1)) if n > 1 else (k == 0)[:, None]
    return kept * np.cos(angle) / math.sqrt(n), kept * np.sin(angle) / math.sqrt(n)


def analyse_y(dft: TruncatedDFT, fields: Tensor, out: Tensor | None = None) -> Tensor:
    """Half spectra [..., 2m, C] of rows [..., ny, C], into `out` if it is given."""
    rows = fields.reshape(-1, *fields.shape[-2:])
    matrices = dft.analysis_y.expand(len(rows), -1, -1)
    if out is None:
        return torch.bmm(matrices, rows).view(*fields.shape[:-2], -1, fields.shape[-1])
    torch.bmm(matrices, rows, out=out.view(len(rows), -1, fields.shape[-1]))
    return out


def analyse_x(dft: TruncatedDFT, halves: Tensor) -> Tensor:
    """Modes [m, 2m, 2, B·r, C] of half spectra [B, nx, r, 2m, C]."""
    b, nx, r, twice_m, c = halves.shape
    m = twice_m // 2
    waves = torch.bmm(dft.waves_x.expand(b, -1, -1), halves.reshape(b, nx, -1)).view(b, -1, r, 2, m, c)
    waves = waves.permute(4, 1, 3, 0, 2, 5).reshape(m, -1, b * r * c)
    return torch.bmm(dft.signs_x.expand(m, -1, -1), waves).view(m, 2 * m, 2, b * r, c)


def synthesise_x(dft: TruncatedDFT, modes: Tensor, r: int) -> Tensor:
    """Half spectra [B, nx, r, 2m, C] of modes [m, 2m, 2, B·r, C]."""
    m, c = modes.shape[0], modes.shape[-1]
    waves = torch.bmm(dft.signs_x.mT.expand(m, -1, -1), modes.reshape(m, 4 * m, -1))
    waves = waves.view(m, -1, 2, modes.shape[3] // r, r, c).permute(3, 1, 4, 2, 0, 5)
    b, count = waves.shape[:2]
    halves = torch.bmm(dft.waves_x.mT.expand(b, -1, -1), waves.reshape(b, count, -1))
    return halves.view(b, -1, r, 2 * m, c)


def synthesise_y_onto(dft: TruncatedDFT, rows: Tensor, halves: Tensor) -> Tensor:
    """rows [N, ny, C] plus the rows of as many half spectra [..., 2m, C], added in place.

    Autograd would copy the whole gradient of a view that is changed in place, so rows are passed and viewed afterwards.
    """
    halves = halves.view(len(rows), -1, rows.shape[-1])
    return rows.baddbmm_(dft.synthesis_y.expand(len(rows), -1, -1), halves)
