"""Block elimination against dense solves."""

import numpy as np
import pytest

from stcl.problems._block_tridiagonal import BlockTridiagonal
from stcl.problems.base import SolveError


def dense(blocks, lower, upper):
    """The matrix [m·ck, m·ck] of one sample from its blocks [m, ck, ck] and couplings {(p, q): [m, k]}."""
    m, size, _ = blocks.shape
    matrix = np.zeros((m, size, m, size))
    for i in range(m):
        matrix[i, :, i] = blocks[i]
        for coupling, j in ((lower, i - 1), (upper, i + 1)):
            if 0 <= j < m:
                for (p, q), values in coupling.items():
                    node = np.arange(values.shape[-1])
                    matrix[i, p * len(node) + node, j, q * len(node) + node] += values[i]
    return matrix.reshape(m * size, m * size)


@pytest.mark.parametrize("m", [1, 2, 3, 6, 7])
@pytest.mark.parametrize(
    "pattern", [[(0, 0)], [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2)]], ids=["scalar", "three components"]
)
def test_solutions_are_those_of_dense_solves(m, pattern):
    rng = np.random.default_rng(m)
    k, samples, r = 5, 2, 3
    components = 1 + max(max(pair) for pair in pattern)
    blocks = rng.standard_normal((samples, m, components * k, components * k))
    lower, upper = ({pair: rng.standard_normal((samples, m, k)) for pair in pattern} for _ in range(2))
    rhs = rng.standard_normal((samples, m, components * k, r))
    matrices = [
        dense(blocks[s], *({pair: v[s] for pair, v in c.items()} for c in (lower, upper))) for s in range(samples)
    ]
    expected = [np.linalg.solve(a, b.reshape(-1, r)) for a, b in zip(matrices, rhs, strict=True)]
    x = BlockTridiagonal.factorise(blocks.copy(), lower, upper).solve(rhs.copy())
    np.testing.assert_allclose(x.reshape(samples, -1, r), expected, rtol=1e-9, atol=1e-9)


def test_an_equation_that_is_singular_on_part_of_the_domain_loses_no_digits():
    """−Δ − λ on m rows, with λ the first eigenvalue of the first ⌈0.8 m⌉ rows: elimination top-down divides by zero."""
    m, h = 31, 1 / 32

    def eigenvalue(nodes):
        return 4 / h**2 * np.sin(np.pi / (2 * (nodes + 1))) ** 2

    shift = eigenvalue(25) + eigenvalue(m)
    stencil = np.diag(np.full(m, 4 / h**2 - shift)) - (np.eye(m, k=1) + np.eye(m, k=-1)) / h**2
    coupling = {(0, 0): np.full((1, m, m), -1 / h**2)}
    blocks = np.repeat(stencil[None, None], m, axis=1)
    matrix = dense(blocks[0], *({(0, 0): coupling[0, 0][0]} for _ in range(2)))
    assert abs(np.linalg.eigvalsh(matrix[: 25 * m, : 25 * m])).min() < 1e-10
    expected = np.random.default_rng(0).standard_normal((m * m, 1))
    rhs = (matrix @ expected).reshape(1, m, m, 1)
    x = BlockTridiagonal.factorise(blocks, coupling, coupling).solve(rhs)
    np.testing.assert_allclose(x.reshape(-1, 1), expected, rtol=0, atol=1e-11)


def test_a_singular_matrix_is_refused():
    with pytest.raises(SolveError, match="singular"):
        BlockTridiagonal.factorise(np.zeros((1, 1, 2, 2)), {}, {})
