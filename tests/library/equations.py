"""Equations as someone else would write them: residual functions, and states to probe them at."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import stcl
from stcl import problems

OPTIONS = {
    "diffusion": {"n": 17},
    "helmholtz": {"n": 17},
    "burgers": {"nx": 12, "nt": 14, "solver_nx": 24, "solver_nt": 28, "probe_nt": 28},
    "allen_cahn": {"nx": 16, "nt": 12, "time_step": 0.02},
    "navier_stokes": {"n": 12},
}


def laplacian(u: Tensor, h: float) -> Tensor:
    neighbours = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2]
    return (neighbours - 4 * u[..., 1:-1, 1:-1]) / h**2


def smooth(count: int, *shape: int, seed: int = 0) -> Tensor:
    """Random fields with few waves, float64."""
    rng = np.random.default_rng(seed)
    fields = torch.zeros(count, *shape, dtype=torch.float64)
    nodes = torch.meshgrid(*[torch.linspace(0, 1, n, dtype=torch.float64) for n in shape], indexing="ij")
    for _ in range(6):
        phase = sum(torch.as_tensor(rng.uniform(0, 6, (count, *[1] * len(shape)))) * x for x in nodes)
        fields = fields + torch.as_tensor(rng.standard_normal((count, *[1] * len(shape)))) * torch.sin(phase)
    return fields


def walled(count: int, *shape: int, axes: int) -> Tensor:
    """Random fields that vanish at the ends of their last axes."""
    inner = smooth(count, *shape[: len(shape) - axes], *(n - 2 for n in shape[len(shape) - axes :]), seed=1)
    return torch.nn.functional.pad(inner, (1, 1) * axes)


def benchmark(name: str) -> stcl.Equation:
    """One of the paper's, known by its residual alone."""
    problem = problems.load(name, **OPTIONS[name])
    a, u = problem.states(4)
    axes = problem.layout.axes
    time_axis = axes.index("t") if "t" in axes else None
    return stcl.Equation(
        problem.residual, a, u, time_axis=time_axis, axes=axes, lengths=problem.layout.lengths, check=name != "burgers"
    )


def poisson(n: int = 17, sign: float = 1.0) -> stcl.Equation:
    """−Δu = a on the unit square, u = 0 on the boundary; as a network with a channel axis would see it."""
    h = 1 / (n - 1)

    def residual(u: Tensor, a: Tensor) -> Tensor:
        return sign * (-laplacian(u, h) - a[..., 1:-1, 1:-1])

    return stcl.Equation(residual, smooth(4, 1, n, n), walled(4, 1, n, n, axes=2), check=False)


def advection(nt: int = 16, nx: int = 24) -> stcl.Equation:
    """u_t + u_x = 0 on a periodic interval, u = a at t = 0; upwind in space, [t, x]."""

    def residual(u: Tensor, a: Tensor) -> Tensor:
        u = torch.cat([a[:, None], u[:, 1:]], 1)
        return (u[:, 1:] - u[:, :-1]) * (nt - 1) + (u - u.roll(1, -1))[:, 1:] * nx

    return stcl.Equation(residual, smooth(4, nx), smooth(4, nt, nx, seed=1), time_axis=0, check=False)


def steady_advection(n: int = 24) -> stcl.Equation:
    """u_x + u/2 = a on a periodic interval, centred."""

    def residual(u: Tensor, a: Tensor) -> Tensor:
        return (u.roll(-1, -1) - u.roll(1, -1)) * n / 2 + u / 2 - a

    return stcl.Equation(residual, smooth(4, n), smooth(4, n, seed=1), check=False)


class StokesResidual(NamedTuple):
    momentum: Tensor
    divergence: Tensor
    boundary: Tensor


def stokes(n: int = 12, axes: tuple[str, str] = ("x1", "x2"), viscosity: float = 0.3) -> stcl.Equation:
    """−µΔy + ∇p = a, ∇·y = 0, y = 0 on the boundary; u = (y1, y2, p), with y1 along the axis called x1."""
    h = 1 / (n - 1)

    def difference(f: Tensor, axis: str) -> Tensor:
        if axis == axes[0]:
            return (f[..., 2:, 1:-1] - f[..., :-2, 1:-1]) / (2 * h)
        return (f[..., 1:-1, 2:] - f[..., 1:-1, :-2]) / (2 * h)

    def residual(u: Tensor, a: Tensor) -> StokesResidual:
        y, p = u[:, :2], u[:, 2]
        gradient = torch.stack([difference(p, "x1"), difference(p, "x2")], 1)
        ends = [y[..., 0, :], y[..., -1, :], y[..., :, 0], y[..., :, -1]]
        return StokesResidual(
            -viscosity * laplacian(y, h) + gradient - a[..., 1:-1, 1:-1],
            difference(y[:, 0], "x1") + difference(y[:, 1], "x2"),
            torch.cat([end.flatten(1) for end in ends], 1),
        )

    return stcl.Equation(residual, smooth(4, 2, n, n), smooth(4, 3, n, n, seed=1), axes=axes, check=False)
