"""Six problems as users bring them: residuals of other kinds than the paper's, data, and models that are not ours.

Each is small: a solve takes milliseconds, an epoch of 64 samples a fraction of a second. Inputs and responses are
float32, as data are. The solvers use the residual's own discretisation in float64, or march with it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jacfwd, vmap
from torch.nn.functional import interpolate, max_pool2d, pad

import stcl

Residual = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class UserProblem:
    """F(u, a) = 0 with data, and a model to learn a ↦ u."""

    residual: Residual
    inputs: Callable[[int, int], Tensor]  # count, seed
    solve: Callable[[Tensor], Tensor]  # responses in the dtype of the inputs
    model: Callable[[], nn.Module]  # takes and gives what `data` has, batch first
    options: dict[str, Any] = field(default_factory=dict)  # of stcl.Equation

    def data(self, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        a = self.inputs(count, seed)
        return a, self.solve(a)

    def equation(self, count: int = 8, **options: Any) -> stcl.Equation:
        return stcl.Equation(self.residual, *self.data(count), **self.options, **options)


def normals(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def waves(n: int, count: int) -> Tensor:
    """cos(kπx) for k = 0, 1, … at n nodes, [count, n]."""
    return torch.cos(math.pi * torch.arange(count)[:, None] * torch.linspace(0, 1, n))


def newton(function: Callable[..., Tensor], x: Tensor, *parameters: Tensor, steps: int = 10) -> Tensor:
    """x [B, m] with function(x[i], *parameters[i]) = 0, by Newton's method with dense matrices, in float64."""
    dtype, x = x.dtype, x.double()
    parameters = tuple(p.double() for p in parameters)
    for _ in range(steps):
        x = x - torch.linalg.solve(vmap(jacfwd(function))(x, *parameters), vmap(function)(x, *parameters))
    return x.to(dtype)


# -- 2-D advection-diffusion-reaction, velocity ↦ concentration ---------------------------------------------------

VISCOSITY = 0.05


def advection_diffusion_reaction(n: int = 13) -> UserProblem:
    """−ε Δu + b·∇u + u³ = 1 on the unit square, u = 0 on its boundary; a = b [2, n, n], u [1, n, n]."""
    h = 1 / (n - 1)

    def residual(u: Tensor, a: Tensor) -> Tensor:
        inside = u[..., 1:-1, 1:-1]
        east, west, north, south = u[..., 1:-1, 2:], u[..., 1:-1, :-2], u[..., 2:, 1:-1], u[..., :-2, 1:-1]
        laplacian = (east + west + north + south - 4 * inside) / h**2
        b = a[..., 1:-1, 1:-1]
        transport = (b[:, :1] * (east - west) + b[:, 1:] * (north - south)) / (2 * h)
        return -VISCOSITY * laplacian + transport + inside**3 - 1

    def inputs(count: int, seed: int) -> Tensor:
        k = torch.arange(4)
        noise = normals(seed, count, 2, 4, 4) / (1 + k[:, None] ** 2 + k**2)
        return 2 * waves(n, 4).T @ noise @ waves(n, 4)

    def solve(a: Tensor) -> Tensor:
        m = n - 2

        def at_inside(x: Tensor, a: Tensor) -> Tensor:
            return residual(pad(x.reshape(1, 1, m, m), (1, 1, 1, 1)), a[None]).flatten()

        return pad(newton(at_inside, a.new_ones(len(a), m * m), a, steps=7).reshape(-1, 1, m, m), (1, 1, 1, 1))

    return UserProblem(residual, inputs, solve, UNet)


class UNet(nn.Module):
    """Two scales, with one connection across."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))
        self.low = nn.Sequential(
            nn.GELU(), nn.Conv2d(width, 2 * width, 5, padding=2), nn.GELU(), nn.Conv2d(2 * width, width, 5, padding=2)
        )
        self.up = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, a: Tensor) -> Tensor:
        fine = self.down(a)
        coarse = self.low(max_pool2d(fine, 4))
        return self.up(torch.cat([fine, interpolate(coarse, fine.shape[-2:], mode="bilinear", align_corners=True)], 1))


# -- Fisher-KPP, growth rate ↦ u(t, x) -----------------------------------------------------------------------------


def fisher_kpp(nt: int = 17, nx: int = 24, diffusion: float = 0.01, last: float = 2.0) -> UserProblem:
    """u_t = D u_xx + r(x) u (1 − u) on a periodic interval from one bump; a = r [nx], u [nt, nx], implicit Euler."""
    h, tau = 1 / nx, last / (nt - 1)
    start = 0.5 * torch.exp(-50 * (torch.arange(nx) / nx - 0.5) ** 2)

    def step(u: Tensor, before: Tensor, r: Tensor) -> Tensor:
        bend = (u.roll(1, -1) - 2 * u + u.roll(-1, -1)) / h**2
        return (u - before) / tau - diffusion * bend - r * u * (1 - u)

    def residual(u: Tensor, a: Tensor) -> Tensor:
        return step(u[:, 1:], u[:, :-1], a[:, None])

    def inputs(count: int, seed: int) -> Tensor:
        x = 2 * math.pi * torch.arange(nx) / nx
        k = torch.arange(1, 4)[:, None]
        basis = torch.cat([torch.cos(k * x), torch.sin(k * x)])
        return 2 + (normals(seed, count, 6) / (1 + torch.cat([k, k])[:, 0])) @ basis

    def solve(a: Tensor) -> Tensor:
        frames = [start.to(a).expand(len(a), nx)]
        for _ in range(nt - 1):
            frames.append(newton(step, frames[-1], frames[-1], a, steps=6))
        return torch.stack(frames, 1)

    return UserProblem(residual, inputs, solve, lambda: Transformer(nt, nx), {"time_axis": 0, "lengths": (last, 1.0)})


class Transformer(nn.Module):
    """Nodes are tokens; each says its values at all times."""

    def __init__(self, nt: int, nx: int, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        x = 2 * math.pi * torch.arange(nx) / nx
        self.register_buffer("places", torch.stack([f(k * x) for k in (1, 2) for f in (torch.cos, torch.sin)], -1))
        self.enter, self.leave = nn.Linear(5, width), nn.Linear(width, nt)
        self.layers = nn.ModuleList(AttentionLayer(width, heads) for _ in range(layers))

    def forward(self, a: Tensor) -> Tensor:
        x = self.enter(torch.cat([a[..., None], self.places.expand(len(a), -1, -1)], -1))
        for layer in self.layers:
            x = layer(x)
        return self.leave(x).transpose(1, 2)


class AttentionLayer(nn.Module):
    """Attention written out: torch's fused kernels have no forward mode."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + self.join((weights @ v).transpose(1, 2).flatten(-2))
        return x + self.feed(self.norms[1](x))


# -- three numbers ↦ a field ---------------------------------------------------------------------------------------


def three_scalars(n: int = 33) -> UserProblem:
    """−e^p u'' + 10 q u' + e^s u = 10 sin πx on (0, 1), u = 0 at both ends; a = (p, q, s), u [n]."""
    h = 1 / (n - 1)
    source = 10 * torch.sin(math.pi * torch.linspace(0, 1, n, dtype=torch.float64))[1:-1]

    def residual(u: Tensor, a: Tensor) -> Tensor:
        p, q, s = a[:, :1], a[:, 1:2], a[:, 2:]
        bend, slope = (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) / h**2, (u[:, 2:] - u[:, :-2]) / (2 * h)
        return -p.exp() * bend + 10 * q * slope + s.exp() * u[:, 1:-1] - source.to(u)

    def solve(a: Tensor) -> Tensor:
        inside = newton(lambda x, a: residual(pad(x, (1, 1))[None], a[None])[0], a.new_zeros(len(a), n - 2), a, steps=1)
        return pad(inside, (1, 1))

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n))

    return UserProblem(residual, lambda count, seed: normals(seed, count, 3), solve, model)


# -- steady FitzHugh-Nagumo, current ↦ two fields ------------------------------------------------------------------


def fitzhugh_nagumo(n: int = 33) -> UserProblem:
    """−0.1 y'' + y³ − y + z = a,  −0.02 z'' + z − 2y = 0,  y = z = 0 at both ends; a [1, n], u = (y, z) [2, n]."""
    h = 1 / (n - 1)

    def residual(u: Tensor, a: Tensor) -> Tensor:
        (y, z), (bend_y, bend_z) = (
            x.unbind(1) for x in (u[..., 1:-1], (u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2]) / h**2)
        )
        return torch.stack([-0.1 * bend_y + y**3 - y + z - a[:, 0, 1:-1], -0.02 * bend_z + z - 2 * y], 1)

    def inputs(count: int, seed: int) -> Tensor:
        return (4 * (normals(seed, count, 6) / (1 + torch.arange(6))) @ waves(n, 6)).unsqueeze(1)

    def solve(a: Tensor) -> Tensor:
        def at_inside(x: Tensor, a: Tensor) -> Tensor:
            return residual(pad(x.reshape(1, 2, n - 2), (1, 1)), a[None]).flatten()

        return pad(newton(at_inside, a.new_zeros(len(a), 2 * (n - 2)), a, steps=12).reshape(-1, 2, n - 2), (1, 1))

    def model() -> nn.Module:
        layers = [nn.Conv1d(1, 24, 9, padding=4), nn.GELU()]
        for _ in range(3):
            layers += [nn.Conv1d(24, 24, 9, padding=4), nn.GELU()]
        return nn.Sequential(*layers, nn.Conv1d(24, 2, 1))

    return UserProblem(residual, inputs, solve, model)


# -- damped Helmholtz, medium ↦ real and imaginary part ------------------------------------------------------------


def damped_helmholtz(n: int = 41, wave_number: float = 12.0, damping: float = 0.15) -> UserProblem:
    """−u'' − κ²(1 + a) u − iκ²γ u = κ² e^{−50(x−0.3)²}, u = 0 at both ends; a [n], u = (re, im) [2, n]."""
    h = 1 / (n - 1)
    x = torch.linspace(0, 1, n, dtype=torch.float64)
    source = wave_number**2 * torch.exp(-50 * (x - 0.3) ** 2)[1:-1]

    def residual(u: Tensor, a: Tensor) -> Tensor:
        inside = u[..., 1:-1]
        waves = -(u[..., 2:] - 2 * inside + u[..., :-2]) / h**2 - wave_number**2 * (1 + a[:, None, 1:-1]) * inside
        turned = torch.stack([inside[:, 1], -inside[:, 0]], 1)  # −i u as (re, im)
        forced = torch.stack([source, torch.zeros_like(source)]).to(u)
        return waves + wave_number**2 * damping * turned - forced

    def inputs(count: int, seed: int) -> Tensor:
        return 0.3 * (normals(seed, count, 5) / (1 + torch.arange(5))) @ waves_of_medium

    waves_of_medium = waves(n, 5)

    def solve(a: Tensor) -> Tensor:
        def at_inside(x: Tensor, a: Tensor) -> Tensor:
            return residual(pad(x.reshape(1, 2, n - 2), (1, 1)), a[None]).flatten()

        return pad(newton(at_inside, a.new_zeros(len(a), 2 * (n - 2)), a, steps=1).reshape(-1, 2, n - 2), (1, 1))

    def model() -> nn.Module:
        layers = [nn.Linear(n, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 2 * n)]
        return nn.Sequential(*layers, nn.Unflatten(1, (2, n)))

    return UserProblem(residual, inputs, solve, model)


# -- heat with a conductivity that depends on the temperature, initial state ↦ u(t, x) -----------------------------


def nonlinear_heat(nt: int = 13, nx: int = 25, last: float = 0.5) -> UserProblem:
    """u_t = ((0.1 + 0.2 u²) u_x)_x, no flux through the ends, u = a at t = 0; a [nx], u [nt, nx], implicit Euler."""
    h, tau = 1 / (nx - 1), last / (nt - 1)

    def step(u: Tensor, before: Tensor) -> Tensor:
        middle = (u[..., 1:] + u[..., :-1]) / 2
        flux = pad((0.1 + 0.2 * middle**2) * (u[..., 1:] - u[..., :-1]) / h, (1, 1))
        # The first and the last node have half a cell each.
        width = torch.ones(nx, dtype=u.dtype, device=u.device)
        width[0] = width[-1] = 0.5
        return (u - before) / tau - (flux[..., 1:] - flux[..., :-1]) / (h * width)

    def residual(u: Tensor, a: Tensor) -> Tensor:
        frames = torch.cat([a[:, None], u[:, 1:]], 1)
        return step(frames[:, 1:], frames[:, :-1])

    def inputs(count: int, seed: int) -> Tensor:
        return (normals(seed, count, 5) / (1 + torch.arange(5))) @ waves(nx, 5)

    def solve(a: Tensor) -> Tensor:
        frames = [a]
        for _ in range(nt - 1):
            frames.append(newton(step, frames[-1], frames[-1], steps=6))
        return torch.stack(frames, 1)

    return UserProblem(residual, inputs, solve, lambda: DeepONet(nt, nx), {"time_axis": 0, "lengths": (last, 1.0)})


class DeepONet(nn.Module):
    """u(t, x) = a(x) + Σ_k branch_k(a) trunk_k(t, x), with a trunk that vanishes at t = 0."""

    def __init__(self, nt: int, nx: int, rank: int = 32) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(nx, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, rank))
        self.trunk = nn.Sequential(nn.Linear(6, 64), nn.GELU(), nn.Linear(64, rank))
        t, x = torch.meshgrid(torch.linspace(0, 1, nt), torch.linspace(0, 1, nx), indexing="ij")
        self.register_buffer("places", torch.stack([t, *(torch.cos(math.pi * k * x) for k in range(1, 6))], -1))

    def forward(self, a: Tensor) -> Tensor:
        trunk = self.places[..., :1] * self.trunk(self.places)
        return a[:, None] + torch.einsum("bk,txk->btx", self.branch(a), trunk)


PROBLEMS: dict[str, Callable[[], UserProblem]] = {
    "advection_diffusion_reaction": advection_diffusion_reaction,
    "fisher_kpp": fisher_kpp,
    "three_scalars": three_scalars,
    "fitzhugh_nagumo": fitzhugh_nagumo,
    "damped_helmholtz": damped_helmholtz,
    "nonlinear_heat": nonlinear_heat,
}
