"""(−Δₕ + shift)⁻¹ on the interior nodes of a rectangle with zero boundary values."""

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.core.layout import Layout
from stcl.losses.squares import weighted_squares
from stcl.tangent.transforms import basis, frequencies


class ShiftedInverse:
    """G = (−Δₕ + shift)⁻¹ for the five-point Laplacian, diagonal in sines: G r = S₁ (S₁ r S₂ / (λᵢ + λⱼ + shift)) S₂.

    S is the symmetric, orthonormal DST-I matrix of an axis. Two small matrix products a side are faster than a fast
    transform at these sizes, and work for every device, dtype and grid size.
    """

    def __init__(self, layout: Layout, shift: float) -> None:
        if len(layout.grid) != 2 or len(layout.responses) > 1:
            raise ValueError(
                f"a Laplacian metric needs one response on a two-dimensional grid, got responses {layout.responses} "
                f"on the axes {layout.axes}"
            )
        (sines1, symbol1), (sines2, symbol2) = (_sines(c) for c in layout.coordinates)
        self.shape = (len(symbol1), len(symbol2))
        self._sines = sines1, sines2
        self._inverse = 1 / (symbol1[:, None] + symbol2 + shift)

    def apply(self, r: Tensor) -> Tensor:
        """G r for r [..., m1, m2]."""
        return self._transform(self._transform(r) * like(r, self._inverse))

    def energy(self, r: Tensor) -> Tensor:
        """rᵀ G r [B, q] for r [B, q, m1, m2]: a plain sum over the nodes."""
        return weighted_squares(self._transform(r), like(r, self._inverse))

    def _transform(self, r: Tensor) -> Tensor:
        """S₁ r S₂ in two products: one of each field, and one of all rows."""
        sines1, sines2 = (like(r, sines) for sines in self._sines)
        fields = r.reshape(-1, *self.shape)
        along1 = torch.bmm(sines1.expand(len(fields), -1, -1), fields)
        return (along1.view(-1, self.shape[1]) @ sines2).view(r.shape)


def _sines(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The DST-I matrix [m, m] of the m interior nodes, and the eigenvalues [m] of −∂ₓₓ there."""
    m, h = len(nodes) - 2, nodes[1] - nodes[0]
    sines, _ = basis("sine", m)
    return sines, (1 / h * frequencies("sine", m)) ** 2
