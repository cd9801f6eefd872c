"""A w + B v as the paper writes it, one function per problem, with matrices instead of the package's stencils.

Each takes (problem, u, a, w, v), single numpy fields on the network's grid, and returns the blocks of the residual's
derivative in the residual's order.
"""

import numpy as np


class Square:
    """Centred differences of nodal fields [n, n] at the interior nodes, as matrices acting on rows and columns."""

    def __init__(self, n: int) -> None:
        h = 1 / (n - 1)
        self.take = np.eye(n)[1:-1]
        self.first = (np.eye(n)[2:] - np.eye(n)[:-2]) / (2 * h)
        self.second = (np.eye(n)[2:] - 2 * np.eye(n)[1:-1] + np.eye(n)[:-2]) / h**2
        self.mask = np.pad(np.ones((n - 2, n - 2)), 1)  # fields that vanish on the boundary

    def inner(self, f):
        return self.take @ f @ self.take.T

    def along_rows(self, f):
        return self.first @ f @ self.take.T

    def along_columns(self, f):
        return self.take @ f @ self.first.T

    def laplacian(self, f):
        return self.second @ f @ self.take.T + self.take @ f @ self.second.T


def diffusion(problem, u, a, w, v):
    """−eᵃ(Δw + ∇a·∇w) + 3u²w − eᵃ[v Δu + (v∇a + ∇v)·∇u]"""
    d = Square(problem.n)
    u, w = d.mask * u, d.mask * w
    gradients = [(d.along_rows(f), d.along_columns(f)) for f in (u, a, w, v)]
    state = d.laplacian(w) + sum(ai * wi for _, ai, wi, _ in zip(*gradients, strict=True))
    source = d.inner(v) * d.laplacian(u)
    source = source + sum((d.inner(v) * ai + vi) * ui for ui, ai, _, vi in zip(*gradients, strict=True))
    return (-np.exp(d.inner(a)) * (state + source) + 3 * d.inner(u) ** 2 * d.inner(w),)


def helmholtz(problem, u, a, w, v):
    """(−Δ − κ²e²ᵃ) w − 2κ²e²ᵃ u v"""
    d = Square(problem.n)
    potential = problem.kappa**2 * np.exp(2 * d.inner(a))
    u, w = d.mask * u, d.mask * w
    return (-d.laplacian(w) - potential * d.inner(w) - 2 * potential * d.inner(u) * d.inner(v),)


def navier_stokes(problem, u, a, w, v):
    """−µΔw + (y·∇)w + (w·∇)y + ∇π − s;  ∇·w;  w on the boundary"""
    d = Square(problem.n)
    d1, d2 = d.along_columns, d.along_rows
    (y, _), (pressure, w) = (u[:2], u[2]), (w[2], w[:2])
    momentum = [
        -problem.mu * d.laplacian(w[c])
        + d.inner(y[0]) * d1(w[c])
        + d.inner(y[1]) * d2(w[c])
        + d.inner(w[0]) * d1(y[c])
        + d.inner(w[1]) * d2(y[c])
        + (d1, d2)[c](pressure)
        - d.inner(v[c])
        for c in (0, 1)
    ]
    boundary = [w[:, 0], w[:, -1], w[:, 1:-1, 0], w[:, 1:-1, -1]]
    return np.stack(momentum), d1(w[0]) + d2(w[1]), np.concatenate([part.ravel() for part in boundary])
