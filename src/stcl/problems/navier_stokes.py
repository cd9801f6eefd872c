"""The steady incompressible Navier-Stokes equations, the saddle-point benchmark."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stcl.core.arrays import check_fields, like, norms, unit_norm
from stcl.core.layout import Layout
from stcl.problems._block_tridiagonal import BlockTridiagonal
from stcl.problems._square import COMPLEX_STEP, OnSquare, boundary, centred, embed, inner, laplacian
from stcl.problems._torch_normals import torch_normals
from stcl.problems.base import SolveError, Split, Stream

if TYPE_CHECKING:
    import torch

INPUT_SEED = {"train": 1, "val": 2, "test": 3}
PUBLISHED_SIZE = {"train": 2048, "val": 128, "test": 128}
DIRECTION_SEED = {"train": 12_345, "val": 112_345, "test": 212_345}
SKETCH_SEED = 2028  # this seed is not published, because the paper draws sketches on the training device

AMPLITUDE = (16.0, 24.0)  # range of the forcings' largest component
AMPLITUDE_NODES = 64  # nodes per side of the published grid, on which that component is measured whatever n is

NEWTON_TOLERANCE = 1e-11  # largest residual of a solution, relative to the forcing
NEWTON_STEPS = 40  # largest number of steps


class NavierStokesResidual(NamedTuple):
    """The blocks of F((y, p), u), which the loss weights apart. m = n - 2 interior nodes per side."""

    momentum: "torch.Tensor"  # −µΔₕy + (y·∇ₕ)y + ∇ₕp − u, [..., 2, m, m]
    divergence: "torch.Tensor"  # ∇ₕ·y, [..., m, m]
    boundary: "torch.Tensor"  # y at the boundary nodes, [..., 8(n-1)]


@dataclass(frozen=True)
class NavierStokes(OnSquare):
    """−µΔy + (y·∇)y + ∇p = u,  ∇·y = 0  on (0,1)²,  y = 0 on the boundary,  ∫p = 0.

    input     u = (u1, u2)      forcing at the n×n nodes, [2, n, n]: curl of a random stream function
    response  (y1, y2, p)       velocity and pressure at the n×n nodes, [3, n, n]
    tangent   w                 velocity part of  −µΔw + (y·∇)w + (w·∇)y + ∇π = s,  ∇·w = 0,  w = 0 on the boundary

    Array rows are x2 and columns are x1. Differences are centred at the interior nodes. The reference solver stabilises
    the continuity row, ∇ₕ·y − αh²Δₕp = 0, and takes p = 0 on the boundary. Stored pressures have zero mean over the
    nodes. The residual of the loss, a NavierStokesResidual of three blocks, has the plain divergence instead.
    """

    n: int = 64  # nodes per side, boundary included
    mu: float = 0.1  # viscosity
    alpha: float = 1e-3  # pressure stabilisation
    modes: int = 6  # stream-function modes per axis

    tangent_class = "saddle"
    tangent_tolerance = 1e-8

    def __post_init__(self) -> None:
        if self.n < 5:
            raise ValueError(f"navier_stokes needs n >= 5 nodes per side, got {self.n}")
        if not 0 < self.mu < np.inf:
            raise ValueError(f"the viscosity mu must be positive and finite, got {self.mu}")
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"the pressure stabilisation alpha must be positive and finite, got {self.alpha}")
        if self.modes < 1:
            raise ValueError(f"the prior needs modes >= 1, got {self.modes}")

    @property
    def viscosity(self) -> float:
        return self.mu

    @cached_property
    def layout(self) -> Layout:
        return Layout(
            axes=("x2", "x1"),
            coordinates=(self.nodes, self.nodes),
            lengths=(1.0, 1.0),
            inputs=("u1", "u2"),
            responses=("y1", "y2", "p"),
            channels=("x1", "x2", "u1", "u2"),
            input_axes=("x2", "x1"),
            scored=("y1", "y2"),
        )

    # -- prior ------------------------------------------------------------------------------------------------

    @cached_property
    def _prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _curl_tables(self.modes, self.nodes)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (self.modes, self.modes)

    def inputs(self, count: int, split: Split) -> np.ndarray:
        """Forcings whose largest component on the published grid is uniform in AMPLITUDE.

        The amplitudes of a published split follow all its normals, so a whole split is always drawn. Beyond its size
        the same stream goes on with the normals and then the amplitude of each sample.
        """
        published = PUBLISHED_SIZE[split]
        rng = np.random.RandomState(INPUT_SEED[split])  # the published draw is numpy's legacy stream
        noise = rng.randn(published, *self.noise_shape)
        amplitude = rng.uniform(*AMPLITUDE, published)
        further = [(rng.randn(*self.noise_shape), rng.uniform(*AMPLITUDE)) for _ in range(published, count)]
        if further:
            noise = np.concatenate([noise, np.stack([xi for xi, _ in further])])
            amplitude = np.concatenate([amplitude, [size for _, size in further]])
        return self._scaled(noise[:count], amplitude[:count])

    @property
    def input_noise_shape(self) -> tuple[int, ...]:
        return (self.modes**2 + 1,)  # the stream function's, then one whose quantile gives the amplitude

    def input(self, noise):
        low, high = AMPLITUDE
        return self._scaled(self._of_stream_function(noise), low + (high - low) * _normal_cdf(noise[..., -1]))

    def whitened(self, noise):
        """The forcing of a Gaussian stream function of the inputs' mean square. The last normal has no use."""
        return self._mean_scale * _curls(self._of_stream_function(noise), self._prior)

    def _of_stream_function(self, noise):
        return noise[..., :-1].reshape(*noise.shape[:-1], self.modes, self.modes)

    def _scaled(self, noise, amplitude):
        """Forcings with these largest components on the published grid."""
        return (amplitude / self._largest(noise))[..., None, None, None] * _curls(noise, self._prior)

    def _largest(self, noise):
        size = abs(_curls(noise, self._amplitude_tables))
        size = size.reshape(*size.shape[:-3], -1)
        return size.max(-1) if isinstance(size, np.ndarray) else size.amax(-1)

    @cached_property
    def _amplitude_tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _curl_tables(self.modes, np.linspace(0.0, 1.0, AMPLITUDE_NODES))

    @cached_property
    def _mean_scale(self) -> float:
        """The factor that makes the curls of a few published stream functions as large, in mean square, as inputs."""
        noise = np.random.RandomState(INPUT_SEED["train"]).randn(256, *self.noise_shape)
        inputs = self._scaled(noise, np.full(len(noise), sum(AMPLITUDE) / 2))
        return float(np.linalg.norm(inputs) / np.linalg.norm(_curls(noise, self._prior)))

    def direction(self, noise):
        return unit_norm(_curls(noise, self._prior), axes=3)

    def directions(self, count: int, stream: Stream) -> np.ndarray:
        if stream == "sketch":
            noise = np.random.default_rng(SKETCH_SEED).standard_normal((count, *self.noise_shape))
        else:
            noise = torch_normals(DIRECTION_SEED[stream], count * self.modes**2, "float32")
            noise = noise.reshape(count, *self.noise_shape)
        return self.direction(noise)

    # -- reference solver -------------------------------------------------------------------------------------

    def solve(self, a: np.ndarray) -> np.ndarray:
        """Responses by Newton's method from the solution of the Stokes problem, sample by sample.

        Factorising a Newton matrix costs as much as ten or twenty steps, so a matrix is kept as long as its steps
        reduce the residual tenfold. Most samples need only one.
        """
        check_fields("forcings u", a, (2, self.n, self.n))
        force = self._with_continuity(inner(a))
        state = self._solve_factored(self._stokes, force)
        for i in range(len(a)):
            factor, previous = None, np.inf
            for _ in range(NEWTON_STEPS):
                residual = self._residual(state[i], force[i])
                size = float(np.linalg.norm(residual))
                if size <= NEWTON_TOLERANCE * np.linalg.norm(force[i]):
                    break
                if factor is None or size > 0.1 * previous:
                    factor = self._factorise(state[i, :2])
                state[i] -= self._solve_factored(factor, residual[None])[0]
                previous = size
                self.counts["newton_steps"] += 1
            else:
                raise SolveError(
                    f"navier_stokes: Newton did not reach {NEWTON_TOLERANCE:g} in {NEWTON_STEPS} steps for sample {i} "
                    f"of this chunk; the forcing is too strong for mu = {self.mu:g} on n = {self.n} nodes"
                )
        state[:, 2] -= state[:, 2].mean(axis=(1, 2), keepdims=True)
        return state

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        check_fields("forcings u", a, (2, self.n, self.n))
        check_fields("responses (y, p)", u, (3, self.n, self.n))
        check_fields("directions s", v, (2, self.n, self.n))
        w = np.empty((len(a), len(v), 2, self.n, self.n))
        for i in range(len(a)):
            w[i] = self._full_tangents(u[i], v)[:, :2]
        return w

    def _full_tangents(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The tangents (w, π) [directions, 3, n, n] at one state (y, p), with π zero on the boundary."""
        return self._solve_factored(self._factorise(u[:2]), self._with_continuity(inner(v)))

    def tangent_defect(self, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The defect |∇ₕ×(−µΔₕw + (y·∇ₕ)w + (w·∇ₕ)y − s)| / |∇ₕ×s| of the momentum equation's curl.

        The derivative is taken by a complex step in y. Pressure tangents are not stored. The curl removes ∇ₕπ exactly,
        because centred differences along two axes commute as long as both take zero beyond the interior nodes. Boundary
        values count as the residual of µw / h³ = 0.
        """
        y = u[:, :2] + 1j * COMPLEX_STEP * w
        momentum = np.stack(_momentum(y, np.zeros_like(u[:, 2]), self.mu, self.h), axis=1).imag / COMPLEX_STEP
        wrong = norms(self._curl(momentum - inner(v)))
        return np.hypot(wrong, norms(boundary(w)) * self.mu / self.h**3) / np.linalg.norm(self._curl(inner(v)))

    def _curl(self, field: np.ndarray) -> np.ndarray:
        """The curl ∂₂f1 − ∂₁f2 at the interior nodes of a field [..., 2, m, m] that vanishes beyond them."""
        f_2, f_1 = centred(embed(field), self.h)
        return f_2[..., 0, :, :] - f_1[..., 1, :, :]

    def _with_continuity(self, force: np.ndarray) -> np.ndarray:
        """The right-hand sides (u, 0) of momentum and continuity, [r, 3, m, m]."""
        return np.concatenate([force, np.zeros_like(force[:, :1])], axis=1)

    def _residual(self, state: np.ndarray, force: np.ndarray) -> np.ndarray:
        """The residual [3, m, m] of the stabilised equations at the interior nodes, for (y, p) [3, n, n].

        `force` is (u, 0) [3, m, m].
        """
        y, p = state[:2], state[2]
        continuity = _divergence(y, self.h) - self.alpha * self.h**2 * laplacian(p, self.h)
        return np.stack([*_momentum(y, p, self.mu, self.h), continuity]) - force

    @cached_property
    def _stokes(self) -> BlockTridiagonal:
        return self._factorise(np.zeros((2, self.n, self.n)))

    def _factorise(self, y: np.ndarray) -> BlockTridiagonal:
        """The factorised Newton matrix at velocity y [2, n, n]. A block has the unknowns (y1, y2, p) of one grid row.

        momentum 1   −µΔₕ + y·∇ₕ + ∂₁y1    ∂₂y1                   ∂₁
        momentum 2   ∂₁y2                  −µΔₕ + y·∇ₕ + ∂₂y2     ∂₂
        continuity   ∂₁                    ∂₂                     −αh²Δₕ
        """
        m, h = self.n - 2, self.h
        (y1, y2), (y1_2, y1_1), (y2_2, y2_1) = inner(y), centred(y[0], h), centred(y[1], h)
        zero, slope, damping = (np.full((m, m), value) for value in (0.0, 1 / (2 * h), self.alpha))
        diffusion = self.mu / h**2
        west, east = -diffusion - y1 / (2 * h), -diffusion + y1 / (2 * h)
        south, north = -diffusion - y2 / (2 * h), -diffusion + y2 / (2 * h)
        along_row = {  # (equation, unknown): coefficients at the previous node, the node itself and the next node
            (0, 0): (west, 4 * diffusion + y1_1, east),
            (0, 1): (zero, y1_2, zero),
            (0, 2): (-slope, zero, slope),
            (1, 0): (zero, y2_1, zero),
            (1, 1): (west, 4 * diffusion + y2_2, east),
            (2, 0): (-slope, zero, slope),
            (2, 2): (-damping, 4 * damping, -damping),
        }
        lower = {(0, 0): south, (1, 1): south, (1, 2): -slope, (2, 1): -slope, (2, 2): -damping}
        upper = {(0, 0): north, (1, 1): north, (1, 2): slope, (2, 1): slope, (2, 2): -damping}
        column = np.arange(m)
        blocks = np.zeros((m, 3, m, 3, m))  # [row, equation, column, unknown, column]
        for (equation, unknown), (previous, centre, following) in along_row.items():
            block = blocks[:, equation, :, unknown, :]
            block[:, column[1:], column[:-1]] = previous[:, 1:]
            block[:, column, column] = centre
            block[:, column[:-1], column[1:]] = following[:, :-1]
        self.counts["factorisations"] += 1
        return BlockTridiagonal.factorise(
            blocks.reshape(1, m, 3 * m, 3 * m),
            {pair: values[None] for pair, values in lower.items()},
            {pair: values[None] for pair, values in upper.items()},
        )

    def _solve_factored(self, factor: BlockTridiagonal, rhs: np.ndarray) -> np.ndarray:
        """The solutions (y, p) [r, 3, n, n], zero on the boundary, for right-hand sides [r, 3, m, m]."""
        r, _, m, _ = rhs.shape
        self.counts["solves"] += r
        by_row = np.ascontiguousarray(rhs.transpose(2, 1, 3, 0)).reshape(1, m, 3 * m, r)
        return embed(factor.solve(by_row).reshape(m, 3, m, r).transpose(3, 1, 0, 2))

    # -- the equation -----------------------------------------------------------------------------------------

    def residual(self, u, a) -> NavierStokesResidual:
        """F((y, p), u) for responses [..., 3, n, n] and forcings [..., 2, n, n]. Boundary values enter as they are.

        It vanishes at the reference solution up to the stabilisation, because the divergence there is αh²Δₕp.
        """
        import torch

        y, p = u[..., :2, :, :], u[..., 2, :, :]
        return NavierStokesResidual(
            momentum=torch.stack(_momentum(y, p, self.mu, self.h), dim=-3) - inner(a),
            divergence=_divergence(y, self.h),
            boundary=_boundary_values(y),
        )

    def tangent_residual(self, u, a, w, v) -> NavierStokesResidual:
        """The blocks −µΔₕw + (y·∇ₕ)w + (w·∇ₕ)y + ∇ₕπ − v, ∇ₕ·w and boundary values: DF written out.

        Shapes are those of stcl.tangent.residual: w holds the tangents (w, π) [B, q, 3, n, n].
        """
        from stcl.problems._navier_stokes_tangent import Linearised

        return NavierStokesResidual(*Linearised.apply(u, w, v, *(like(u, table) for table in self._tangent_tables)))

    def input_derivative(self, u, a, v) -> NavierStokesResidual:
        """−v in the momentum, and nothing elsewhere."""
        v = v.expand(len(u), *v.shape) if v.ndim == a.ndim else v
        momentum, m = -inner(v), self.n - 2
        shapes = (m, m), (8 * (self.n - 1),)
        return NavierStokesResidual(momentum, *(momentum.new_zeros(*v.shape[:2], *shape) for shape in shapes))

    def state_products(self, u, a):
        """w ↦ A w written out, for many products."""
        from stcl.problems._navier_stokes_tangent import products

        product = products(u[:, :2], self.mu, self.h)
        return lambda w: NavierStokesResidual(*product(w), _boundary_values(w[:, :, :2]))

    @cached_property
    def _tangent_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """∂ₕ and −µ ∂²ₕ along an axis [2m, n], and where the boundary values of y are in a flat (y, p) [8(n-1)]."""
        identity, places = np.eye(self.n), np.arange(3 * self.n**2).reshape(3, self.n, self.n)[:2]
        slope, bend = (identity[2:] - identity[:-2]) / (2 * self.h), np.diff(identity, 2, axis=0) / self.h**2
        ends = (places[:, 0], places[:, -1], places[:, 1:-1, 0], places[:, 1:-1, -1])
        return np.concatenate([slope, -self.mu * bend]), np.concatenate([end.ravel() for end in ends])


def _normal_cdf(x):
    if isinstance(x, np.ndarray):
        from scipy.special import ndtr

        return ndtr(x)
    import torch

    return torch.special.ndtr(x)


def _boundary_values(y):
    """The two velocities at the boundary nodes, [..., 8(n-1)]."""
    import torch

    ends = [y[..., 0, :], y[..., -1, :], y[..., 1:-1, 0], y[..., 1:-1, -1]]
    return torch.cat([end.flatten(-2) for end in ends], dim=-1)


def _curl_tables(modes: int, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tables of _curls: (k²+l²)^(-3/2), and the factors from the left, [2, rows, l], and right, [2, k, columns]."""
    k = np.arange(1, modes + 1)
    phase = np.pi * np.outer(k, nodes)
    sine, slope = np.sin(phase) ** 2, np.pi * k[:, None] * np.sin(2 * phase)
    return (k[:, None] ** 2 + k**2) ** -1.5, np.stack([slope.T, -sine.T]), np.stack([sine, slope])


def _curls(noise, tables: tuple[np.ndarray, np.ndarray, np.ndarray]):
    """The fields (∂₂ψ, −∂₁ψ) of ψ = Σ ξ_kl (k²+l²)^(-3/2) sin²(kπx1) sin²(lπx2) for normals ξ [..., k, l].

    The normals may be numpy or torch.
    """
    deviation, along_x2, along_x1 = (like(noise, table) for table in tables)
    return along_x2 @ (noise * deviation).swapaxes(-1, -2)[..., None, :, :] @ along_x1


def _momentum(y, p, mu: float, h: float):
    """The two components of −µΔₕy + (y·∇ₕ)y + ∇ₕp at the interior nodes, each [..., m, m], numpy or torch."""
    y_2, y_1 = centred(y, h)
    p_2, p_1 = centred(p, h)
    y1, y2 = inner(y[..., 0:1, :, :]), inner(y[..., 1:2, :, :])
    transport = -mu * laplacian(y, h) + y1 * y_1 + y2 * y_2
    return transport[..., 0, :, :] + p_1, transport[..., 1, :, :] + p_2


def _divergence(y, h: float):
    """∇ₕ·y at the interior nodes, numpy or torch."""
    return centred(y[..., 0, :, :], h)[1] + centred(y[..., 1, :, :], h)[0]
