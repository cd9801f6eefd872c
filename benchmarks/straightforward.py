"""The straightforward version of each problem, to measure against: one sample, one direction, one solve at a time.

LABEL[name](problem, a, u, v) is the tangent of one sample along one direction, SOLVE[name](problem, a) the response of
one sample. Both start from nothing but the constants: sparse matrices are assembled and factorised each time, and a
label of a problem in time marches the state again, because the stored response is coarser than the time steps.
"""

import numpy as np
import scipy.sparse as sp
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import solve_banded
from scipy.sparse.linalg import splu


def differences(n: int):
    """Δₕ, and the centred differences along rows and columns, on the interior nodes with zero boundary values."""
    m, h = n - 2, 1 / (n - 1)
    second = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(m, m)) / h**2
    first = sp.diags_array([-1.0, 1.0], offsets=[-1, 1], shape=(m, m)) / (2 * h)
    one = sp.eye_array(m)
    return sp.kron(second, one) + sp.kron(one, second), sp.kron(first, one), sp.kron(one, first)


def interior(field: np.ndarray) -> np.ndarray:
    return field[..., 1:-1, 1:-1].reshape(*field.shape[:-2], -1)


def embed(values: np.ndarray, n: int) -> np.ndarray:
    return np.pad(values.reshape(*values.shape[:-1], n - 2, n - 2), [(0, 0)] * (values.ndim - 1) + [(1, 1), (1, 1)])


def slopes(field: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Centred differences of nodal values at the interior nodes, boundary values included."""
    along_rows = (field[2:, 1:-1] - field[:-2, 1:-1]) / (2 * h)
    along_columns = (field[1:-1, 2:] - field[1:-1, :-2]) / (2 * h)
    return along_rows.ravel(), along_columns.ravel()


# -- diffusion --------------------------------------------------------------------------------------------------


def diffusion_operator(problem, a):
    """−∇·(eᵃ∇) in expanded form."""
    laplacian, d1, d2 = differences(problem.n)
    a1, a2 = slopes(a, problem.h)
    return -sp.diags_array(np.exp(interior(a))) @ (laplacian + sp.diags_array(a1) @ d1 + sp.diags_array(a2) @ d2)


def diffusion_solve(problem, a):
    source = problem.source.ravel()
    u = splu(diffusion_operator(problem, a).tocsc()).solve(source)
    while True:
        residual = diffusion_operator(problem, a) @ u + u**3 - source
        if np.linalg.norm(residual) < 1e-10 * np.linalg.norm(source):
            return embed(u, problem.n)
        u -= splu((diffusion_operator(problem, a) + sp.diags_array(3 * u**2)).tocsc()).solve(residual)


def diffusion_label(problem, a, u, v):
    laplacian, d1, d2 = differences(problem.n)
    (a1, a2), (v1, v2) = slopes(a, problem.h), slopes(v, problem.h)
    state, direction = interior(u), interior(v)
    change = (
        direction * (laplacian @ state) + (a1 * direction + v1) * (d1 @ state) + (a2 * direction + v2) * (d2 @ state)
    )
    jacobian = diffusion_operator(problem, a) + sp.diags_array(3 * state**2)
    return embed(splu(jacobian.tocsc()).solve(np.exp(interior(a)) * change), problem.n)


# -- helmholtz --------------------------------------------------------------------------------------------------


def helmholtz_operator(problem, a):
    laplacian, _, _ = differences(problem.n)
    return (-laplacian - sp.diags_array(problem.kappa**2 * np.exp(2 * interior(a)))).tocsc()


def helmholtz_solve(problem, a):
    return embed(splu(helmholtz_operator(problem, a)).solve(problem.source.ravel()), problem.n)


def helmholtz_label(problem, a, u, v):
    rhs = 2 * problem.kappa**2 * np.exp(2 * interior(a)) * interior(u) * interior(v)
    return embed(splu(helmholtz_operator(problem, a)).solve(rhs), problem.n)


# -- navier_stokes ----------------------------------------------------------------------------------------------


def navier_stokes_operator(problem, y1, y2):
    """The Newton matrix of the stabilised equations at an interior velocity."""
    laplacian, d2, d1 = differences(problem.n)
    transport = -problem.mu * laplacian + sp.diags_array(y1) @ d1 + sp.diags_array(y2) @ d2
    return sp.block_array(
        [
            [transport + sp.diags_array(d1 @ y1), sp.diags_array(d2 @ y1), d1],
            [sp.diags_array(d1 @ y2), transport + sp.diags_array(d2 @ y2), d2],
            [d1, d2, -problem.alpha * problem.h**2 * laplacian],
        ],
        format="csc",
    )


def navier_stokes_solve(problem, a):
    laplacian, d2, d1 = differences(problem.n)
    force = np.concatenate([*interior(a), np.zeros((problem.n - 2) ** 2)])
    rest = np.zeros((problem.n - 2) ** 2)
    state = splu(navier_stokes_operator(problem, rest, rest)).solve(force)
    while True:
        y1, y2, p = state.reshape(3, -1)
        momentum = [
            -problem.mu * (laplacian @ y) + y1 * (d1 @ y) + y2 * (d2 @ y) + d @ p for y, d in ((y1, d1), (y2, d2))
        ]
        continuity = d1 @ y1 + d2 @ y2 - problem.alpha * problem.h**2 * (laplacian @ p)
        residual = np.concatenate([*momentum, continuity]) - force
        if np.linalg.norm(residual) < 1e-11 * np.linalg.norm(force):
            u = embed(state.reshape(3, -1), problem.n)
            u[2] -= u[2].mean()
            return u
        state = state - splu(navier_stokes_operator(problem, y1, y2)).solve(residual)


def navier_stokes_label(problem, a, u, v):
    rhs = np.concatenate([*interior(v), np.zeros((problem.n - 2) ** 2)])
    tangent = splu(navier_stokes_operator(problem, *interior(u[:2]))).solve(rhs)
    return embed(tangent.reshape(3, -1)[:2], problem.n)


# -- burgers, implicit scheme -----------------------------------------------------------------------------------


def burgers_bands(problem, u):
    """A + τ N'(u) at the interior nodes, in the diagonal ordered form of scipy."""
    tau, h = problem.tau, problem.h
    walls = np.concatenate([[0.0], u, [0.0]])
    diffusion, advection = tau * problem.viscosity / h**2, tau * u / (2 * h)
    bands = np.zeros((3, len(u)))
    bands[0, 1:] = (-diffusion + advection)[:-1]
    bands[1] = 1 + 2 * diffusion + tau * (walls[2:] - walls[:-2]) / (2 * h)
    bands[2, :-1] = (-diffusion - advection)[1:]
    return bands


def burgers_step(problem, u, force):
    """u' with A u' + τ u' ∂ₓu' = u + τ f, by Newton."""
    tau, h = problem.tau, problem.h
    known = u + tau * force
    while True:
        walls = np.concatenate([[0.0], u, [0.0]])
        diffused = u - tau * problem.viscosity * (walls[2:] - 2 * u + walls[:-2]) / h**2
        residual = diffused + tau * u * (walls[2:] - walls[:-2]) / (2 * h) - known
        update = solve_banded((1, 1), burgers_bands(problem, u), residual)
        u = u - update
        if np.abs(update).max() < 1e-8 * (1 + np.abs(u).max()):
            return u


def burgers_on_network(problem, trajectory):
    """Bilinear interpolation of [times, interior nodes] to the network's grid."""
    x, t = problem.layout.coordinates
    nodes = np.linspace(0, 1, problem.solver_nx + 2), np.linspace(0, 1, problem.solver_nt + 1)
    interpolator = RegularGridInterpolator(nodes, np.pad(np.array(trajectory), ((0, 0), (1, 1))).T)
    return interpolator(np.stack(np.meshgrid(x, t, indexing="ij"), axis=-1))


def burgers_solve(problem, a):
    trajectory = [np.zeros(problem.solver_nx)]
    for n in range(problem.solver_nt):
        trajectory.append(burgers_step(problem, trajectory[-1], a[n]))
    return burgers_on_network(problem, trajectory)


def burgers_label(problem, a, u, v):
    """(A + τ N'(u')) w' = w + τ v"""
    state, trajectory = np.zeros(problem.solver_nx), [np.zeros(problem.solver_nx)]
    for n in range(problem.solver_nt):
        state = burgers_step(problem, state, a[n])
        known = trajectory[-1] + problem.tau * v[n]
        trajectory.append(solve_banded((1, 1), burgers_bands(problem, state), known))
    return burgers_on_network(problem, trajectory)


# -- allen_cahn -------------------------------------------------------------------------------------------------


def allen_cahn_label(problem, a, u, v):
    """State and tangent, each advanced by ŵ' = (ŵ + δ FFT((1 − 3u²) w)) / (1 + δ ε² k²)."""
    k = 2 * np.pi * np.fft.fftfreq(problem.nx, 1 / problem.nx)
    step = problem.frame_step / problem.steps_per_frame
    damping = 1 / (1 + step * problem.eps**2 * k**2)
    state, w = a, v
    state_hat, w_hat, frames = np.fft.fft(state), np.fft.fft(w), [v]
    for _ in range(problem.nt - 1):
        for _ in range(problem.steps_per_frame):
            w_hat = (w_hat + step * np.fft.fft((1 - 3 * state**2) * w)) * damping
            state_hat = (state_hat + step * np.fft.fft(state - state**3)) * damping
            w, state = np.fft.ifft(w_hat).real, np.fft.ifft(state_hat).real
        frames.append(w)
    return np.array(frames)


def allen_cahn_solve(problem, a):
    k = 2 * np.pi * np.fft.fftfreq(problem.nx, 1 / problem.nx)
    step = problem.frame_step / problem.steps_per_frame
    damping = 1 / (1 + step * problem.eps**2 * k**2)
    state, state_hat, frames = a, np.fft.fft(a), [a]
    for _ in range(problem.nt - 1):
        for _ in range(problem.steps_per_frame):
            state_hat = (state_hat + step * np.fft.fft(state - state**3)) * damping
            state = np.fft.ifft(state_hat).real
        frames.append(state)
    return np.array(frames)


SOLVE = {
    "diffusion": diffusion_solve,
    "helmholtz": helmholtz_solve,
    "navier_stokes": navier_stokes_solve,
    "burgers": burgers_solve,
    "allen_cahn": allen_cahn_solve,
}
LABEL = {
    "diffusion": diffusion_label,
    "helmholtz": helmholtz_label,
    "navier_stokes": navier_stokes_label,
    "burgers": burgers_label,
    "allen_cahn": allen_cahn_label,
}
