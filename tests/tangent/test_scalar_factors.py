"""Numbers stay numbers: the same values, types and derivatives as torch's own arithmetic."""

import pytest
import torch

from stcl.tangent.scalar_factors import ScalarFactors

FORMULAS = {
    "product": lambda x: 3 * x * 0.1,
    "method": lambda x: x.mul(3).div(7.0).add(2).sub(0.5),
    "quotient": lambda x: x / 3,
    "inverse": lambda x: 2 / x,
    "sum": lambda x: 1.5 + x + 2,
    "difference": lambda x: (1 - x) - 0.25,
    "fused": lambda x: torch.add(x, x, alpha=2.5) * 2 - x,
    "rounded": lambda x: x.div(0.3, rounding_mode="floor") + x,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_values_and_derivatives_have_the_same_bits(formula, dtype):
    generator = torch.Generator().manual_seed(0)
    x, along = (torch.randn(50, generator=generator).to(dtype) for _ in range(2))
    expected = torch.func.jvp(formula, (x,), (along,))
    with ScalarFactors():
        found = torch.func.jvp(formula, (x,), (along,))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_whole_numbers_are_promoted_as_ever():
    x = torch.arange(4)
    expected = (x * 2, x / 2, x * 0.5, 1 - x)
    with ScalarFactors():
        found = (x * 2, x / 2, x * 0.5, 1 - x)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
