"""Delayed-acceptance Markov chains: a surrogate proposes, the solver has the last word.

The target is π(z) ∝ exp(−Φ(z)). Proposals are reversible for the Laplace approximation N(m, H⁻¹) of the surrogate's
posterior, with its MAP point m and its Gauss-Newton Hessian H (derivative-informed pCN):

    z' = m + √(1 − β²) (z − m) + β H^(−1/2) ξ,   ξ ~ N(0, I).

With Ψ(z) = Φ(z) − ½ (z − m)ᵀH(z − m), a proposal passes the first stage with probability min(1, exp(Ψ_θ(z) − Ψ_θ(z'))),
which needs no PDE solve. What passes is accepted with min(1, exp([Φ_θ − Φ](z') − [Φ_θ − Φ](z))). The chain samples the
solver's posterior, however wrong the surrogate is. A better surrogate is accepted more often at the second stage.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from stcl.inverse import Spectrum

Potential = Callable[[Tensor], Tensor]  # Φ [C] for z [C, d]


@dataclass(frozen=True)
class Chains:
    """What the chains visited, and how often each stage let a proposal pass."""

    z: Tensor  # [steps, C, d]
    promoted: int  # number of proposals that passed the first stage, each of which cost one solve
    accepted: int  # number of those that passed the second one

    @property
    def first_acceptance(self) -> float:
        return self.promoted / (self.z.shape[0] * self.z.shape[1])

    @property
    def second_acceptance(self) -> float:
        return self.accepted / max(1, self.promoted)

    def effective_samples_per_solve(self, burn_in: int) -> float:
        """The median over coordinates of the effective samples, over the solves of as many steps."""
        counted = self.z[burn_in:]
        solves = self.promoted * len(counted) / len(self.z)
        return float(effective_samples(counted).median()) / max(1.0, solves)


def sample(
    solver: Potential,
    surrogate: Potential | None,
    centre: Tensor,
    spectrum: Spectrum,
    chains: int,
    steps: int,
    beta: float,
    generator: torch.Generator,
) -> Chains:
    """Chains [steps, chains, d] that start from draws of the Laplace approximation at `centre` [d].

    `spectrum` [1, d, k] is that of the surrogate there. Without a surrogate, the Laplace approximation is one: it lets
    every proposal pass.
    """

    def normals() -> Tensor:
        return torch.randn(chains, len(centre), generator=generator, dtype=centre.dtype)

    def log_uniforms(count: int) -> Tensor:
        return torch.rand(count, generator=generator, dtype=centre.dtype).log()

    def laplace(z: Tensor) -> Tensor:
        return spectrum.precision(z - centre) / 2

    cheap = surrogate or laplace
    z = centre + spectrum.root(normals())
    exact, approximate = solver(z), cheap(z)
    visited, promoted, accepted = [], 0, 0
    for _ in range(steps):
        proposal = centre + math.sqrt(1 - beta**2) * (z - centre) + beta * spectrum.root(normals())
        cheap_there = cheap(proposal)
        first = (approximate - laplace(z)) - (cheap_there - laplace(proposal))
        passed = torch.nonzero(log_uniforms(chains) < first)[:, 0]  # a value that is not finite does not pass
        if len(passed):
            promoted += len(passed)
            there = solver(proposal[passed])
            second = (cheap_there[passed] - there) - (approximate[passed] - exact[passed])
            taken = log_uniforms(len(passed)) < second
            accepted += int(taken.sum())
            moved = passed[taken]
            z = z.clone()
            z[moved], exact[moved], approximate[moved] = proposal[moved], there[taken], cheap_there[moved]
        visited.append(z)
    return Chains(torch.stack(visited), promoted, accepted)


def effective_samples(z: Tensor) -> Tensor:
    """The number of independent samples [d] that the chains z [steps, C, d] are worth.

    The autocorrelation is about the mean of all chains, and its sum ends with the first pair of lags that is not
    positive (Geyer's initial positive sequence).
    """
    steps, chains, _ = z.shape
    centred = z - z.mean((0, 1))
    spectrum = torch.fft.rfft(centred, n=2 * steps, dim=0)
    covariance = torch.fft.irfft(spectrum.abs().square(), dim=0)[:steps].mean(1) / steps
    correlation = covariance / covariance[0].clamp_min(torch.finfo(z.dtype).tiny)
    pairs = correlation[: steps - steps % 2].reshape(steps // 2, 2, -1).sum(1)
    kept = (pairs > 0).long().cumprod(0)
    time = 2 * (pairs * kept).sum(0) - 1
    # Chains that swing from side to side have a short time, which may come out as zero or less. The bound is after
    # Stan, where N draws count for at most N log₁₀ N. With the 10 it is never above 1, the time of independent draws,
    # however few the steps are.
    return chains * steps / time.clamp_min(1 / math.log10(steps + 10))
