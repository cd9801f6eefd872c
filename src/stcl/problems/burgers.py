"""The forced viscous Burgers equation in one dimension, the advective parabolic benchmark."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from stcl.core.arrays import check_fields, like
from stcl.core.layout import Layout
from stcl.problems import _tridiagonal
from stcl.problems.base import Problem, SolveError, Split, Stream

if TYPE_CHECKING:
    from stcl.problems._burgers_march import BurgersMarch

# The published splits are one stream of 2304 draws, which is shuffled and cut in this order.
INPUT_SEED = 42
SPLIT_ROWS = {"train": slice(0, 2048), "test": slice(2048, 2176), "val": slice(2176, 2304)}
# The paper has no validation directions and does not seed its sketches, so those two seeds are ours.
DIRECTION_SEED = {"train": 12345, "val": 54321, "test": 98765, "sketch": 2026}

NEWTON_TOLERANCE = 1e-8  # largest last update; convergence is quadratic, so the error after it is rounding
NEWTON_STEPS = 30  # largest number of steps
BLOWN_UP = 1e6  # value at which sweeps that diverge are held, for `accept` to reject them
SAMPLES_AT_ONCE = 64  # number of samples whose trajectories are held at once
TANGENT_CELLS = 2**23  # number of values of the tangents that march together; they fit the cache and 64 MB


@dataclass(frozen=True)
class Burgers(Problem):
    """u_t + u u_x = ν u_xx + f(t)  on (0,1)×(0,1],  u = 0 at x = 0, 1 and at t = 0.

    input     f   spatially uniform forcing, Σ_j c_j exp(−(t − t_j)² / 2·0.2²) with 16 centres and c_j ~ N(0, 1.5²)
    response  u   at nx nodes × nt frames, ends included
    tangent   w   w_t + u w_x + w u_x = ν w_xx + v(t),  w = 0 at x = 0, 1 and at t = 0

    The solver has its own, finer grid: solver_nx interior nodes, solver_nt steps of size τ. What it takes as an input
    or a direction holds the function on both time grids, [..., solver_nt + nt]: first the values f(nτ) that drive the
    steps, then the values at the frames, which are what the network sees. Both parts are values of the same function,
    so everything is linear in it. Responses are interpolated linearly in x and t to the network's grid.

    One step, with A = I − τν∂ₓₓ and N(u) = u ∂ₓu by centred differences and f at the old time:
      implicit      A u' + τ N(u') = u + τ f, solved by Newton. Its tangents stay bounded.
      three_sweep   three fixed-point sweeps u' ← A⁻¹(u + τ f − τ N(u')) from u' = u, as published. The sweeps do not
                    contract where τ|u| > h: some trajectories blow up and are rejected, and of some others only the
                    tangents do, among them those of three published training inputs.
    """

    nx: int = 64  # network's nodes in x, walls included
    nt: int = 100  # network's frames, t = 0 included
    solver_nx: int = 128  # solver's nodes in x, walls excluded
    solver_nt: int = 200  # solver's time steps
    probe_nt: int = 200  # white-noise values in a stored direction, which is linear in between
    viscosity: float = 0.01
    bumps: int = 16
    bump_width: float = 0.2
    bump_deviation: float = 1.5
    largest_response: float = 20.0  # responses beyond it are rejected
    scheme: Literal["implicit", "three_sweep"] = "implicit"

    tangent_class = "parabolic"
    # The defects of the implicit step's labels stay below 1e-7. The sweeps' labels may be exact and still say nothing
    # about a change of the forcing by a part in a thousand. Their defects are 1e-5 and more where labels are several
    # times too large, and 1 where they diverged.
    tangent_tolerance = 1e-6
    difference_step = 1e-3

    def __post_init__(self) -> None:
        if self.nx < 4 or self.nt < 4 or self.solver_nx < 4 or self.solver_nt < 4 or self.probe_nt < 2:
            raise ValueError(
                f"burgers needs nx, nt, solver_nx, solver_nt >= 4 and probe_nt >= 2, got "
                f"{self.nx}, {self.nt}, {self.solver_nx}, {self.solver_nt} and {self.probe_nt}"
            )
        if not (np.isfinite(self.viscosity) and self.viscosity > 0):
            raise ValueError(f"burgers needs a positive viscosity, got {self.viscosity}; the paper uses 0.01")
        if self.bumps < 2 or not self.bump_width > 0:
            raise ValueError(f"the forcing needs bumps >= 2 of positive width, got {self.bumps}, {self.bump_width}")
        if not 0 < self.largest_response < BLOWN_UP:
            raise ValueError(f"largest_response must be in (0, {BLOWN_UP:g}), got {self.largest_response}")
        if self.scheme not in ("implicit", "three_sweep"):
            raise ValueError(f"scheme must be 'implicit' or 'three_sweep', got {self.scheme!r}")

    @property
    def h(self) -> float:
        return 1.0 / (self.solver_nx + 1)

    @property
    def tau(self) -> float:
        return 1.0 / self.solver_nt

    @cached_property
    def layout(self) -> Layout:
        return Layout(
            axes=("x", "t"),
            coordinates=(np.linspace(0.0, 1.0, self.nx), np.linspace(0.0, 1.0, self.nt)),
            lengths=(1.0, 1.0),
            inputs=("f",),
            responses=("u",),
            channels=("x", "t", "f"),
            input_axes=("t",),
            scored=("u",),
            time_axis="t",
        )

    @cached_property
    def times(self) -> np.ndarray:
        """The times at which the solver's inputs hold values: the left ends of its steps, then the network's frames."""
        return np.concatenate([np.arange(self.solver_nt) / self.solver_nt, self.layout.coordinates[1]])

    def network_input(self, a):
        return a[..., self.solver_nt :]

    # -- prior ------------------------------------------------------------------------------------------------

    def inputs(self, count: int, split: Split) -> np.ndarray:
        """The rows of the published split and, if more are asked for, fresh ones from the same distribution."""
        rows = SPLIT_ROWS[split]
        stream = np.random.RandomState(INPUT_SEED)
        published = stream.randn(2304, self.bumps)
        order = np.arange(2304)
        stream.shuffle(order)
        published = published[order[rows]][:count]
        fresh = np.random.default_rng((INPUT_SEED, rows.start)).standard_normal((count - len(published), self.bumps))
        return self.input(np.concatenate([published, fresh]))

    @property
    def input_noise_shape(self) -> tuple[int, ...]:
        return (self.bumps,)

    def input(self, noise):
        # Each row is a product of its own, so that its rounding does not depend on the others.
        return ((self.bump_deviation * noise)[..., None, :] @ like(noise, self._bumps))[..., 0, :]

    @cached_property
    def _bumps(self) -> np.ndarray:
        """The bumps at the times of an input, [bumps, times]."""
        centres = np.linspace(0.0, 1.0, self.bumps)
        return np.exp(-((self.times - centres[:, None]) ** 2) / (2 * self.bump_width**2))

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (self.nt,)

    def direction(self, noise):
        """White noise on the network's frames with root mean square 1.

        The paper scales a whole batch by one number. Here each direction is scaled by its own, so that it does not
        depend on which others it was drawn with; the loss is relative to v, and the scale cancels.
        """
        return noise / ((noise * noise).mean(-1) ** 0.5)[..., None]

    def directions(self, count: int, stream: Stream) -> np.ndarray:
        """White noise, linear in between. Published directions are unit vectors at the times j/200.

        Those of the sketch have their values at the frames.
        """
        rng = np.random.RandomState(DIRECTION_SEED[stream])
        if stream == "sketch":
            knots, values = self.layout.coordinates[1], self.direction(rng.randn(count, self.nt))
        else:
            knots, values = np.arange(self.probe_nt) / self.probe_nt, rng.randn(count, self.probe_nt)
            values /= np.linalg.norm(values, axis=1, keepdims=True) + 1e-12
        return _interpolate(values, *_bracket(knots, self.times), axis=-1)

    # -- reference solver -------------------------------------------------------------------------------------

    def candidates(self, count: int) -> int:
        """A few more than `count`. None of the published draws is rejected, because the largest |u| is 4.7."""
        return count + 4 + count // 32

    def accept(self, u: np.ndarray) -> np.ndarray:
        return np.abs(u).max(axis=(1, 2)) <= self.largest_response

    def solve(self, a: np.ndarray) -> np.ndarray:
        check_fields("forcings a", a, self.times.shape)
        u = np.empty((len(a), self.nx, self.nt))
        for start in range(0, len(a), SAMPLES_AT_ONCE):
            chunk = slice(start, start + SAMPLES_AT_ONCE)
            frames = _interpolate(self._trajectories(a[chunk], start), *self._frames, axis=0)
            u[chunk] = np.moveaxis(_interpolate(frames, *self._nodes, axis=2), 0, 2)
        return u

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Tangents by marching all directions together about the solver's own trajectory.

        That trajectory is finer than u and is solved again. With many directions it is cheaper to march the responses
        K_n to an impulse in one step, because K_n only starts at step n, and to sum w = Σ_n v_n K_n.
        """
        check_fields("forcings a", a, self.times.shape)
        check_fields("responses u", u, self.layout.response_shape)
        check_fields("directions v", v, self.times.shape)
        v = v[:, : self.solver_nt]
        impulses = len(v) > self.solver_nt // 2
        forces = np.eye(self.solver_nt) if impulses else np.ascontiguousarray(v.T)

        w = np.empty((len(a), len(v), self.nx, self.nt))
        cells = self.nx * self.nt * forces.shape[1]
        together = int(np.clip(TANGENT_CELLS // cells, 1, 8))
        buffer = np.zeros((together, self.nx, self.nt, forces.shape[1]))
        for start in range(0, len(a), SAMPLES_AT_ONCE):
            trajectories = self._trajectories(a[start : start + SAMPLES_AT_ONCE], start)
            for first in range(start, min(start + SAMPLES_AT_ONCE, len(a)), together):
                few = slice(first, min(first + together, len(a)))
                response = buffer[: few.stop - first]
                self._march(trajectories[:, first - start : few.stop - start], a[few], forces, impulses, response)
                if impulses:
                    response = response.reshape(len(response), -1, self.solver_nt).transpose(0, 2, 1)
                    np.matmul(v, response, out=w[few].reshape(len(response), len(v), -1))
                else:
                    w[few] = response.transpose(0, 3, 1, 2)
        return w

    @cached_property
    def _frames(self) -> tuple[np.ndarray, np.ndarray]:
        return _bracket(np.linspace(0.0, 1.0, self.solver_nt + 1), self.layout.coordinates[1])

    @cached_property
    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        return _bracket(np.linspace(0.0, 1.0, self.solver_nx + 2), self.layout.coordinates[0])

    def _trajectories(self, a: np.ndarray, first: int) -> np.ndarray:
        """The fields u at all times and nodes of the solver, walls included, [solver_nt + 1, samples, solver_nx + 2].

        Error messages count samples from `first`.
        """
        u = np.zeros((self.solver_nt + 1, len(a), self.solver_nx + 2))
        for n in range(self.solver_nt):
            known = u[n, :, 1:-1] + self.tau * a[:, n, None]
            if self.scheme == "three_sweep":
                u[n + 1] = np.clip(self._sweeps(u[n], known)[-1], -BLOWN_UP, BLOWN_UP)
                continue
            u[n + 1], unsolved = self._implicit_step(u[n], known)
            if unsolved.size:
                raise SolveError(
                    f"burgers: Newton failed in step {n + 1} of {self.solver_nt} for samples "
                    f"{(first + unsolved[:5]).tolist()} of this chunk; the forcing is too strong, raise solver_nt"
                )
        return u

    # Fields carry their zero walls. Equations, right-hand sides and matrices live at the interior nodes.

    def _diffuse(self, u: np.ndarray) -> np.ndarray:
        """The product A u for u [..., solver_nx + 2]."""
        second = (u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2]) / self.h**2
        return u[..., 1:-1] - self.tau * self.viscosity * second

    def _slope(self, u: np.ndarray) -> np.ndarray:
        """The slope ∂ₓu for u [..., solver_nx + 2]."""
        return (u[..., 2:] - u[..., :-2]) / (2 * self.h)

    def _linearised(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three bands of A + τ N'(u), each [..., solver_nx], where N'(u) w = u ∂ₓw + w ∂ₓu."""
        diffusion = self.tau * self.viscosity / self.h**2
        advection = self.tau * u[..., 1:-1] / (2 * self.h)
        return -diffusion - advection, 1 + 2 * diffusion + self.tau * self._slope(u), -diffusion + advection

    def _implicit_step(self, u: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The u' with A u' + τ N(u') = known, by Newton's method from u, and the samples that did not get there."""
        new = u.copy()
        unsolved = np.arange(len(u))
        for _ in range(NEWTON_STEPS):
            z = new[unsolved]
            residual = self._diffuse(z) + self.tau * z[:, 1:-1] * self._slope(z) - known[unsolved]
            update = _tridiagonal.solve(*self._linearised(z), residual)
            new[unsolved, 1:-1] -= update
            self.counts["newton_steps"] += unsolved.size
            done = np.abs(update).max(axis=1) <= NEWTON_TOLERANCE * (1 + np.abs(z).max(axis=1))
            unsolved = unsolved[~done]
            if not unsolved.size:
                break
        return new, unsolved

    @cached_property
    def _inverse(self) -> np.ndarray:
        """The dense symmetric matrix A⁻¹, which the sweeps apply to everything."""
        return np.linalg.inv(self._diffuse(np.pad(np.eye(self.solver_nx), ((0, 0), (1, 1)))))

    def _sweeps(self, u: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
        """The sweeps z₀ = u and z_{j+1} = A⁻¹(known − τ N(z_j)) for j = 0, 1, 2."""
        z = [u]
        for _ in range(3):
            new = np.zeros_like(u)
            new[..., 1:-1] = (known - self.tau * z[-1][..., 1:-1] * self._slope(z[-1])) @ self._inverse
            z.append(new)
        return z

    def _tangent_sweeps(self, z: list[np.ndarray], w: np.ndarray, known: np.ndarray) -> None:
        """Overwrites w [samples, nodes, columns] with y₃, the derivative of the sweeps.

        y₀ = w and y_{j+1} = A⁻¹(known − τ N'(z_j) y_j) for j = 0, 1, 2.
        """
        for zj in z[:3]:
            transport = zj[:, 1:-1, None] * (w[:, 2:] - w[:, :-2]) / (2 * self.h)
            w[:, 1:-1] = self._inverse @ (known - self.tau * (transport + w[:, 1:-1] * self._slope(zj)[..., None]))

    def _march(self, u: np.ndarray, a: np.ndarray, forces: np.ndarray, impulses: bool, response: np.ndarray) -> None:
        """Writes the tangents for the columns of forces [solver_nt, columns] to `response` [samples, nx, nt, columns].

        u holds the trajectories [solver_nt + 1, samples, solver_nx + 2]. If the columns are impulses, each step starts
        one of them. What lies before a column's impulse is zero and is not written.
        """
        steps, samples = self.solver_nt, len(a)
        if self.scheme == "implicit":
            forward, backward = _tridiagonal.factorise(*self._linearised(u[1:]))
            self.counts["factorisations"] += steps * samples

        left, weight = self._frames
        columns = np.zeros((samples, self.solver_nx + 2, forces.shape[1]))
        for n in range(steps):
            started = n + 1 if impulses else forces.shape[1]
            w = columns[:, :, :started]
            between = np.flatnonzero(left == n)  # the frames in this step
            old = _interpolate(w, *self._nodes, axis=1) if between.size else None
            known = w[:, 1:-1] + self.tau * forces[n, :started]
            if self.scheme == "implicit":  # (A + τ N'(u')) w' = w + τ v
                _tridiagonal.substitute(forward[n], backward[n], known)
                w[:, 1:-1] = known
            else:
                self._tangent_sweeps(self._sweeps(u[n], u[n, :, 1:-1] + self.tau * a[:, n, None]), w, known)
            self.counts["solves"] += samples * started * (1 if self.scheme == "implicit" else 3)
            new = _interpolate(w, *self._nodes, axis=1) if between.size else None
            for k in between:
                response[:, :, k, :started] = (1 - weight[k]) * old + weight[k] * new

    # -- the equation -----------------------------------------------------------------------------------------

    def residual(self, u, a):
        """u_t + u u_x − ν u_xx − f at the interior nodes and the frames after the first, [..., nx-2, nt-1].

        Differences are centred on the network's grid. In time, that of the last frame is backward and of first order.
        Nothing pins the walls and the first frame: their values of u enter as neighbours, as given.
        """
        import torch

        dx, dt = 1.0 / (self.nx - 1), 1.0 / (self.nt - 1)
        inner, later = u[..., 1:-1, :], u[..., 1:]
        u_t = torch.cat([(inner[..., 2:] - inner[..., :-2]) / (2 * dt), (inner[..., -1:] - inner[..., -2:-1]) / dt], -1)
        u_x = (later[..., 2:, :] - later[..., :-2, :]) / (2 * dx)
        u_xx = (later[..., 2:, :] - 2 * later[..., 1:-1, :] + later[..., :-2, :]) / dx**2
        return u_t + inner[..., 1:] * u_x - self.viscosity * u_xx - a[..., None, 1:]

    def tangent_residual(self, u, a, w, v):
        """w_t + u w_x + w u_x − ν w_xx − v written out, as a sum over neighbours in x and t."""
        import torch

        from stcl.core.neighbours import ALL, INNER, weighted_sum

        first, later, next_one, previous = slice(None, -1), slice(1, None), slice(2, None), slice(None, -2)
        terms = (  # the node itself, its neighbours in x, the frames after and before
            ((ALL, ALL), (INNER, later)),
            ((ALL, ALL), (next_one, later)),
            ((ALL, ALL), (previous, later)),
            ((ALL, first), (INNER, next_one)),
            ((ALL, ALL), (INNER, first)),
        )
        itself, diffusion, after, before = (like(u, table) for table in self._tangent_tables)
        slope, u = (self.nx - 1) / 2, u[:, None, :, 1:]
        coefficients = (
            torch.add(itself, u[..., 2:, :] - u[..., :-2, :], alpha=slope),
            torch.add(diffusion, u[..., 1:-1, :], alpha=slope),
            torch.sub(diffusion, u[..., 1:-1, :], alpha=slope),
            after,
            before,
        )
        return weighted_sum(w, coefficients, terms) - v[..., None, 1:]

    def input_derivative(self, u, a, v):
        """−v at every node."""
        v = v.expand(len(u), *v.shape) if v.ndim == a.ndim else v
        return -v[..., None, 1:].expand(*v.shape[:2], self.nx - 2, -1)

    @cached_property
    def march(self) -> "BurgersMarch":
        """Implicit steps between the frames, on the solver's nodes."""
        from stcl.problems._burgers_march import BurgersMarch

        nodes, frames = self.layout.coordinates
        finer = np.linspace(0.0, 1.0, max(self.solver_nx + 2, self.nx))
        return BurgersMarch(nodes, frames, finer, self.tau, self.viscosity)

    @cached_property
    def _tangent_tables(self) -> tuple[np.ndarray, ...]:
        """The parts of the coefficients that do not depend on u: of the node, of both neighbours in x, of both in t."""
        dx, dt = 1.0 / (self.nx - 1), 1.0 / (self.nt - 1)
        last = np.zeros((1, 1, 1, self.nt - 1))
        last[..., -1] = 1 / dt
        itself, before = 2 * self.viscosity / dx**2 + last, -1 / (2 * dt) - last / 2
        return itself, np.array(-self.viscosity / dx**2), np.full((1, 1, 1, 1), 1 / (2 * dt)), before


def _bracket(nodes: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of the node to the left of each point and the weight of the node to its right, clamped at the ends."""
    left = np.clip(np.searchsorted(nodes, points, side="right") - 1, 0, len(nodes) - 2)
    weight = (points - nodes[left]) / (nodes[left + 1] - nodes[left])
    return left, np.clip(weight, 0.0, 1.0)


def _interpolate(field: np.ndarray, left: np.ndarray, weight: np.ndarray, axis: int) -> np.ndarray:
    """Linear interpolation of nodal values along an axis, to the points that _bracket has located."""
    weight = weight.reshape((-1,) + (1,) * (field.ndim - 1 - axis % field.ndim))
    return (1 - weight) * np.take(field, left, axis) + weight * np.take(field, left + 1, axis)
