"""M = D^-1/2 (−Δₕ)⁻¹ D^-1/2: the metric of stiff elliptic residuals."""

import numpy as np
import torch
from torch import Tensor

from stcl.problems.base import Problem


class Metric:
    """M = D^-1/2 (−Δₕ)⁻¹ D^-1/2 with D = eᵃ, on the interior nodes of the unit square with zero boundary values.

    The inverse Laplacian is diagonal in sines: (−Δₕ)⁻¹ r = S (S r S / (λᵢ + λⱼ)) S with the symmetric, orthonormal
    DST-I matrix S. Two small matrix products a side are faster than a fast transform at these sizes, and work for
    every device, dtype and grid size.
    """

    def __init__(self, problem: Problem) -> None:
        n = problem.layout.grid[0]
        if problem.layout.grid != (n, n) or problem.layout.inputs != ("a",):
            raise ValueError(
                f"metric inverse_laplacian needs a square grid and one log-coefficient a, got grid "
                f"{problem.layout.grid} and inputs {problem.layout.inputs}"
            )
        m, h = n - 2, 1.0 / (n - 1)
        k = np.arange(1, m + 1)
        self._sines = np.sqrt(2 / (m + 1)) * np.sin(np.pi * np.outer(k, k) / (m + 1))
        symbol = (2 / h * np.sin(np.pi * k / (2 * (m + 1)))) ** 2
        self._eigenvalues = symbol[:, None] + symbol
        self._tables: dict[tuple, tuple[Tensor, Tensor]] = {}

    def apply(self, r: Tensor, a: Tensor) -> Tensor:
        """M r for r [B, q, m, m] and a [B, n, n]."""
        sines, eigenvalues = self._on(r)
        scale = self._scale(a)
        return scale * (sines @ (self._spectrum(r, scale, sines) / eigenvalues) @ sines)

    def energy(self, r: Tensor, a: Tensor) -> Tensor:
        """rᵀ M r, [B, q]: a plain sum over the interior nodes, as in the published loss."""
        sines, eigenvalues = self._on(r)
        return (self._spectrum(r, self._scale(a), sines).square() / eigenvalues).sum((-2, -1))

    def matrix(self, a: Tensor) -> Tensor:
        """M for one input a [n, n] as a dense matrix [m², m²]."""
        m = len(self._sines)
        columns = torch.eye(m * m, dtype=a.dtype, device=a.device).reshape(1, m * m, m, m)
        return self.apply(columns, a[None]).reshape(m * m, m * m)

    @staticmethod
    def _scale(a: Tensor) -> Tensor:
        return torch.rsqrt(a[..., 1:-1, 1:-1].exp() + 1e-10).unsqueeze(-3)

    @staticmethod
    def _spectrum(r: Tensor, scale: Tensor, sines: Tensor) -> Tensor:
        return sines @ (scale * r) @ sines

    def _on(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """The tables in r's dtype on r's device, moved there once."""
        key = (r.dtype, r.device)
        if key not in self._tables:
            self._tables[key] = tuple(torch.as_tensor(t, dtype=r.dtype, device=r.device) for t in self._both)
        return self._tables[key]

    @property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sines, self._eigenvalues
