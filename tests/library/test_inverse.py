"""Inverse problems against closed forms, finite differences and another optimiser."""

import math

import numpy as np
import pytest
import torch

from stcl import inverse
from stcl.inverse import Prior, Sensors

DOUBLE = torch.float64


def normals(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@pytest.fixture(scope="module")
def linear():
    """G a with a ~ N(mean, F Fᵀ): the posterior is known in the space of a, whatever coordinates are used."""
    forward, mean, factor = normals(7, 5), normals(5, seed=1), normals(4, 5, seed=2)
    data, noise = normals(3, 7, seed=3), 0.3
    covariance = factor.T @ factor
    observed = forward @ covariance @ forward.T + noise**2 * torch.eye(7, dtype=DOUBLE)
    gain = torch.linalg.solve(observed, forward @ covariance).T
    found = inverse.map_point(lambda a: a @ forward.T, lambda u: u, data, noise, Prior.gaussian(mean, factor))
    return found, factor, mean + (data - mean @ forward.T) @ gain.T, covariance - gain @ forward @ covariance, observed


def test_linear_gaussian_map(linear):
    found, _, mean, *_ = linear
    torch.testing.assert_close(found.a, mean, rtol=1e-10, atol=1e-10)
    assert found.converged.all()
    assert (found.evaluations == 2).all()  # one step solves a linear problem


def test_the_last_step_that_is_allowed_counts():
    """One step solves a linear problem. The decrement is that of the point which is given back: ½ gᵀ(I + JᵀJ)⁻¹g."""
    forward, data = normals(5, 3, seed=20), normals(2, 5, seed=21)
    prior = Prior.gaussian(torch.zeros(3, dtype=DOUBLE), torch.eye(3, dtype=DOUBLE))
    for steps in (0, 1):
        found = inverse.map_point(lambda a: a @ forward.T, lambda u: u, data, 1.0, prior, steps=steps)
        assert found.converged.tolist() == [steps == 1] * 2
        hessian = torch.eye(3, dtype=DOUBLE) + forward.T @ forward
        decrement = torch.einsum("bi,ij,bj->b", found.gradient, torch.linalg.inv(hessian), found.gradient) / 2
        torch.testing.assert_close(found.decrement, decrement, rtol=1e-10, atol=1e-25)


def test_linear_gaussian_covariance(linear):
    found, factor, _, covariance, _ = linear
    for ours in found.spectrum.covariance:
        torch.testing.assert_close(factor.T @ ours @ factor, covariance, rtol=1e-9, atol=1e-10)


def test_linear_gaussian_information_gain(linear):
    """½ log det of the data's covariance over that of the noise."""
    found, *_, observed = linear
    expected = (torch.linalg.slogdet(observed).logabsdet - 7 * math.log(0.3**2)) / 2
    torch.testing.assert_close(found.spectrum.information_gain, expected.expand(3))


def test_root_and_precision_belong_to_the_covariance(linear):
    found, xi = linear[0], normals(3, 4, seed=5)
    draws = found.spectrum.root(xi)
    torch.testing.assert_close(found.spectrum.precision(draws), xi.square().sum(1))
    roots = torch.stack([found.spectrum.root(e.expand(3, 4)) for e in torch.eye(4, dtype=DOUBLE)], 2)
    torch.testing.assert_close(roots @ roots.mT, found.spectrum.covariance)


def test_a_noise_of_each_observation_weighs_it():
    """Against the posterior mean of linear maps, (I + FᵀR⁻¹F)⁻¹ Fᵀ R⁻¹ data."""
    forward, data, noise = normals(5, 3, seed=20), normals(2, 5, seed=21), torch.tensor([0.1, 1.0, 0.3, 2.0, 0.5])
    prior = Prior.gaussian(torch.zeros(3, dtype=DOUBLE), torch.eye(3, dtype=DOUBLE))
    found = inverse.map_point(lambda a: a @ forward.T, lambda u: u, data, noise, prior)
    weighed = forward.T / noise.double() ** 2
    mean = torch.linalg.solve(torch.eye(3, dtype=DOUBLE) + weighed @ forward, weighed @ data.T).T
    torch.testing.assert_close(found.a, mean)


# -- a nonlinear map --------------------------------------------------------------------------------------------

WEIGHTS = normals(6, 8, seed=7), normals(8, 8, seed=8)


def model(a: torch.Tensor) -> torch.Tensor:
    return torch.tanh(a @ WEIGHTS[0]) @ WEIGHTS[1]


def prior() -> Prior:
    return Prior(lambda z: torch.sinh(z) @ torch.ones(3, 6, dtype=DOUBLE).tril().to(z), 3)


def observe(u: torch.Tensor) -> torch.Tensor:
    return u[..., ::2] + 0.1 * u[..., 1::2] ** 2


def objective(z: torch.Tensor, data: torch.Tensor, noise: float) -> torch.Tensor:
    return ((observe(model(prior()(z))) - data) / noise).square().sum(1) / 2 + z.square().sum(1) / 2


def test_the_gradient_is_that_of_finite_differences():
    z, data = normals(2, 3, seed=9), normals(2, 4, seed=10)
    at = inverse.linearise(model, observe, 0.2, prior(), z)
    gradient = at.gradient(data / 0.2) + z
    for k, e in enumerate(torch.eye(3, dtype=DOUBLE)):
        difference = (objective(z + 1e-6 * e, data, 0.2) - objective(z - 1e-6 * e, data, 0.2)) / 2e-6
        torch.testing.assert_close(gradient[:, k], difference, rtol=1e-7, atol=1e-6)


def test_a_nonlinear_map_point_is_where_lbfgs_ends():
    """Full steps overshoot here, so the damping is needed; the minima are those of torch's own optimiser."""
    data = observe(model(prior()(normals(6, 3, seed=11))))
    found = inverse.map_point(model, observe, data, 0.5, prior(), tolerance=1e-7, steps=200)
    assert found.converged.all()
    assert (found.evaluations > 1 + (found.path.diff(dim=0).abs().sum(2) > 0).sum(0)).any()  # some step was refused
    assert (found.path_misfit[-1] == found.misfit).all()
    totals = found.path_misfit + found.path.square().sum(2) / 2
    assert (totals.diff(dim=0) <= 0).all()
    z = found.z.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([z], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        total = objective(z, data, 0.5).sum()
        total.backward()
        return total

    optimiser.step(closure)
    torch.testing.assert_close(found.z, z.detach(), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.objective, objective(found.z, data, 0.5))


def test_a_start_near_the_minimum_saves_evaluations():
    data = observe(model(prior()(normals(6, 3, seed=11))))
    found = inverse.map_point(model, observe, data, 0.5, prior(), tolerance=1e-6, steps=200)
    again = inverse.map_point(model, observe, data, 0.5, prior(), start=found.z, tolerance=1e-6)
    assert (again.evaluations == 1).all()
    torch.testing.assert_close(again.z, found.z)


def test_a_start_takes_the_type_of_the_data_and_stays_as_it_was():
    """A start in single precision, as of a network, does not lower that of the answer."""
    data = observe(model(prior()(normals(6, 3, seed=11))))
    start = normals(6, 3, seed=12).float()
    given = start.clone()
    found = inverse.map_point(model, observe, data, 0.5, prior(), start=start, tolerance=1e-6, steps=200)
    expected = inverse.map_point(model, observe, data, 0.5, prior(), start=start.double(), tolerance=1e-6, steps=200)
    assert found.z.dtype == DOUBLE
    assert torch.equal(found.z, expected.z)
    assert torch.equal(start, given)


# -- prior, sensors, spectra ------------------------------------------------------------------------------------


def test_leading_modes_are_those_of_the_covariance():
    factor = normals(12, 5, seed=13)

    def field(noise):  # normals of two axes, more of them than the field has values
        return noise.flatten(-2) @ factor.to(noise)

    whole, two = (Prior.leading(field, (3, 4), count) for count in (99, 2))
    assert (whole.dimension, two.dimension) == (5, 2)
    rows = whole(torch.eye(5, dtype=DOUBLE))
    torch.testing.assert_close(rows.T @ rows, factor.T @ factor)
    variances = torch.linalg.eigvalsh(factor.T @ factor).flip(0)
    torch.testing.assert_close(two(torch.eye(2, dtype=DOUBLE)).square().sum(1), variances[:2])


def test_sensors_interpolate():
    x, y = np.linspace(0, 2, 5), np.array([0.0, 0.1, 0.5, 1.0])
    field = torch.from_numpy(1 + 2 * x[:, None] - 3 * y + x[:, None] * y)  # bilinear
    points = np.array([[0.3, 0.05], [2.0, 1.0], [1.5, 0.7]])
    exact = torch.from_numpy(1 + 2 * points[:, 0] - 3 * points[:, 1] + points.prod(1))
    torch.testing.assert_close(Sensors(points, (x, y))(field), exact)
    one, shared = inverse.Sensors(points, (x, y)).value_and_tangents(field.expand(4, 5, 4), field.expand(2, 5, 4))
    assert (one.shape, shared.shape) == ((4, 3), (4, 2, 3))  # directions that a batch shares are observed for each
    torch.testing.assert_close(shared[3, 1], exact)
    fields = torch.stack([field, 2 * field, 0 * field])
    torch.testing.assert_close(Sensors(points, (x, y), fields=2)(fields[None])[0], torch.cat([exact, 2 * exact]))


def test_angles_between_subspaces():
    first = torch.eye(4, dtype=DOUBLE)[None, :, :2]
    tilted = first.clone()
    tilted[0, :, 1] = torch.tensor([0.0, math.cos(0.3), math.sin(0.3), 0.0], dtype=DOUBLE)
    torch.testing.assert_close(inverse.subspace_angle(first, tilted), torch.tensor([math.degrees(0.3)], dtype=DOUBLE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": torch.zeros(2, 0)}, "no sensors"),
        ({"noise": 0.0}, "noise must be positive"),
        ({"noise": -1.0}, "noise must be positive"),
        ({"noise": math.nan}, "noise must be positive"),
        ({"noise": torch.tensor([1.0, 1.0, 0.0, 1.0])}, "noise must be positive"),
        ({"noise": torch.ones(3)}, r"or of each of 4, got shape \(3,\)"),
        ({"data": np.zeros((2, 4))}, "as a tensor of the model's type, got ndarray"),
        ({"data": torch.zeros(4)}, r"got \(4,\); one problem is data\[None\]"),
        ({"data": torch.zeros(2, 2, 2)}, r"data\.flatten\(1\)"),
        ({"model": lambda a: (model(a) - 1e9).sqrt()}, "not finite at the start"),
        ({"data": torch.full((2, 4), math.nan)}, "not finite"),
        ({"data": torch.zeros(2, 5)}, "expected data of shape"),
        ({"start": torch.zeros(2, 9)}, "expected a start"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"model": model, "observe": observe, "data": torch.zeros(2, 4), "noise": 1.0, "prior": prior()} | change
    with pytest.raises(ValueError, match=message):
        inverse.map_point(**{name: v.double() if torch.is_tensor(v) else v for name, v in given.items()})


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((0, 2)), "no sensors"),
        (np.array([[0.5, 0.5], [0.5, 1.2]]), r"sensor 1 at \[0.5, 1.2\] is outside the grid"),
        (np.array([[0.5]]), "one number an axis"),
    ],
)
def test_bad_sensors_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        Sensors(points, (np.linspace(0, 1, 3), np.linspace(0, 1, 3)))
