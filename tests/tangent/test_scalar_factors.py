"""Numbers stay numbers: the same values, types and derivatives as torch's own arithmetic."""

from contextlib import nullcontext

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_tables_that_are_added_change_nothing(dtype):
    """With directions, gradients of the tangents, and a table that is made inside, as problems make theirs."""
    torch.manual_seed(0)
    table = (10 * torch.randn(4, 4)).to(dtype)
    x, along = torch.randn(3, 4, 4), torch.randn(3, 2, 4, 4, requires_grad=True)

    def formula(x):
        made = table.to(x.dtype) if dtype == torch.float32 else table
        return (x**2 + table) * x + (made + x) + (x[0] + x) + x.sub(table.float()) + (table.float() + table[0].float())

    def forward(mode):
        def one(w):
            with mode:
                return torch.func.jvp(formula, (x,), (w,))

        value, tangent = torch.func.vmap(one, in_dims=1, out_dims=(None, 1))(along)
        return value, tangent, torch.autograd.grad(tangent.square().sum(), along)[0]

    for found, expected in zip(forward(ScalarFactors()), forward(nullcontext()), strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    with ScalarFactors():
        assert torch.equal(x - table.float(), torch.sub(x, table.float()))  # without any tangent
