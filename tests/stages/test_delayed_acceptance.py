"""Delayed-acceptance chains against a posterior that is known, and the count of effective samples."""

import pytest
import torch

from stcl import inverse
from stcl.stages.delayed_acceptance import effective_samples, sample

DOUBLE = torch.float64


@pytest.fixture(scope="module")
def linear():
    """The potential of linear observations, with the mean and covariance of its posterior."""
    generator = torch.Generator().manual_seed(0)
    forward = torch.randn(3, 2, generator=generator, dtype=DOUBLE)
    data = torch.randn(3, generator=generator, dtype=DOUBLE)
    covariance = torch.linalg.inv(torch.eye(2, dtype=DOUBLE) + forward.T @ forward)

    def potential(z):
        return (z @ forward.T - data).square().sum(1) / 2 + z.square().sum(1) / 2

    return potential, forward, covariance @ forward.T @ data, covariance


def chains(potential, surrogate, centre, jacobian, **options):
    settings = {"chains": 200, "steps": 150, "beta": 0.8, "generator": torch.Generator().manual_seed(1)} | options
    return sample(potential, surrogate, centre, inverse.spectrum(jacobian[None]), **settings)


@pytest.mark.parametrize("proposals", ["exact", "shifted", "laplace"])
def test_chains_sample_the_posterior_of_the_solver(linear, proposals):
    """However wrong the surrogate and its Laplace approximation are. Tolerances are four standard errors."""
    potential, forward, mean, covariance = linear
    centre = mean if proposals == "exact" else mean + 0.4
    jacobian = forward if proposals == "exact" else 0.7 * forward

    def shifted(z):
        return potential(1.2 * z - 0.2)

    surrogate = {"exact": potential, "shifted": shifted, "laplace": None}[proposals]
    found = chains(potential, surrogate, centre, jacobian)
    kept = found.z[30:]
    error = (covariance.diagonal() / effective_samples(kept)).sqrt()
    assert ((kept.mean((0, 1)) - mean).abs() < 4 * error).all()
    flat = (kept - kept.mean((0, 1))).flatten(0, 1)
    spread = flat.T @ flat / len(flat)
    count = effective_samples(kept).min()
    assert ((spread - covariance).abs() < 4 * covariance.diagonal().max() * (2 / count).sqrt()).all()


def test_what_the_surrogate_knows_is_accepted(linear):
    """With the exact surrogate, whose posterior is its Laplace approximation, every proposal passes both stages."""
    potential, forward, mean, _ = linear
    found = chains(potential, potential, mean, forward, chains=20, steps=20, beta=1.0)
    assert found.first_acceptance == found.second_acceptance == 1.0
    assert found.effective_samples_per_solve(0) > 0.8  # independent draws, and one solve for each
    wrong = chains(potential, lambda z: potential(1.5 * z), mean, forward, chains=20, steps=20)
    assert wrong.second_acceptance < 0.9


def test_a_proposal_without_a_solution_is_refused(linear):
    """A chain may start without one, and leaves such a place for good."""
    potential, forward, mean, _ = linear

    def failing(z):
        return torch.where(z[:, 0] > mean[0], torch.inf, potential(z))

    found = chains(failing, None, mean, forward, chains=50, steps=40)
    unsolved = (found.z[:, :, 0] > mean[0]).long()
    assert 0 < unsolved[0].sum() > unsolved[-1].sum()
    assert (unsolved.diff(dim=0) <= 0).all()


def test_effective_samples_of_an_autoregression():
    """n (1 − ρ) / (1 + ρ) for each chain."""
    rho, steps = 0.6, 2000
    noise = torch.randn(steps, 10, 1, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
    rows = [noise[0]]
    for row in noise[1:]:
        rows.append(rho * rows[-1] + (1 - rho**2) ** 0.5 * row)
    expected = 10 * steps * (1 - rho) / (1 + rho)
    assert effective_samples(torch.stack(rows)).item() == pytest.approx(expected, rel=0.1)
    assert effective_samples(noise).item() == pytest.approx(10 * steps, rel=0.1)
