"""γ against its definition, and the ratio it is for."""

import numpy as np
import pytest
import torch

from stcl.losses.judged_weight import JudgedWeight
from stcl.losses.settings import Weighting
from stcl.losses.weighting import RatioWeight

CPU = torch.device("cpu")


def gammas(settings: Weighting, data, derivative, lam: float = 0.5) -> list[float]:
    weight = RatioWeight(lam, settings, CPU)
    return [float(weight(torch.tensor(x), torch.tensor(y))) for x, y in zip(data, derivative, strict=True)]


@pytest.mark.parametrize("update", ["before", "after"])
def test_gamma_is_the_ratio_of_moving_averages(update):
    rng = np.random.default_rng(0)
    data, derivative = rng.uniform(0.5, 2, 20), rng.uniform(10, 20, 20)
    expected, top, bottom = [], None, None
    for x, y in zip(data, derivative, strict=True):
        if update == "after":
            expected.append(0.5 * top / bottom if top else 0.5)
        top = x if top is None else 0.9 * top + 0.1 * x
        bottom = y if bottom is None else 0.9 * bottom + 0.1 * y
        if update == "before":
            expected.append(0.5 * top / bottom)
    np.testing.assert_allclose(gammas(Weighting(decay=0.9, update=update), data, derivative), expected)


@pytest.mark.parametrize("update", ["before", "after"])
def test_the_derivative_share_converges_to_lambda(update):
    """Of losses that fluctuate about any levels, the mean of γ L_deriv comes to λ times the mean of L_data."""
    rng = np.random.default_rng(1)
    data, derivative = 3e-4 * rng.uniform(0.9, 1.1, 3000), 70 * rng.uniform(0.9, 1.1, 3000)
    weighted = np.array(gammas(Weighting(update=update), data, derivative, lam=0.7)) * derivative
    np.testing.assert_allclose(weighted[1000:].mean() / data[1000:].mean(), 0.7, rtol=0.01)


def test_the_floor_bounds_what_is_divided_by():
    """It is applied to each loss and to their average."""
    settings = Weighting(floor=1e-3, decay=0.5)
    assert gammas(settings, [1.0, 1.0], [0.0, 1e-9]) == [500.0, 500.0]


def test_gamma_has_no_gradient():
    loss = torch.tensor(2.0, requires_grad=True)
    assert not RatioWeight(1.0, Weighting(), CPU)(loss, loss).requires_grad


def test_state_is_restored():
    weight, other = (RatioWeight(0.5, Weighting(), CPU) for _ in range(2))
    weight(torch.tensor(2.0), torch.tensor(3.0))
    other.load_state_dict(weight.state_dict())
    x = torch.tensor(5.0), torch.tensor(11.0)
    assert torch.equal(weight(*x), other(*x))


@pytest.mark.parametrize("update", ["before", "after"])
def test_a_ratio_beyond_the_type_is_infinite(update):
    """Training then says that it diverged; torch would refuse the number with a word about types."""
    weight = RatioWeight(1e300, Weighting(update=update), CPU)
    for _ in range(2):
        assert weight(torch.tensor(1.0, dtype=torch.float32), torch.tensor(2.0, dtype=torch.float32)) == np.inf


@pytest.mark.parametrize("update", ["before", "after"])
def test_an_update_counts_as_much_as_it_has_judged(update):
    """Against sums with the powers of the decay written out; the first two updates judge nothing."""
    settings = Weighting(decay=0.8, update=update)
    weight = JudgedWeight(2.0, settings, CPU)
    shares = torch.tensor([0.0, 0.0, 0.25, 1.0, 0.0, 0.5])
    data, derivative = torch.rand(2, 6) + 0.1
    derivative[shares == 0] = 0
    found = torch.stack([weight(*losses) for losses in zip(data, derivative, shares, strict=True)])
    for n in range(6):
        seen = n + 1 if update == "before" else n
        powers = 0.8 ** torch.arange(seen - 1, -1, -1.0) * torch.tensor([1.0] + [0.2] * (seen - 1))[:seen]
        judged = powers * shares[:seen]
        if seen == 0:
            expected = torch.tensor(2.0)
        elif judged.sum() == 0:
            expected = torch.tensor(0.0)
        else:
            expected = 2 * (powers @ data[:seen]) * judged.sum() / (judged @ derivative[:seen])
        torch.testing.assert_close(found[n], expected)


def test_where_all_is_judged_it_is_the_plain_weight():
    ratio, judged, share = (kind(0.5, Weighting(floor=0.3), CPU) for kind in (RatioWeight, JudgedWeight, JudgedWeight))
    for data, derivative in torch.rand(5, 2):
        assert ratio(data, derivative) == judged(data, derivative) == share(data, derivative, torch.ones(()))
