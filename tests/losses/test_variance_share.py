"""The running share of the variance against numpy's weighted variance of all gradients."""

import numpy as np
import pytest
import torch

import stcl


def test_the_share_is_that_of_the_weighted_variances():
    """A linear model: ∇(w·x) = x, so that the gradients are the drawn vectors themselves."""
    rng = np.random.default_rng(0)
    model = torch.nn.Linear(5, 1, bias=False)
    watch = stcl.VarianceShare(model.parameters(), decay=0.9)
    data, term = rng.standard_normal((30, 5)) + 3, 0.5 * rng.standard_normal((30, 5))
    for x, y in zip(data, term, strict=True):
        watch.add(model(torch.as_tensor(x)).sum(), model(torch.as_tensor(y)).sum())
    weights = 0.1 * 0.9 ** np.arange(29, -1, -1)
    weights[0] /= 0.1  # the averages start at the first gradient

    def variance(g):
        mean = weights @ g
        return weights @ np.square(g - mean).sum(1)

    assert watch.share == pytest.approx(variance(term) / variance(data + term), rel=1e-10)


def test_complex_parameters_count_by_their_real_and_imaginary_parts():
    """A spectral weight: |z·c|² has the same variances as the pair of reals that z is made of."""
    pair, single = torch.nn.Parameter(torch.tensor([1.0, 2.0])), torch.nn.Parameter(torch.tensor([1.0 + 2.0j]))
    shares = []
    for parameters, value in (([pair], lambda: torch.view_as_complex(pair)), ([single], lambda: single[0])):
        watch, draws = stcl.VarianceShare(parameters), np.random.default_rng(2).standard_normal((20, 4))
        for x in draws:
            first, second = (torch.tensor(complex(*x[k : k + 2])) for k in (0, 2))
            watch.add((value() * first).abs().square(), 0.3 * (value() * second).real)
        shares.append(watch.share)
    assert shares[1] == pytest.approx(shares[0], rel=1e-12)
    assert 0 < shares[0] < 1


def test_the_backward_pass_is_left_alone():
    model = torch.nn.Linear(3, 1)
    watch = stcl.VarianceShare(model.parameters())
    x = torch.randn(4, 3)
    data, term = model(x).square().mean(), model(x).abs().mean()
    watch.add(data, term)
    assert model.weight.grad is None
    (data + term).backward()
    assert model.weight.grad is not None


def test_what_does_not_vary_has_no_share():
    model = torch.nn.Linear(3, 1)
    watch = stcl.VarianceShare(model.parameters())
    assert watch.share is None
    for _ in range(3):
        watch.add(model(torch.ones(1, 3)).sum(), torch.zeros(()))
    assert watch.share is None
    with pytest.raises(ValueError, match="between 0 and 1, got 1"):
        stcl.VarianceShare(model.parameters(), decay=1.0)
