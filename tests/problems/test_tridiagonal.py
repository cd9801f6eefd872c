"""Batched tridiagonal solves against dense ones."""

import numpy as np
import pytest

from stcl.problems import _tridiagonal


def systems(n: int, batch: tuple[int, ...]):
    """Random bands with a dominant diagonal and the dense matrices they stand for; the ends are never read."""
    rng = np.random.default_rng(0)
    lower, diagonal, upper = rng.standard_normal((3, *batch, n))
    diagonal += 4
    dense = np.zeros((*batch, n, n))
    i = np.arange(n)
    dense[..., i, i] = diagonal
    dense[..., i[1:], i[:-1]] = lower[..., 1:]
    dense[..., i[:-1], i[1:]] = upper[..., :-1]
    lower[..., 0] = upper[..., -1] = 1e3
    return (lower, diagonal, upper), dense


def test_one_right_hand_side_per_matrix():
    bands, dense = systems(11, (5,))
    rhs = np.random.default_rng(1).standard_normal((5, 11))
    np.testing.assert_allclose(
        _tridiagonal.solve(*bands, rhs), np.linalg.solve(dense, rhs[..., None])[..., 0], atol=1e-13
    )


@pytest.mark.parametrize("n", [1, 2, 7, 8, 24, 30, 37])  # whole blocks of 8, of 6, and a prime number of rows
def test_many_right_hand_sides_per_matrix(n):
    bands, dense = systems(n, (3, 4))
    forward, backward = _tridiagonal.factorise(*bands)
    rhs = np.random.default_rng(1).standard_normal((4, n, 6))
    x = rhs.copy()
    _tridiagonal.substitute(forward[2], backward[2], x)
    np.testing.assert_allclose(x, np.linalg.solve(dense[2], rhs), atol=1e-13)


def test_singular_matrices_are_refused():
    bands, _ = systems(8, (2,))
    bands[1][1] = 0.0
    bands[0][1] = bands[2][1] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        _tridiagonal.solve(*bands, np.ones((2, 8)))
    with pytest.raises(np.linalg.LinAlgError, match="vanishing pivot"), np.errstate(all="ignore"):
        _tridiagonal.factorise(*bands)
