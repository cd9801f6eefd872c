"""Nonlinear diffusion-reaction, the stiff positive-definite benchmark."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stcl.core.arrays import check_fields, like
from stcl.problems._square import (
    ScalarOnSquare,
    centred,
    cosines,
    differences,
    inner,
    laplacian,
    solve_five_point,
    tangent_defect,
    zero_boundary,
)
from stcl.problems.base import SolveError

NEWTON_TOLERANCE = 1e-10  # largest residual of a solution, relative to the source
NEWTON_STEPS = 50  # largest number of steps


@dataclass(frozen=True)
class Diffusion(ScalarOnSquare):
    """−∇·(eᵃ ∇u) + u³ = f  on (0,1)²,  u = 0 on the boundary.

    input     a   log-diffusivity at the n×n nodes, Gaussian with covariance (10/3 I − Δ/30)⁻²
    response  u   at the n×n nodes
    tangent   w   −∇·(eᵃ ∇w) + 3u² w = ∇·(eᵃ v ∇u),  w = 0 on the boundary

    The equation is discretised in expanded form, −eᵃ (Δₕu + ∇ₕa·∇ₕu), with centred differences at the interior nodes.
    The continuous tangent operator is symmetric positive definite. The discrete one is 1.2 % away from symmetric at
    n = 65 (13 % at 17). Its symmetric part was positive definite for all of 256 draws at n = 65, for 98 % at 33 and
    86 % at 17.
    """

    n: int = 65  # nodes per side, boundary included
    modes: int = 40  # number of cosines per axis from which the prior's are taken
    kept_modes: int = 800  # number of pairs that are kept, those with the largest variance

    tangent_class = "spd"
    tangent_tolerance = 1e-8
    input_seed = {"train": 0, "val": 50_000, "test": 100_000}
    direction_seed = {"train": 777_777, "val": 1_049_999, "test": 1_099_999, "sketch": 2026}

    def __post_init__(self) -> None:
        if self.n < 4:
            raise ValueError(f"diffusion needs n >= 4 nodes per side, got {self.n}")
        if not 1 <= self.kept_modes <= self.modes**2:
            raise ValueError(f"kept_modes must be in 1..{self.modes**2}, got {self.kept_modes}")

    @cached_property
    def source(self) -> np.ndarray:
        """The source f at the interior nodes, four bumps of height 10 and width 0.1."""
        bump = sum(np.exp(-((self.nodes[1:-1] - c) ** 2) / (2 * 0.1**2)) for c in (0.25, 0.75))
        return 10.0 * np.outer(bump, bump)

    # -- prior ------------------------------------------------------------------------------------------------

    @cached_property
    def _prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The index of the normal of each cosine pair (k, l), its standard deviation (0 if not kept), and the cosines.

        Pairs are ordered by variance, and ties by (k, l). The published order breaks ties arbitrarily, and the 800th
        pair is inside one.
        """
        k = np.arange(self.modes)
        deviation = 1.0 / (10 / 3 + np.pi**2 * (k[:, None] ** 2 + k**2) / 30)
        order = np.argsort(-deviation.ravel(), kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        kept = (rank < self.kept_modes).reshape(deviation.shape)
        slot = np.where(kept, rank.reshape(deviation.shape), 0)
        scale = np.where(k == 0, 1.0, np.sqrt(2.0))
        return slot, np.where(kept, deviation, 0.0), scale[:, None] * cosines(self.modes, self.nodes)

    def _fields(self, noise):
        slot, deviation, basis = (like(noise, table) for table in self._prior)
        return basis.T @ (noise[..., slot] * deviation) @ basis

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (self.kept_modes,)

    # -- reference solver -------------------------------------------------------------------------------------

    def solve(self, a: np.ndarray) -> np.ndarray:
        """Responses by Newton's method from the solution of the linear problem. All samples advance together."""
        check_fields("log-diffusivities a", a, (self.n, self.n))
        sources = np.repeat(self.source[None, :, :, None], len(a), axis=0)
        u = self._solve_linearised(a, np.zeros_like(a), sources)[:, 0]
        scale = np.linalg.norm(self.source)
        active = np.arange(len(a))
        for _ in range(NEWTON_STEPS):
            residual = self._residual(u[active], a[active])
            unsolved = np.linalg.norm(residual, axis=(1, 2)) >= NEWTON_TOLERANCE * scale
            active, residual = active[unsolved], residual[unsolved]
            if not active.size:
                break
            u[active] -= self._solve_linearised(a[active], u[active], residual[..., None])[:, 0]
            self.counts["newton_steps"] += active.size
        if active.size or not np.isfinite(u).all():
            raise SolveError(
                f"diffusion: Newton did not reach {NEWTON_TOLERANCE:g} in {NEWTON_STEPS} steps for samples "
                f"{active[:5].tolist()} of this chunk; the log-diffusivity is too rough for n = {self.n}"
            )
        return u

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        check_fields("log-diffusivities a", a, (self.n, self.n))
        check_fields("responses u", u, (self.n, self.n))
        check_fields("directions v", v, (self.n, self.n))
        ux, uy = centred(u, self.h)
        flux = inner(np.exp(a))
        factors = (flux * self._flux_divergence(u, a), flux * ux, flux * uy)
        fields = [np.ascontiguousarray(np.moveaxis(f, 0, -1)) for f in (inner(v), *centred(v, self.h))]
        w = np.empty((len(a), len(v), self.n, self.n))
        for i in range(len(a)):  # one sample at a time keeps its right-hand sides in the cache
            rhs = sum(factor[i, :, :, None] * field for factor, field in zip(factors, fields, strict=True))
            w[i] = self._solve_linearised(a[i : i + 1], u[i : i + 1], rhs[None])[0]
        return w

    def tangent_defect(self, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        return tangent_defect(self._residual, u, a, w, v, self.h)

    def _flux_divergence(self, u, a):
        """Δₕu + ∇ₕa·∇ₕu at the interior nodes, numpy or torch. ∇·(eᵃ∇u) is eᵃ times this."""
        (ax, ay), (ux, uy) = centred(a, self.h), centred(u, self.h)
        return laplacian(u, self.h) + ax * ux + ay * uy

    def _residual(self, u: np.ndarray, a: np.ndarray) -> np.ndarray:
        return inner(u) ** 3 - inner(np.exp(a)) * self._flux_divergence(u, a) - self.source

    def _solve_linearised(self, a: np.ndarray, u: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """The x [samples, r, n, n], zero on the boundary, with (A(a) + 3u²) x = rhs for rhs [samples, n-2, n-2, r]."""
        (ax, ay), flux = centred(a, self.h), inner(np.exp(a))
        self.counts["factorisations"] += len(rhs)
        self.counts["solves"] += len(rhs) * rhs.shape[-1]
        return solve_five_point(
            centre=4 * flux / self.h**2 + 3 * inner(u) ** 2,
            axis1=(-flux * (1 / self.h**2 - ax / (2 * self.h)), -flux * (1 / self.h**2 + ax / (2 * self.h))),
            axis2=(-flux * (1 / self.h**2 - ay / (2 * self.h)), -flux * (1 / self.h**2 + ay / (2 * self.h))),
            rhs=rhs,
        )

    # -- the equation -----------------------------------------------------------------------------------------

    def residual(self, u, a):
        """u³ − eᵃ (Δₕu + ∇ₕa·∇ₕu) − f at the interior nodes, [..., n-2, n-2].

        Boundary values of u do not enter: the equation holds for the field that vanishes there.
        """
        u = zero_boundary(u)
        return inner(u) ** 3 - inner(a.exp()) * self._flux_divergence(u, a) - like(u, self.source)

    # With k = −eᵃ/h² and differences [f]ᵢ of next and previous node, A w = 3u² w + k (h² Δₕw + Σᵢ [a]ᵢ [w]ᵢ / 4) and
    # B v = k (h² Δₕu + Σᵢ [a]ᵢ [u]ᵢ / 4) v + k Σᵢ [u]ᵢ [v]ᵢ / 4.

    def five_coefficients(self, u, a):
        """A: 3u² − 4k at the node, k (1 ± [a]ᵢ/4) at its neighbours."""
        return self._five_coefficients(u, *self._conductivity(a))

    def _five_coefficients(self, u, k, slopes):
        import torch

        u = inner(u).unsqueeze(1)
        neighbours = (torch.addcmul(k, k, slope, value=sign / 4) for slope in slopes for sign in (1, -1))
        return torch.addcmul(-4 * k, u, u, value=3), *neighbours

    def tangent_residual(self, u, a, w, v):
        """A w + B v written out, with few operations."""
        from stcl.core.neighbours import FIVE_POINT_INSIDE, weighted_sum

        k, slopes = self._conductivity(a)
        r = weighted_sum(w, self._five_coefficients(u, k, slopes), FIVE_POINT_INSIDE)
        return self._add_input_derivative(r, u, k, slopes, v)

    def input_derivative(self, u, a, v):
        """B v written out."""
        k, slopes = self._conductivity(a)
        return self._add_input_derivative(u.new_zeros(()), u, k, slopes, v)

    def _add_input_derivative(self, r, u, k, slopes, v):
        import torch

        for factor, part in zip(self._input_factors(u, k, slopes), (inner(v), *differences(v)), strict=True):
            r = torch.addcmul(r, factor, part)
        return r

    def _input_factors(self, u, k, slopes):
        """What B multiplies v, [v]₁ and [v]₂ by, [B, 1, m, m]. Boundary values of u do not enter."""
        import torch

        tables = like(u, self._bend_and_slope).expand(len(u), -1, -1)
        bend1, u1 = torch.bmm(tables, u[..., 1:-1]).unsqueeze(1).chunk(2, -2)
        bend2, u2 = torch.bmm(u[..., 1:-1, :], tables.mT).unsqueeze(1).chunk(2, -1)
        whole = torch.addcmul(torch.addcmul(bend1 + bend2, slopes[0], u1), slopes[1], u2)
        return k * whole, k * u1, k * u2

    def _conductivity(self, a):
        """k and the pair [a]₁, [a]₂ at the interior nodes, each [B, 1, m, m]."""
        a = a.unsqueeze(1)
        return inner(a).exp() * (-1 / self.h**2), differences(a)

    @cached_property
    def _bend_and_slope(self) -> np.ndarray:
        """h² ∂ᵢᵢ, then [·]ᵢ / 4, along an axis of a field that vanishes at its ends, [2m, n]."""
        identity = np.zeros((self.n, self.n))
        identity[1:-1, 1:-1] = np.eye(self.n - 2)
        return np.concatenate([np.diff(identity, 2, axis=0), (identity[2:] - identity[:-2]) / 4])
