"""The truncated two-dimensional real DFT as matrix products.

A spectral layer keeps rows kx = 0..m−1 and −m..−1 and columns ky = 0..m−1 of rfft2(f, norm="ortho"): for 65×65
nodes and m = 8 that is 128 modes of 2145. Two thin real products give exactly those, without complex numbers, in
any dtype and on any device, and forward mode, reverse mode and vmap pass through them.

Fields are channels last, [N, nx, ny, C]; modes are [N, 2, 2m·m, C] with real and imaginary parts on the second axis.
A field that is constant along x or y may be stored with one node there: it has only the zero mode of that axis.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class TruncatedDFT(NamedTuple):
    """Real matrices of one grid; the transposes of analysis and synthesis are their adjoints."""

    analysis_y: Tensor  # [2m, ny]: rows Re ky = 0..m−1, then Im
    analysis_x: Tensor  # [4m, 2nx]: rows (Re|Im, kx), columns (x, Re|Im)
    synthesis_x: Tensor  # [2nx, 4m]
    synthesis_y: Tensor  # [ny, 2m]

    def transposed(self) -> "TruncatedDFT":
        """Matrices with which `analyse` is the adjoint of `synthesise_onto`, and the other way round."""
        return TruncatedDFT(self.synthesis_y.mT, self.synthesis_x.mT, self.analysis_x.mT, self.analysis_y.mT)


@lru_cache(maxsize=64)
def truncated_dft(nx: int, ny: int, modes: int, dtype: torch.dtype, device: torch.device) -> TruncatedDFT:
    ky = np.arange(modes)
    cos, sin = _waves(ky, ny)
    # irfft counts a column and its conjugate; ky = 0 and the Nyquist column are their own conjugates.
    count = np.where((ky == 0) | (2 * ky == ny), 1.0, 2.0)[:, None]
    analysis_y = np.concatenate([cos, -sin])
    synthesis_y = np.concatenate([count * cos, -count * sin]).T

    cos, sin = _waves(np.concatenate([ky, ky - modes]), nx)
    # (Re + i Im)(cos − i sin), with (x, Re|Im) as one axis
    analysis_x = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)]).reshape(4 * modes, 2 * nx)
    matrices = (analysis_y, analysis_x, analysis_x.T, synthesis_y)
    # The cache outlives the caller's context: no inference tensors in it.
    with torch.inference_mode(False):
        return TruncatedDFT(*[torch.from_numpy(np.ascontiguousarray(a)).to(device, dtype) for a in matrices])


def _waves(k: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π k j / n over √n, [len(k), n]; for a constant axis (n = 1) only k = 0 is not zero."""
    angle = 2 * math.pi / n * (np.outer(k, np.arange(n)) % n)
    kept = np.ones((len(k), 1)) if n > 1 else (k == 0)[:, None]
    return kept * np.cos(angle) / math.sqrt(n), kept * np.sin(angle) / math.sqrt(n)


def analyse(dft: TruncatedDFT, fields: Tensor) -> Tensor:
    """Modes [N, 2, 2m·m, C] of fields [N, nx, ny, C]."""
    n, nx, ny, c = fields.shape
    along_y = torch.bmm(dft.analysis_y.expand(n * nx, -1, -1), fields.reshape(n * nx, ny, c))
    modes = torch.bmm(dft.analysis_x.expand(n, -1, -1), along_y.reshape(n, 2 * nx, -1))
    return modes.reshape(n, 2, -1, c)


def synthesise_onto(dft: TruncatedDFT, rows: Tensor, modes: Tensor) -> Tensor:
    """rows [N·nx, ny, C] plus the fields of modes [N, 2, 2m·m, C], added in place.

    In place on a view, autograd would copy the whole gradient: so rows are what is passed, and viewed afterwards.
    """
    n, c = len(modes), modes.shape[-1]
    along_x = torch.bmm(dft.synthesis_x.expand(n, -1, -1), modes.reshape(n, dft.synthesis_x.shape[1], -1))
    return rows.baddbmm_(dft.synthesis_y.expand(len(rows), -1, -1), along_x.reshape(len(rows), -1, c))
