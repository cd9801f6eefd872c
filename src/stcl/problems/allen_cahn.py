"""The Allen-Cahn equation in one dimension, the reactive parabolic benchmark."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stcl.core.arrays import check_fields, like, unit_norm
from stcl.core.layout import Layout
from stcl.problems._torch_normals import torch_normals
from stcl.problems.base import Problem, SolveError, Split, Stream

if TYPE_CHECKING:
    from stcl.problems._allen_cahn_march import AllenCahnMarch

# The published draws are one stream per seed, which runs through the splits in this order and in blocks of rows. Each
# block holds first the real and then the imaginary parts of its rows.
INPUT_SEED, INPUT_BLOCK = 0, 64
INPUT_ROWS = {"train": slice(0, 2048), "val": slice(2048, 2176), "test": slice(2176, 2304)}
DIRECTION_SEED, DIRECTION_BLOCK = 1234, 200
DIRECTION_ROWS = {"train": slice(0, 200), "val": slice(200, 400), "test": slice(400, 600)}
SKETCH_SEED = 2026

MODES = 128  # number of Fourier coefficients of a draw, whatever the grid
COLUMNS_AT_ONCE = 512  # number of fields or tangents that march together; they are few enough for the cache

SUBSTEPS = 2  # split steps of the march from one frame to the next: tangents are 0.1 % off at 40 frames, 0.5 % at 20


@dataclass(frozen=True)
class AllenCahn(Problem):
    """u_t = ε² u_xx + u − u³  on the periodic unit interval,  t in (0,5],  u = a at t = 0.

    input     a   tanh of a Gaussian field with spectrum (k² + ℓ⁻²)⁻⁴, scaled to standard deviation 1, at nx nodes
    response  u   at nt frames × nx nodes, t = 0 included
    tangent   w   w_t = ε² w_xx + (1 − 3u²) w,  w = v at t = 0;  v from the same spectrum, of unit norm, without tanh

    One step treats diffusion implicitly in Fourier space and the reaction explicitly:
      u' = G (u + δ (u − u³)),   w' = G (w + δ (1 − 3u²) w),   G = (I − δ ε² ∂ₓₓ)⁻¹.
    G is a real symmetric matrix on the nodes, so that a step of many fields is one matrix product.
    """

    nx: int = 128  # nodes, periodic
    nt: int = 40  # frames, t = 0 included
    time_step: float = 1e-3  # value that δ aims at; a frame takes the nearest whole number of steps
    eps: float = 0.03
    final_time: float = 5.0
    correlation: float = 0.07  # ℓ

    tangent_class = "parabolic"
    # Where fronts are about to merge, responses bend strongly, and differences need a small step. The defects of labels
    # stay below 1e-7.
    tangent_tolerance = 1e-5
    difference_step = 1e-5

    def __post_init__(self) -> None:
        if self.nx < 4 or self.nt < 4:
            raise ValueError(f"allen_cahn needs nx >= 4 nodes and nt >= 4 frames, got nx = {self.nx}, nt = {self.nt}")
        for name in ("time_step", "eps", "final_time", "correlation"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"allen_cahn needs a positive {name}, got {getattr(self, name)}")

    @property
    def frame_step(self) -> float:
        return self.final_time / (self.nt - 1)

    @property
    def steps_per_frame(self) -> int:
        return max(1, round(self.frame_step / self.time_step))

    @cached_property
    def layout(self) -> Layout:
        return Layout(
            axes=("t", "x"),
            coordinates=(np.linspace(0.0, self.final_time, self.nt), np.arange(self.nx) / self.nx),
            lengths=(self.final_time, 1.0),
            inputs=("a",),
            responses=("u",),
            channels=("a", "t", "x"),
            input_axes=("x",),
            scored=("u",),
            time_axis="t",
            initial_axis="t",
        )

    # -- prior ------------------------------------------------------------------------------------------------

    def _waves(self, nx: int) -> np.ndarray:
        """The matrix that turns (real, imaginary) normals into Re Σ_m z_m (k² + ℓ⁻²)⁻² e^{ikx} / 128, k = 2πm.

        The fields have no mean.
        """
        k = 2 * np.pi * np.fft.fftfreq(MODES, 1 / MODES)
        amplitude = np.where(k == 0, 0.0, (k**2 + self.correlation**-2) ** -2.0) / MODES
        phase = k[:, None] * np.arange(nx) / nx
        return np.concatenate([amplitude[:, None] * np.cos(phase), -amplitude[:, None] * np.sin(phase)])

    @cached_property
    def _fields(self) -> np.ndarray:
        return self._waves(self.nx)

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (2 * MODES,)  # real parts, then imaginary parts

    def inputs(self, count: int, split: Split) -> np.ndarray:
        """The rows of the published split and, if more are asked for, fresh ones from the same distribution."""
        return self.input(_published_then_fresh(count, INPUT_SEED, INPUT_BLOCK, INPUT_ROWS[split]))

    @property
    def input_noise_shape(self) -> tuple[int, ...]:
        return self.noise_shape

    def input(self, noise):
        noise = noise[..., None, :]  # each row is a product of its own, so that its rounding is, too
        field = noise @ like(noise, self._published_fields)  # its deviation is the same on every grid
        centred = field - field.mean(-1)[..., None]
        deviation = ((centred * centred).sum(-1) / (MODES - 1))[..., None] ** 0.5
        return _tanh(noise @ like(noise, self._fields) / deviation)[..., 0, :]

    def whitened(self, noise):
        """tanh of the Gaussian field itself, scaled to a mean variance of 1. A single field has another one."""
        variance = (self._published_fields**2).sum() / (MODES - 1)
        return _tanh(noise @ like(noise, self._fields) / variance**0.5)

    @cached_property
    def _published_fields(self) -> np.ndarray:
        return self._waves(MODES)

    def direction(self, noise):
        return unit_norm(noise @ like(noise, self._fields), axes=1)

    def directions(self, count: int, stream: Stream) -> np.ndarray:
        if stream == "sketch":
            return self.direction(np.random.default_rng(SKETCH_SEED).standard_normal((count, *self.noise_shape)))
        return self.direction(_published_then_fresh(count, DIRECTION_SEED, DIRECTION_BLOCK, DIRECTION_ROWS[stream]))

    # -- reference solver -------------------------------------------------------------------------------------

    @property
    def _step(self) -> float:
        return self.frame_step / self.steps_per_frame

    @cached_property
    def _wavenumbers(self) -> np.ndarray:
        return 2 * np.pi * np.fft.fftfreq(self.nx, 1 / self.nx)

    def _matrix(self, symbol: np.ndarray) -> np.ndarray:
        """The symmetric matrix that multiplies Fourier coefficients by an even real symbol."""
        return np.fft.ifft(symbol[:, None] * np.fft.fft(np.eye(self.nx), axis=0), axis=0).real

    @cached_property
    def _smoothing(self) -> np.ndarray:
        """G = (I − δ ε² ∂ₓₓ)⁻¹."""
        return self._matrix(1 / (1 + self._step * self.eps**2 * self._wavenumbers**2))

    @cached_property
    def _second_derivative(self) -> np.ndarray:
        return self._matrix(-(self._wavenumbers**2))

    def _advance(self, u: np.ndarray) -> np.ndarray:
        """The fields [nx, samples] after one step."""
        return self._smoothing @ (u + self._step * (u - u * u * u))

    def solve(self, a: np.ndarray) -> np.ndarray:
        check_fields("initial fields a", a, (self.nx,))
        u = np.empty((len(a), self.nt, self.nx))
        for start in range(0, len(a), COLUMNS_AT_ONCE):
            chunk = slice(start, start + COLUMNS_AT_ONCE)
            field = a[chunk].T
            for frame in range(self.nt):
                u[chunk, frame] = field.T
                for _ in range(self.steps_per_frame if frame < self.nt - 1 else 0):
                    field = self._advance(field)
        bad = np.flatnonzero(~np.isfinite(u).all(axis=(1, 2)))
        if bad.size:
            raise SolveError(
                f"allen_cahn: samples {bad[:5].tolist()} of this chunk overflowed; initial fields should lie in "
                f"[-1, 1], the largest |a| is {np.abs(a).max():.3g}"
            )
        return u

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Tangents by marching all directions of a few samples together, about the same time steps as in `solve`.

        With more directions than nodes, the Jacobian marches instead and is applied to the directions at the frames.
        """
        check_fields("initial fields a", a, (self.nx,))
        check_fields("responses u", u, self.layout.response_shape)
        check_fields("directions v", v, (self.nx,))
        w = np.empty((len(a), len(v), self.nt, self.nx))
        starts = np.eye(self.nx) if len(v) > self.nx else v
        samples = max(1, COLUMNS_AT_ONCE // len(starts))
        for start in range(0, len(a), samples):
            chunk = slice(start, start + samples)
            field = a[chunk].T
            columns = np.repeat(starts.T[:, None], field.shape[1], axis=1)  # [nx, samples, columns]
            for frame in range(self.nt):
                tangents = columns.transpose(1, 2, 0)
                w[chunk, :, frame] = v @ tangents if len(v) > self.nx else tangents
                for _ in range(self.steps_per_frame if frame < self.nt - 1 else 0):
                    columns *= (1 + self._step * (1 - 3 * field * field))[..., None]
                    columns = (self._smoothing @ columns.reshape(self.nx, -1)).reshape(columns.shape)
                    field = self._advance(field)
        self.counts["solves"] += len(a) * len(v)
        return w

    # -- the equation -----------------------------------------------------------------------------------------

    def residual(self, u, a):
        """u_t − ε² u_xx − u + u³ at the frames after the first, [..., nt-1, nx].

        u_t is centred, except at the last frame, which has the backward formula of second order. u_xx is spectral. The
        first frame of u does not enter: the equation holds for the trajectory that starts from a.
        """
        import torch

        h = self.frame_step
        u = torch.cat([a[..., None, :].expand_as(u[..., :1, :]), u[..., 1:, :]], -2)
        centred = (u[..., 2:, :] - u[..., :-2, :]) / (2 * h)
        last = (3 * u[..., -1:, :] - 4 * u[..., -2:-1, :] + u[..., -3:-2, :]) / (2 * h)
        later = u[..., 1:, :]
        u_xx = later @ like(u, self._second_derivative)
        return torch.cat([centred, last], -2) - self.eps**2 * u_xx - later + later**3

    def tangent_residual(self, u, a, w, v):
        """w_t − ε² w_xx − w + 3u² w written out, with v for the first frame of w, which enters the second one alone."""
        from stcl.problems._allen_cahn_tangent import Reaction

        time, space = (like(u, table) for table in self._tangent_tables)
        return Reaction.apply(u, w, v, time, space, -1 / (2 * self.frame_step))

    @cached_property
    def march(self) -> "AllenCahnMarch":
        """Split steps between the frames."""
        from stcl.problems._allen_cahn_march import AllenCahnMarch

        step = self.frame_step / SUBSTEPS
        diffusion = self._matrix(np.exp(-step * self.eps**2 * self._wavenumbers**2))
        return AllenCahnMarch(diffusion, step, SUBSTEPS)

    @cached_property
    def _tangent_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """∂t between the frames after the first [nt-1, nt-1], and −ε² ∂ₓₓ − 1 [nx, nx]."""
        time = (np.eye(self.nt - 1, k=1) - np.eye(self.nt - 1, k=-1)) / (2 * self.frame_step)
        time[-1, -3:] = np.array([1, -4, 3]) / (2 * self.frame_step)
        return time, -(self.eps**2) * self._second_derivative - np.eye(self.nx)


def _tanh(x):
    return np.tanh(x) if isinstance(x, np.ndarray) else x.tanh()


def _published_then_fresh(count: int, seed: int, block: int, rows: slice) -> np.ndarray:
    """Normals [count, 2·MODES]: rows of the published stream, drawn in blocks, then rows of a stream of their own."""
    blocks = -(-rows.stop // block)
    published = torch_normals(seed, blocks * 2 * block * MODES, "float64").reshape(blocks, 2, block, MODES)
    published = published.transpose(0, 2, 1, 3).reshape(blocks * block, 2 * MODES)[rows][:count]
    fresh = np.random.default_rng((seed, rows.start)).standard_normal((count - len(published), 2 * MODES))
    return np.concatenate([published, fresh])
