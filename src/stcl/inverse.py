"""Bayesian inverse problems with any torch model: the most probable input behind noisy data, and how sure it is.

    data = observe(S(a)) + noise · N(0, I),     a = prior(z),   z ~ N(0, I)

Everything happens in the whitened coordinates z of the prior. There the negative logarithm of the posterior is

    Φ(z) = ½ ‖(observe(S(prior(z))) − data) / noise‖² + ½ ‖z‖²,

and the Gauss-Newton Hessian is I + JᵀJ with J = D(observe ∘ S ∘ prior)(z) / noise. The eigenvalues of JᵀJ say how much
more the data know than the prior: along an eigenvector the prior's variance 1 becomes 1/(1 + λ).

J is formed by forward mode, all columns in one pass of the model. So a step costs as many tangents as z has entries:
describe the prior by its leading modes, `Prior.leading`. All inverse problems of a batch are solved at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stcl.tangents import value_and_tangents

Map = Callable[[Tensor], Tensor]

STEPS, TOLERANCE = 60, 1e-3
FIRST_DAMPING = 1e-2  # after a first step that did not reduce Φ; the Hessian's eigenvalues are at least 1
ACCEPTED = 1e-3  # least share of the predicted reduction of Φ with which a step is taken


@dataclass(frozen=True)
class Prior:
    """a = field(z) for coordinates z [B, dimension] that are standard normal. `field` is smooth."""

    field: Map
    dimension: int

    @classmethod
    def gaussian(cls, mean: Tensor, factor: Tensor) -> "Prior":
        """a = mean + Σ_k z_k factor[k], for a factor [dimension, *mean.shape] whose covariance is Σ_k f_k f_kᵀ."""
        if factor.shape[1:] != mean.shape:
            raise ValueError(f"expected a factor of shape (dimension, {tuple(mean.shape)}), got {tuple(factor.shape)}")
        return cls(lambda z: mean.to(z) + torch.tensordot(z, factor.to(z), 1), len(factor))

    @classmethod
    def leading(cls, field: Map, shape: Sequence[int], count: int, dtype: torch.dtype = torch.float64) -> "Prior":
        """The `count` leading modes of a prior that is given as a map of standard normals [..., *shape] to inputs.

        They are the directions of the normals along which the input varies most at z = 0, found by a singular value
        decomposition. Directions along which it does not vary are left out, so there may be fewer.
        """
        size = math.prod(shape)
        slopes = torch.func.vmap(lambda v: torch.func.jvp(field, (torch.zeros_like(v),), (v,))[1])
        columns = slopes(torch.eye(size, dtype=dtype).reshape(size, *shape)).reshape(size, -1)
        modes, deviations, _ = torch.linalg.svd(columns, full_matrices=False)
        kept = min(count, int((deviations > 1e-8 * deviations[0]).sum()))
        modes = modes[:, :kept].T.contiguous()
        return cls(lambda z: field((z @ modes.to(z)).reshape(*z.shape[:-1], *shape)), kept)

    def __call__(self, z: Tensor) -> Tensor:
        return self.field(z)


class Sensors:
    """Point observations: each of `fields` leading fields of a response [..., *grid], linear between the nodes.

    `points` [m, axes] are in the units of `coordinates`, which holds the nodes of each axis. The observations are
    [..., fields · m], or [..., m] of a response without an axis of fields.
    """

    def __init__(self, points: np.ndarray, coordinates: Sequence[np.ndarray], fields: int | None = None) -> None:
        points = np.asarray(points, dtype=float)
        if points.size == 0:
            raise ValueError("there are no sensors; give at least one point")
        if points.ndim != 2 or points.shape[1] != len(coordinates):
            raise ValueError(
                f"expected points of shape (m, {len(coordinates)}), one number an axis, got {points.shape}"
            )
        weights = np.ones((len(points), 1))
        for axis, nodes in enumerate(map(np.asarray, coordinates)):
            outside = np.flatnonzero((points[:, axis] < nodes[0]) | (points[:, axis] > nodes[-1]))
            if outside.size:
                raise ValueError(
                    f"sensor {outside[0]} at {points[outside[0]].tolist()} is outside the grid, which reaches from "
                    f"{nodes[0]:g} to {nodes[-1]:g} along axis {axis}"
                )
            hats = np.stack([np.interp(points[:, axis], nodes, row) for row in np.eye(len(nodes))], 1)
            weights = (weights[:, :, None] * hats[:, None]).reshape(len(points), -1)
        self.points, self.fields, self.axes = points, fields, len(coordinates)
        self.matrix = torch.from_numpy(weights.T.copy())

    def __call__(self, u: Tensor) -> Tensor:
        values = u.flatten(-self.axes) @ self.matrix.to(u)
        return values if self.fields is None else values[..., : self.fields, :].flatten(-2)

    def value_and_tangents(self, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """The map is linear: tangents w, [B, q, ...] or [q, ...] for the whole batch, are observed as responses are."""
        observed = self(w)
        return self(u), observed.expand(len(u), *observed.shape) if w.ndim == u.ndim else observed


@dataclass(frozen=True)
class Linearisation:
    """Predicted observations y [B, m] at z [B, d] and their derivative [B, m, d], both divided by the noise."""

    y: Tensor
    jacobian: Tensor

    def gradient(self, data: Tensor) -> Tensor:
        """The gradient Jᵀ(y − data) of the misfit ½‖y − data‖², [B, d], for data that are divided by the noise."""
        return torch.einsum("bmd,bm->bd", self.jacobian, self.y - data)

    def misfit(self, data: Tensor) -> Tensor:
        return (self.y - data).square().sum(1) / 2


def linearise(model: Map, observe: Map, noise: float | Tensor, prior: Prior, z: Tensor) -> Linearisation:
    """What the model predicts at z [B, d], and J, for a noise of one number or of [m]: three forward-mode passes."""
    identity = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    with torch.no_grad():
        a, v = value_and_tangents(prior, z, identity)
        u, w = value_and_tangents(model, a, v)
        y, columns = value_and_tangents(observe, u, w)
    return Linearisation(y.to(z) / noise, (columns.to(z) / noise).transpose(1, 2))


@dataclass(frozen=True)
class MapPoint:
    """The most probable inputs of a batch of inverse problems, and how they were found."""

    z: Tensor  # [B, d], in whitened coordinates
    a: Tensor  # [B, ...], the inputs
    objective: Tensor  # Φ(z) [B]
    misfit: Tensor  # ½‖(y − data) / noise‖² [B]
    gradient: Tensor  # ∇Φ(z) [B, d]
    jacobian: Tensor  # J [B, m, d], divided by the noise
    decrement: Tensor  # the Newton decrement ½ ∇Φᵀ(I + JᵀJ)⁻¹∇Φ at z [B]
    converged: Tensor  # whether it is below tolerance² · Φ [B]
    evaluations: Tensor  # how often the model and its tangents were evaluated [B]
    path: Tensor  # z after every step [steps + 1, B, d]; one that has ended repeats its last
    path_misfit: Tensor  # [steps + 1, B]

    @property
    def spectrum(self) -> "Spectrum":
        return spectrum(self.jacobian)


def map_point(
    model: Map,
    observe: Map,
    data: Tensor,
    noise: float | Tensor,
    prior: Prior,
    start: Tensor | None = None,
    steps: int = STEPS,
    tolerance: float = TOLERANCE,
) -> MapPoint:
    """The minimisers of Φ for data [B, m], by damped Gauss-Newton steps from `start` [B, d] or the prior's mean.

    `noise` is the standard deviation of all observations, or that of each, [m].
    A step solves (I + JᵀJ + µI) s = −∇Φ. The damping µ is zero until a step fails to reduce Φ. An inverse problem ends
    when the Newton decrement ½ ∇Φᵀ(I + JᵀJ)⁻¹∇Φ falls below tolerance² · Φ. Then z is within tolerance · √(2Φ) of the
    minimiser in units of the posterior's standard deviation. z has the type and device of the data, which should be
    those of the model.

    >>> import torch, stcl.inverse
    >>> prior = stcl.inverse.Prior.gaussian(torch.zeros(1), torch.ones(1, 1))
    >>> found = stcl.inverse.map_point(lambda a: 2 * a, lambda u: u, torch.tensor([[3.0]]), 1.0, prior)
    >>> found.a  # (2 · 3) / (1 + 2²)
    tensor([[1.2000]])
    """
    noise = _checked(data, noise)
    scaled = data / noise
    z = data.new_zeros(len(data), prior.dimension) if start is None else start.to(data, copy=True)
    if z.shape != (len(data), prior.dimension):
        raise ValueError(f"expected a start of shape {(len(data), prior.dimension)}, got {tuple(z.shape)}")

    at = linearise(model, observe, noise, prior, z)
    if at.y.shape != data.shape:
        raise ValueError(f"expected data of shape {tuple(at.y.shape)}, as observe gives, got {tuple(data.shape)}")
    if not (bool(at.y.isfinite().all()) and bool(at.jacobian.isfinite().all())):
        raise ValueError("predictions or tangents are not finite at the start; give a start where the model works")
    y, jacobian = at.y, at.jacobian
    damping, evaluations = data.new_zeros(len(data)), torch.ones(len(data), dtype=torch.long, device=data.device)
    path, path_misfit = [z.clone()], [at.misfit(scaled)]
    active = torch.arange(len(data), device=data.device)
    for _ in range(steps):
        here = Linearisation(y[active], jacobian[active])
        objective = here.misfit(scaled[active]) + z[active].square().sum(1) / 2
        gradient = here.gradient(scaled[active]) + z[active]
        step, decrement, predicted = _step(here.jacobian, gradient, damping[active])
        visible = predicted > 2 * torch.finfo(z.dtype).eps * objective
        going = (decrement > tolerance**2 * objective) & visible
        active, step, predicted, objective = active[going], step[going], predicted[going], objective[going]
        if not len(active):
            break
        trial = z[active] + step
        there = linearise(model, observe, noise, prior, trial)
        evaluations[active] += 1
        reached = there.misfit(scaled[active]) + trial.square().sum(1) / 2
        better = objective - reached > ACCEPTED * predicted  # a Φ that is not finite is not better, either
        moved = active[better]
        z[moved], y[moved], jacobian[moved] = trial[better], there.y[better], there.jacobian[better]
        damping[active] = _damped(damping[active], better, (objective - reached) / predicted)
        path.append(z.clone())
        path_misfit.append(Linearisation(y, jacobian).misfit(scaled))
    final = Linearisation(y, jacobian)
    misfit = final.misfit(scaled)
    gradient = final.gradient(scaled) + z
    objective = misfit + z.square().sum(1) / 2
    decrement = _step(jacobian, gradient, damping)[1]
    return MapPoint(
        z=z,
        a=prior(z),
        objective=objective,
        misfit=misfit,
        gradient=gradient,
        jacobian=jacobian,
        decrement=decrement,
        converged=decrement <= tolerance**2 * objective,
        evaluations=evaluations,
        path=torch.stack(path),
        path_misfit=torch.stack(path_misfit),
    )


def _checked(data: Tensor, noise: float | Tensor) -> Tensor:
    """The noise as a tensor, one number or [m], if it and data [B, m] are what `map_point` can take."""
    if not isinstance(data, Tensor):
        kind = type(data).__name__
        raise ValueError(
            f"expected data as a tensor of the model's type, got {kind}; use torch.as_tensor(data, dtype=…)"
        )
    if data.ndim != 2:
        hint = "one problem is data[None]" if data.ndim == 1 else "flatten what a problem observes: data.flatten(1)"
        raise ValueError(f"expected data of shape (B, m) for B inverse problems, got {tuple(data.shape)}; {hint}")
    if data.shape[1] == 0:
        raise ValueError(f"there are no sensors: expected data of shape (B, m) with m >= 1, got {tuple(data.shape)}")
    if not bool(torch.isfinite(data).all()):
        raise ValueError("the data have values that are not finite; check what was observed")
    noise = torch.as_tensor(noise, dtype=data.dtype, device=data.device)
    if noise.ndim and noise.shape != data.shape[1:]:
        raise ValueError(
            f"expected the noise of all observations, or of each of {data.shape[1]}, got shape {tuple(noise.shape)}"
        )
    if not bool((noise.isfinite() & (noise > 0)).all()):
        raise ValueError(f"the noise must be positive and finite, got {noise.tolist()}; it is a standard deviation")
    return noise


def _step(jacobian: Tensor, gradient: Tensor, damping: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The damped step, the Newton decrement, and by how much the quadratic model says that the step reduces Φ."""
    identity = torch.eye(jacobian.shape[2], dtype=jacobian.dtype, device=jacobian.device)
    hessian = jacobian.mT @ jacobian + identity
    newton = -_solve(hessian, gradient)
    step = -_solve(hessian + damping[:, None, None] * identity, gradient)
    bent = torch.einsum("bi,bij,bj->b", step, hessian, step)
    return step, -(gradient * newton).sum(1) / 2, -(gradient * step).sum(1) - bent / 2


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    return torch.linalg.solve(hessian, gradient.unsqueeze(-1)).squeeze(-1)


def _damped(damping: Tensor, better: Tensor, gain: Tensor) -> Tensor:
    """The damping of the next step: ten times as large after a failure, a tenth after a good step."""
    more = torch.where(damping > 0, 10 * damping, FIRST_DAMPING)
    less = torch.where(gain > 0.75, damping / 10, damping)
    return torch.where(better, less, more)


@dataclass(frozen=True)
class Spectrum:
    """The leading eigenpairs of JᵀJ, the prior-preconditioned Gauss-Newton Hessian of the misfit."""

    eigenvalues: Tensor  # [B, k], descending
    eigenvectors: Tensor  # [B, d, k]

    @property
    def information_gain(self) -> Tensor:
        """½ Σ log(1 + λ) [B]: the expected information gain in nats, if the map is as linear as it is at z."""
        return torch.log1p(self.eigenvalues).sum(1) / 2

    @property
    def covariance(self) -> Tensor:
        """(I + JᵀJ)⁻¹ [B, d, d], the covariance of the Laplace approximation of the posterior in z."""
        shrunk = self.eigenvalues / (1 + self.eigenvalues)
        identity = torch.eye(self.eigenvectors.shape[1], dtype=shrunk.dtype, device=shrunk.device)
        return identity - (self.eigenvectors * shrunk[:, None]) @ self.eigenvectors.mT

    def root(self, xi: Tensor) -> Tensor:
        """(I + JᵀJ)^(−1/2) ξ for ξ [B, d]: draws of the Laplace approximation from standard normals."""
        change = (1 + self.eigenvalues) ** -0.5 - 1
        return xi + (self.eigenvectors @ (change * (self.eigenvectors.mT @ xi[..., None])[..., 0])[..., None])[..., 0]

    def precision(self, x: Tensor) -> Tensor:
        """xᵀ(I + JᵀJ)x [B] for x [B, d]."""
        along = (self.eigenvectors.mT @ x[..., None])[..., 0]
        return x.square().sum(-1) + (self.eigenvalues * along.square()).sum(-1)


def spectrum(jacobian: Tensor) -> Spectrum:
    """The min(m, d) leading eigenpairs of JᵀJ for J [B, m, d] divided by the noise; all others are zero."""
    _, singular, rows = torch.linalg.svd(jacobian, full_matrices=False)
    return Spectrum(singular.square(), rows.mT)


def subspace_angle(first: Tensor, second: Tensor) -> Tensor:
    """The largest principal angle [B], in degrees, between the spans of orthonormal columns [B, d, k]."""
    cosines = torch.linalg.svdvals(first.mT @ second).clamp(max=1)
    return torch.rad2deg(torch.arccos(cosines[:, -1]))
