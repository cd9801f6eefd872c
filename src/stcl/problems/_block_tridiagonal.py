"""Direct solves with block-tridiagonal matrices, batched over samples and right-hand sides.

A five-point stencil on an m×k grid is block tridiagonal: m dense blocks of k unknowns, coupled to their neighbours by
diagonal matrices. Block elimination turns a factorisation into m small inverses and each solve into 2m small matrix
products, which for hundreds of right-hand sides is an order of magnitude faster than sparse triangular solves.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack


@dataclass(frozen=True)
class BlockTridiagonal:
    """The factorised operator  (A x)_i = lower_i ∘ x_{i-1} + D_i x_i + upper_i ∘ x_{i+1},  i = 0 … m-1."""

    inverses: np.ndarray  # inverses of the Schur complements, [samples, m, k, k]
    lower: np.ndarray  # coupling to the previous block row, [samples, m, k]; row 0 is not used
    upper: np.ndarray  # coupling to the next block row, [samples, m, k]; row m-1 is not used

    @classmethod
    def factorise(cls, blocks: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> "BlockTridiagonal":
        """Eliminate from the first block row down: S_i = D_i − lower_i S_{i-1}⁻¹ upper_{i-1}. Overwrites `blocks`."""
        inverses = blocks
        for i in range(blocks.shape[1]):
            if i > 0:
                blocks[:, i] -= lower[:, i, :, None] * inverses[:, i - 1] * upper[:, i - 1, None, :]
            for sample in range(len(blocks)):
                inverses[sample, i] = _inverse(blocks[sample, i])
        return cls(inverses, lower, upper)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """x with A x = rhs, both [samples, m, k, right-hand sides] and contiguous. Overwrites `rhs` with x."""
        x = rhs
        x[:, 0] = self.inverses[:, 0] @ x[:, 0]
        for i in range(1, x.shape[1]):
            x[:, i] -= self.lower[:, i, :, None] * x[:, i - 1]
            x[:, i] = self.inverses[:, i] @ x[:, i]
        for i in range(x.shape[1] - 2, -1, -1):
            x[:, i] -= self.inverses[:, i] @ (self.upper[:, i, :, None] * x[:, i + 1])
        return x


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """LAPACK's getri: twice as fast as numpy's inverse for matrices of this size."""
    factor, pivots, info = lapack.dgetrf(matrix)
    inverse, _ = lapack.dgetri(factor, pivots)
    if info != 0:
        raise np.linalg.LinAlgError("block elimination met a singular block; the operator is singular or not finite")
    return inverse
