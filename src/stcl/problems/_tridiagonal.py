"""Tridiagonal systems  lower_i x_{i-1} + diagonal_i x_i + upper_i x_{i+1} = rhs_i,  many at once.

Bands are [..., n]. lower[..., 0] and upper[..., -1] lie outside the matrix and are ignored. `solve` is for one
right-hand side per matrix, `factorise` and `substitute` are for hundreds of right-hand sides per matrix.
"""

import numpy as np

LARGEST_BLOCK = 8  # rows per block; it was the fastest of 4, 8, 16, 32, 64 for 200 right-hand sides


def solve(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The solutions x [..., n] for one right-hand side per matrix.

    All systems are chained into one long system, which takes one LAPACK call.
    """
    from scipy.linalg import lapack  # here, because whoever only asks for a layout should not wait for it

    lower, upper = lower.copy(), upper.copy()
    lower[..., 0] = upper[..., -1] = 0.0  # this uncouples each system from its neighbours in the chain
    *_, x, info = lapack.dgtsv(lower.ravel()[1:], diagonal.ravel(), upper.ravel()[:-1], rhs.ravel())
    if info != 0:
        raise np.linalg.LinAlgError("a tridiagonal matrix is singular or not finite")
    return x.reshape(rhs.shape)


def factorise(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Thomas algorithm's LU factors, as small dense blocks that advance b rows of a substitution at once.

    The two sweeps of the algorithm,  y_i = rhs_i + m_i y_{i-1}  and  x_i = y_i / p_i + q_i x_{i+1},  are unrolled
    inside blocks of b rows: each block of y is a b×(b+1) matrix times (the last y before it, its right-hand sides),
    and likewise for x from the end. A sweep over many right-hand sides is then n/b small matrix products.

    Returns (forward, backward), each [..., n/b, b, b+1]. There is no pivoting, and a vanishing pivot is refused.
    """
    *batch, n = diagonal.shape
    b = next(b for b in range(min(LARGEST_BLOCK, n), 0, -1) if n % b == 0)
    lower, diagonal, upper = (np.ascontiguousarray(np.moveaxis(band, -1, 0)) for band in (lower, diagonal, upper))
    multiplier, pivot = np.zeros_like(diagonal), diagonal.copy()
    for i in range(1, n):
        multiplier[i] = -lower[i] / pivot[i - 1]
        pivot[i] += multiplier[i] * upper[i - 1]
    if not np.abs(pivot).min() > 1e-8 * np.abs(diagonal).max():
        raise np.linalg.LinAlgError("the Thomas algorithm met a vanishing pivot; use a smaller time step")
    m, p, q = (np.moveaxis(c, 0, -1).reshape(*batch, n // b, b, 1) for c in (multiplier, 1 / pivot, -upper / pivot))

    forward = np.zeros((*batch, n // b, b, b + 1))
    forward[..., 0, 0] = m[..., 0, 0]
    forward[..., 0, 1] = 1.0
    for i in range(1, b):
        forward[..., i, :] = m[..., i, :] * forward[..., i - 1, :]
        forward[..., i, i + 1] = 1.0
    backward = np.zeros_like(forward)
    backward[..., b - 1, b] = q[..., b - 1, 0]
    backward[..., b - 1, b - 1] = p[..., b - 1, 0]
    for i in range(b - 2, -1, -1):
        backward[..., i, :] = q[..., i, :] * backward[..., i + 1, :]
        backward[..., i, i] = p[..., i, 0]
    return forward, backward


def substitute(forward: np.ndarray, backward: np.ndarray, rhs: np.ndarray) -> None:
    """Overwrites rhs [batch, n, right-hand sides] with the solutions. The factors are [batch, n/b, b, b+1]."""
    blocks, b = forward.shape[1:3]
    rhs[:, :b] = forward[:, 0, :, 1:] @ rhs[:, :b]
    for k in range(1, blocks):
        rhs[:, k * b : (k + 1) * b] = forward[:, k] @ rhs[:, k * b - 1 : (k + 1) * b]
    rhs[:, -b:] = backward[:, -1, :, :-1] @ rhs[:, -b:]
    for k in range(blocks - 2, -1, -1):
        rhs[:, k * b : (k + 1) * b] = backward[:, k] @ rhs[:, k * b : (k + 1) * b + 1]
