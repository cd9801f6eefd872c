"""The truncated two-dimensional real DFT as matrix products.

A spectral layer keeps rows kx = 0..m−1 and −m..−1 and columns ky = 0..m−1 of rfft2(f, norm="ortho"): for 65×65
nodes and m = 8 that is 128 modes of 2145. Thin real products give exactly those, without complex numbers, in any
dtype and on any device, and forward mode, reverse mode and vmap pass through them.

Along y, every row [ny, C] of a field becomes a half spectrum [2m, C] with real, then imaginary parts. The half spectra
of a field, [nx, Re|Im, m, C], are rows again, [2nx, m·C], so that a second product along x gives all modes.
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

    analysis_y: Tensor  # [2m, ny]: from nodes to Re ky = 0..m−1, then Im
    synthesis_y: Tensor  # [ny, 2m]
    analysis_x: Tensor  # [8m, 2nx]: from (node, Re|Im) to (kx, (Re, −Im | Im, Re))
    synthesis_x: Tensor  # [2nx, 4m]: from (kx, Re|Im) to (node, Re|Im)
    waves_x: Tensor  # [2m+1, nx]: cosines 0..m, then sines 1..m, from which the other two of x are made


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
    kx = np.array([*range(modes), *range(-modes, 0)])
    cos, sin = cos[abs(kx)], np.sign(kx)[:, None] * sin[abs(kx)]
    # The rows are those of (Re + i Im)(cos kx − i sin kx), with the nodes' own real and imaginary parts alternating.
    re, im = np.stack([cos, sin], -1).reshape(len(kx), -1), np.stack([-sin, cos], -1).reshape(len(kx), -1)
    analysis_x = np.stack([re, -im, im, re], 1).reshape(8 * modes, -1)
    synthesis_x = np.stack([re, im], 1).reshape(4 * modes, -1).T
    matrices = (analysis_y, synthesis_y, analysis_x, synthesis_x, waves_x)
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
