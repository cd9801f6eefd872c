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


def burgers(problem, u, a, w, v):
    """w_t + u w_x + w u_x − ν w_xx − v, at interior nodes and later frames; the last frame's w_t is backward"""
    nx, nt = problem.nx, problem.nt
    dx, dt = 1 / (nx - 1), 1 / (nt - 1)
    inner, later = np.eye(nx)[1:-1], np.eye(nt)[1:]
    d_x = (np.eye(nx)[2:] - np.eye(nx)[:-2]) / (2 * dx)
    d_xx = (np.eye(nx)[2:] - 2 * np.eye(nx)[1:-1] + np.eye(nx)[:-2]) / dx**2
    d_t = np.vstack([(np.eye(nt)[2:] - np.eye(nt)[:-2]) / (2 * dt), (np.eye(nt)[-1:] - np.eye(nt)[-2:-1]) / dt])
    transport = (inner @ u) * (d_x @ w) + (inner @ w) * (d_x @ u) - problem.viscosity * d_xx @ w
    return (inner @ w @ d_t.T + transport @ later.T - later @ v,)


def allen_cahn(problem, u, a, w, v):
    """w_t − ε² w_xx − (1 − 3u²) w at later frames, where w starts from v; the last frame's w_t is backward"""
    nx, nt, h = problem.nx, problem.nt, problem.final_time / (problem.nt - 1)
    d_t = np.vstack([(np.eye(nt)[2:] - np.eye(nt)[:-2]) / (2 * h), np.zeros(nt)])
    d_t[-1, -3:] = np.array([1, -4, 3]) / (2 * h)
    k = 2 * np.pi * np.fft.fftfreq(nx, 1 / nx)
    w = np.vstack([v, w[1:]])
    w_xx = np.fft.ifft(-(k**2) * np.fft.fft(w)).real
    return (d_t @ w - (problem.eps**2 * w_xx + (1 - 3 * u**2) * w)[1:],)
