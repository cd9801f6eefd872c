"""How far data are from solving a discrete equation, in units of the responses themselves.

F(u, a) at data has the units of the equation, and it is rough where u is rounded or noisy. So it is measured by the
change of u that would remove it: d = A⁻¹ F(u, a), one Newton step, among smooth changes alone (Galerkin's method with
polynomials of low degree). Rounding, noise and the finest scales of a discretisation hardly enter d. A wrong sign,
factor, term or argument does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.tangent.scalar_factors import ScalarFactors
from stcl.tangent.unknowns import Unknowns

Residual = Callable[[Tensor, Tensor], Any]

SAMPLES = 16  # pairs (a, u) that are looked at
PROBED = 4  # of these, samples at which A is probed and the equation is compared with mismatched pairs
MODES = 25  # smooth changes of each response
ROW = 1e-9  # norms of the rows of A that are rounding, relative to the largest: constants in a periodic domain have one
SINGULAR = 1e-6  # singular values below it, relative to the largest, count as zero: a pressure has a free constant
TANGENTS = 8  # stored tangents of each sample that are put into the equation
LEFT = 0.5  # share of a smooth residual that a correction must remove, if its size is to say something
LOOKED_AT = 1024  # pairs of which F alone is evaluated
STANDS_OUT = 100.0  # |F| of a sample over the median, from which on it is looked at more closely
STEP = 0.01  # of the difference of two responses, by which u is moved to see whether F has a slope there


@dataclass(frozen=True)
class Agreement:
    """What was measured at pairs (aᵢ, uᵢ), with dᵢⱼ = Aᵢ⁻¹ F(uⱼ, aᵢ) among smooth changes. All are without units.

    Sizes are root mean squares over nodes, fields and samples, each field relative to its own. What needs other samples
    is None where there are none.
    """

    distance: float  # ‖dᵢᵢ‖/‖uᵢ‖: what is missing to a solution
    differences: float | None = None  # ‖dᵢᵢ − d̄‖/‖uᵢ − ū‖: how wrong differences between samples are
    mismatched: float | None = None  # median of ‖dᵢᵢ‖ over the median of ‖dᵢⱼ‖: 1 if another's response fits as well
    wins: float | None = None  # share of the mismatched pairs that fit worse than the pair itself
    pairs: int = 0  # number of those pairs
    bend: float = 0.0  # even over odd part of F(u ± δ, a) in δ: 0 for a linear residual, infinite for a squared one


class Smooth:
    """Smooth changes of the unknowns of an equation, and the corrections of u among them."""

    def __init__(self, residual: Residual, layout: Layout, u: Tensor, a: Tensor) -> None:
        self.residual, self.layout = residual, layout
        self.unknowns = Unknowns(residual(u[:1], a[:1]), layout)
        fields = len(layout.responses)
        each = max(round(MODES ** (1 / len(layout.grid))), 3)
        modes = reduce(_products, (_polynomials(n, min(each, n - 2), u) for n in layout.grid)).flatten(1)
        of_fields = torch.einsum("fg,kn->fkgn", torch.eye(fields).to(u), modes).flatten(0, 1)
        self.modes = self._orthonormal(of_fields.reshape(-1, *layout.response_shape))
        values = self.unknowns.restrict(u)
        of_response = [self.unknowns.response == field for field in range(fields)]
        sizes = torch.stack([values[:, one].square().mean().sqrt() for one in of_response])
        self.sizes = torch.where(sizes > 0, sizes, 1)[self.unknowns.response]

    def _orthonormal(self, fields: Tensor) -> Tensor:
        return torch.linalg.qr(self.unknowns.restrict(fields).T)[0].T

    def relative(self, u: Tensor) -> Tensor:
        """u at the unknowns [..., unknowns], over the size of each field."""
        return self.unknowns.restrict(u) / self.sizes

    def equations(self, u: Tensor, a: Tensor) -> Tensor:
        """F(u, a) as vectors [B, unknowns]."""
        return self.unknowns.join(self.residual(u, a), batch_axes=1)

    def state_derivative(self, u: Tensor, a: Tensor, w: Tensor) -> Tensor:
        """A w [k, unknowns] at one state u [1, ...], a [1, ...], for w [k, *response_shape]."""
        return self._along(lambda one: (one, torch.zeros_like(a)), u, a, w)

    def input_derivative(self, u: Tensor, a: Tensor, v: Tensor) -> Tensor:
        """B v [k, unknowns] at one state u [1, ...], a [1, ...], for v [k, *input_shape]."""
        return self._along(lambda one: (torch.zeros_like(u), one), u, a, v)

    def _along(
        self, both: Callable[[Tensor], tuple[Tensor, Tensor]], u: Tensor, a: Tensor, directions: Tensor
    ) -> Tensor:
        """DF(u, a) [k, unknowns] along pairs that `both` makes of directions [k, ...], one by one.

        Both arguments have a tangent, if only zeros: torch would import its compiler for one that has none.
        """
        with ScalarFactors():
            return torch.func.vmap(lambda one: torch.func.jvp(self.equations, (u, a), both(one[None]))[1][0])(
                directions
            )

    def correction(self, u: Tensor, a: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The map of r [k, unknowns] to A⁻¹ r, in units of `relative`, at one state u [1, ...], a [1, ...].

        Beside it stands the share [k] of the smooth part of r that is left, because A is singular.
        """
        matrix = self.modes @ self.state_derivative(u, a, self.unknowns.embed(self.modes * self.sizes)).T
        rows = matrix.norm(dim=1)
        rows = torch.where(rows > ROW * rows.max(), rows, rows.max().clamp_min(1e-300))  # rounding is not scaled up
        matrix = matrix / rows[:, None]
        inverse = torch.linalg.pinv(matrix, rtol=SINGULAR)

        def solve(r: Tensor) -> tuple[Tensor, Tensor]:
            smooth = r @ self.modes.T / rows
            found = smooth @ inverse.T
            return found @ self.modes, (smooth - found @ matrix.T).norm(dim=1) / smooth.norm(dim=1).clamp_min(1e-300)

        return solve


def agreement(residual: Residual, layout: Layout, a: Tensor, u: Tensor) -> Agreement:
    """How well F(u, a) = 0 holds at inputs a [B, *input_shape] and their responses u [B, *response_shape]."""
    a, u = a[:SAMPLES], u[:SAMPLES]
    smooth = Smooth(residual, layout, u, a)
    responses = smooth.relative(u)
    own, fits, better = [], [], []
    for i in range(min(PROBED, len(a))):
        corrections, _ = smooth.correction(u[i : i + 1], a[i : i + 1])(smooth.equations(u, a[i : i + 1].expand_as(a)))
        size = corrections.norm(dim=1)
        others = size[[bool((a[j] != a[i]).any()) and bool(size[j].isfinite()) for j in range(len(a))]]
        own.append(corrections[i])
        if len(others):
            fits.append(size[i] / others.median())
            better.append(size[i] < others)
    missing, found = torch.stack(own), responses[: len(own)]
    distance = max(float(missing.norm() / found.norm()), _off_grid(smooth, u, a))
    spread = float((found - found.mean(0)).norm())
    return Agreement(
        distance,
        float((missing - missing.mean(0)).norm()) / spread if spread > 0 else None,
        float(torch.stack(fits).median()) if fits else None,
        float(torch.cat(better).double().mean()) if better else None,
        sum(map(len, better)),
        _bend(smooth, u, a),
    )


def unsolved(residual: Residual, layout: Layout, a: Tensor, u: Tensor) -> tuple[list[int], float]:
    """The samples whose |F(u, a)| is far above the median of all, and the distance ‖d‖/‖u‖ of the worst of them.

    `agreement` looks at few samples. A solver that did not converge for some others leaves such ones behind.
    """
    a, u = a[:LOOKED_AT], u[:LOOKED_AT]
    smooth = Smooth(residual, layout, u[:SAMPLES], a[:SAMPLES])
    few = zip(u.split(SAMPLES), a.split(SAMPLES), strict=True)
    size = torch.cat([smooth.equations(*pairs).norm(dim=1) for pairs in few]).nan_to_num(math.inf)
    found = torch.nonzero(size > STANDS_OUT * size.median())[:, 0].tolist()
    if not found:
        return [], 0.0
    worst = int(size.argmax())
    pair = u[worst : worst + 1], a[worst : worst + 1]
    missing, _ = smooth.correction(*pair)(smooth.equations(*pair))
    return found, float(missing.norm() / smooth.relative(pair[0]).norm())


def distance_of(residual: Residual, layout: Layout, a: Tensor, u: Tensor) -> float:
    """The distance of `agreement` alone; infinite where it says nothing, because A is singular or not finite."""
    a, u = a[:PROBED], u[:PROBED]
    smooth = Smooth(residual, layout, u, a)
    missing = []
    for i in range(len(a)):
        pair = u[i : i + 1], a[i : i + 1]
        correction, left = smooth.correction(*pair)(smooth.equations(*pair))
        if not float(left) < LEFT:
            return math.inf
        missing.append(correction)
    distance = float(torch.cat(missing).norm() / smooth.relative(u).norm())
    return distance if math.isfinite(distance) else math.inf


def _bend(smooth: Smooth, u: Tensor, a: Tensor) -> float:
    """‖F(u + δ) + F(u − δ) − 2 F(u)‖/‖F(u + δ) − F(u − δ)‖ for a small part δ of the difference of two responses.

    Where all are the same, δ is a part of them, and where they are zero it is constant.
    """
    others = [other for other in u if not torch.equal(other, u[0])]
    apart = others[0] - u[0] if others else u[0]
    move = STEP * (apart if apart.any() else torch.ones_like(apart))[None]
    here, ahead, behind = (smooth.equations(x, a[:1]) for x in (u[:1], u[:1] + move, u[:1] - move))
    slope = float((ahead - behind).norm())
    return float((ahead + behind - 2 * here).norm()) / slope if slope > 0 else math.inf


def _off_grid(smooth: Smooth, u: Tensor, a: Tensor) -> float:
    """What blocks off the grid, such as boundary values, leave; over what they leave of random fields of u's size."""
    if smooth.unknowns.all_on_grid:
        return 0.0
    u, a = u[:PROBED], a[:PROBED]
    size = u.square().mean((0, *range(-len(smooth.layout.grid), 0)), keepdim=True).sqrt()
    signs = torch.randint(2, u.shape, generator=torch.Generator().manual_seed(0)).to(u) * 2 - 1
    here, there = (smooth.unknowns.off_grid(smooth.residual(x, a)) for x in (u, u + signs * size))
    changed = float((there - here).norm())
    return float(here.norm()) / changed if changed else 0.0


def _polynomials(nodes: int, count: int, like: Tensor) -> Tensor:
    """Orthonormal polynomials of the lowest degrees at equal distances, [count, nodes]."""
    x = torch.linspace(-1, 1, nodes, dtype=torch.float64)
    chebyshev = torch.cos(torch.arange(count, dtype=torch.float64) * torch.acos(x)[:, None])
    return torch.linalg.qr(chebyshev)[0].T.to(like)


def _products(one: Tensor, other: Tensor) -> Tensor:
    """All products of functions [k, ...] and [l, m] as [k·l, ..., m]."""
    return (one.unsqueeze(1).unsqueeze(-1) * other.reshape(1, len(other), *[1] * (one.ndim - 1), -1)).flatten(0, 1)


def tangent_agreement(residual: Residual, layout: Layout, a: Tensor, u: Tensor, v: Tensor, w: Tensor) -> Agreement:
    """How well A w + B v = 0 holds for stored tangents w [B, r, *tangent_shape] along v [r, *input_shape].

    Distances are ‖d‖/‖w‖ with d = A⁻¹(A w + B v) among smooth changes, and mismatched pairs are (w_l, v_k). Responses
    that are not scored have no stored tangent: they come out of d, and only the scored part of it counts.
    """
    a, u, v, w = a[:PROBED], u[:PROBED], v[:TANGENTS], w[:PROBED, :TANGENTS]
    smooth = Smooth(residual, layout, u, a)
    scored = smooth.unknowns.response < len(layout.scored)
    own, fits, better, lengths = [], [], [], []
    for i in range(len(a)):
        at, state = a[i : i + 1], u[i : i + 1]
        tangents = w.new_zeros(w.shape[1], len(layout.responses), *layout.grid)
        tangents[:, : len(layout.scored)] = w[i].reshape(w.shape[1], len(layout.scored), *layout.grid)
        tangents = tangents.reshape(-1, *layout.response_shape)
        r = smooth.input_derivative(state, at, v)[:, None] + smooth.state_derivative(
            state, at, tangents
        )  # B v_k + A w_l
        d = smooth.correction(state, at)(r.flatten(0, 1))[0].unflatten(0, r.shape[:2])[..., scored]
        size = d.norm(dim=-1)
        others = ~torch.eye(len(v), dtype=torch.bool, device=size.device)
        own.append(size.diagonal())
        lengths.append(smooth.relative(tangents)[:, scored].norm(dim=1))
        for k in range(len(v)):
            fits.append(size[k, k] / size[k][others[k]].median())
            better.append(size[k, k] < size[k][others[k]])
    distance = float(torch.stack(own).norm() / torch.stack(lengths).norm())
    wins = float(torch.cat(better).double().mean())
    return Agreement(distance, distance, float(torch.stack(fits).median()), wins, sum(map(len, better)))
