"""The Helmholtz equation in a random medium, the symmetric indefinite benchmark."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stcl.core.arrays import check_fields, like
from stcl.problems._block_tridiagonal import BlockTridiagonal
from stcl.problems._square import (
    ScalarOnSquare,
    cosines,
    factorise_five_point,
    inner,
    laplacian,
    solve_onto,
    tangent_defect,
    zero_boundary,
)
from stcl.problems.base import SolveError

COLUMNS = 96  # number of directions that are solved together

SOLVE_TOLERANCE = 1e-9  # largest residual of a solution, relative to its largest term


@dataclass(frozen=True)
class Helmholtz(ScalarOnSquare):
    """(−Δ − κ² e²ᵃ) u = f  on (0,1)²,  u = 0 on the boundary.

    input     a   log-refraction at the n×n nodes, Σ ξ_kl (12.5 + π²(k²+l²)/2)⁻¹ cos(kπx1) cos(lπx2), ξ normal
    response  u   at the n×n nodes
    tangent   w   (−Δ − κ² e²ᵃ) w = 2κ² e²ᵃ u v,  w = 0 on the boundary

    The Laplacian is the five-point one at the interior nodes. κ² = 25 lies above the first eigenvalue 2π² of −Δ, so the
    operator, which is symmetric, almost always has one negative eigenvalue. Near-resonant draws have huge responses,
    and `accept` leaves them out of the dataset.
    """

    n: int = 65  # nodes per side, boundary included
    kappa: float = 5.0  # wave number where a = 0
    modes: int = 40  # cosines per axis in the prior

    tangent_class = "indefinite"
    tangent_tolerance = 1e-8
    resonant = True
    input_seed = {"train": 1, "val": 2, "test": 3}
    direction_seed = {"train": 10_007, "val": 10_009, "test": 10_010, "sketch": 2027}  # val is not published

    def __post_init__(self) -> None:
        if self.n < 4:
            raise ValueError(f"helmholtz needs n >= 4 nodes per side, got {self.n}")
        if not 0 < self.kappa < np.inf:
            raise ValueError(f"the wave number kappa must be positive and finite, got {self.kappa}")
        if self.modes < 1:
            raise ValueError(f"the prior needs modes >= 1, got {self.modes}")

    @property
    def wave_number(self) -> float:
        return self.kappa

    @cached_property
    def source(self) -> np.ndarray:
        """The source f at the interior nodes, a bump of height 1 and width 0.08."""
        bump1, bump2 = (np.exp(-((self.nodes[1:-1] - c) ** 2) / (2 * 0.08**2)) for c in (0.258, 0.833))
        return np.outer(bump1, bump2)

    # -- prior ------------------------------------------------------------------------------------------------

    @cached_property
    def _prior(self) -> tuple[np.ndarray, np.ndarray]:
        """The standard deviation of each cosine pair (k, l), and the cosines."""
        k = np.arange(self.modes)
        deviation = 1.0 / (12.5 + 0.5 * np.pi**2 * (k[:, None] ** 2 + k**2))
        return deviation, cosines(self.modes, self.nodes)

    def _fields(self, noise):
        deviation, basis = (like(noise, table) for table in self._prior)
        return basis.T @ (noise * deviation) @ basis

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (self.modes, self.modes)

    def candidates(self, count: int) -> int:
        return 2 * count

    def accept(self, u: np.ndarray) -> np.ndarray:
        """Whether the norm of each response is at most three times the median of all. Near-resonant ones are larger."""
        norm = np.linalg.norm(u.astype(np.float32), axis=(1, 2))
        return norm <= 3 * np.median(norm)

    # -- reference solver -------------------------------------------------------------------------------------

    def solve(self, a: np.ndarray) -> np.ndarray:
        check_fields("log-refractions a", a, (self.n, self.n))
        u = np.zeros_like(a)
        for i in range(len(a)):
            solve_onto(self._factorise(a[i]), self.source[None, :, :, None].copy(), u[i : i + 1, None])
            self.counts["solves"] += 1
        largest = np.linalg.norm(self.source) + np.linalg.norm(laplacian(u, self.h), axis=(1, 2))
        solved = np.linalg.norm(self._residual(u, self._potential(a)), axis=(1, 2)) <= SOLVE_TOLERANCE * largest
        if not solved.all():  # a u that is not finite is not solved, either
            raise SolveError(
                f"helmholtz: samples {np.flatnonzero(~solved)[:5].tolist()} of this chunk leave a residual above "
                f"{SOLVE_TOLERANCE:g}; they are resonant to rounding, draw others or change kappa = {self.kappa:g}"
            )
        return u

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        check_fields("log-refractions a", a, (self.n, self.n))
        check_fields("responses u", u, (self.n, self.n))
        check_fields("directions v", v, (self.n, self.n))
        factor = 2 * inner(self._potential(a) * u)
        interior_v = np.ascontiguousarray(np.moveaxis(inner(v), 0, -1))
        w = np.zeros((len(a), len(v), self.n, self.n))
        for i in range(len(a)):  # one sample at a time keeps its right-hand sides in the cache
            operator = self._factorise(a[i])
            for start in range(0, len(v), COLUMNS):
                few = slice(start, start + COLUMNS)
                solve_onto(operator, (factor[i, :, :, None] * interior_v[..., few])[None], w[i : i + 1, few])
        self.counts["solves"] += len(a) * len(v)
        return w

    def tangent_defect(self, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        return tangent_defect(lambda u, a: self._residual(u, self._potential(a)), u, a, w, v, self.h)

    def _potential(self, a: np.ndarray) -> np.ndarray:
        return self.kappa**2 * np.exp(2 * a)

    def _residual(self, u, potential):
        """(−Δₕ − κ² e²ᵃ) u − f at the interior nodes for the potential κ² e²ᵃ, numpy or torch."""
        return -laplacian(u, self.h) - inner(potential * u) - like(u, self.source)

    def _factorise(self, a: np.ndarray) -> BlockTridiagonal:
        """The factorised operator −Δₕ − κ² e²ᵃ for one a."""
        neighbour = np.full((1, self.n - 2, self.n - 2), -1 / self.h**2)
        self.counts["factorisations"] += 1
        return factorise_five_point(
            4 / self.h**2 - inner(self._potential(a))[None], (neighbour, neighbour), (neighbour, neighbour)
        )

    # -- the equation -----------------------------------------------------------------------------------------

    def residual(self, u, a):
        """(−Δₕ − κ² e²ᵃ) u − f at the interior nodes, [..., n-2, n-2].

        Boundary values of u do not enter: the equation holds for the field that vanishes there.
        """
        return self._residual(zero_boundary(u), self.kappa**2 * (2 * a).exp())

    def five_coefficients(self, u, a):
        """A: 4/h² − κ² e²ᵃ at the node, −1/h² at its neighbours."""
        centre = 4 / self.h**2 - self._inner_potential(a)
        return centre, *[like(u, self._neighbour)] * 4

    def tangent_residual(self, u, a, w, v):
        """A w − 2κ² e²ᵃ u v written out, with few operations."""
        import torch

        from stcl.core.neighbours import FIVE_POINT_INSIDE, weighted_sum

        r = weighted_sum(w, self.five_coefficients(u, a), FIVE_POINT_INSIDE)
        return torch.addcmul(r, self._inner_potential(a) * inner(u).unsqueeze(1), inner(v), value=-2)

    def input_derivative(self, u, a, v):
        """−2κ² e²ᵃ u v."""
        return self._inner_potential(a) * (-2 * inner(u).unsqueeze(1)) * inner(v)

    def _inner_potential(self, a):
        """κ² e²ᵃ at the interior nodes, [B, 1, m, m]."""
        return self.kappa**2 * (2 * inner(a).unsqueeze(1)).exp()

    @cached_property
    def _neighbour(self) -> np.ndarray:
        return np.full((1, 1, 1, 1), -1 / self.h**2)
