"""The straightforward version of the two parabolic problems: one sample, one direction, one time march after another.

The same functions as in straightforward.py, for the problems that march in time. A label marches the state again,
because the stored response is coarser than the time steps, and the tangent beside it.
"""

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import solve_banded

# -- Burgers, implicit scheme -----------------------------------------------------------------------------------


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


# -- Allen-Cahn -------------------------------------------------------------------------------------------------


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


SOLVE = {"burgers": burgers_solve, "allen_cahn": allen_cahn_solve}
LABEL = {"burgers": burgers_label, "allen_cahn": allen_cahn_label}
