"""Refusal of a function that is not a residual, by its shapes, its values, and its derivatives in both arguments."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stcl.core.errors import EquationError
from stcl.tangent.unknowns import as_blocks


def check_residual(function: Callable[[Tensor, Tensor], Any], u: Tensor, a: Tensor) -> None:
    """Refuse F(u, a) unless it keeps samples apart, is finite, and has true derivatives in both arguments."""
    a, u = a[:2], u[:2]
    shapes = f"u {tuple(u.shape)} and a {tuple(a.shape)}"
    try:
        blocks = as_blocks(function(u, a))
    except EquationError:
        raise
    except Exception as error:
        raise EquationError(f"residual(u, a) failed for {shapes}: {type(error).__name__}: {error}") from error
    for block in blocks:
        if block.ndim < 2 or len(block) != len(u):
            raise EquationError(
                f"residual(u, a) must keep the batch as its first axis and give one value per equation, got shape "
                f"{tuple(block.shape)} for {shapes}; do not sum or average over nodes or samples"
            )
        if not torch.isfinite(block).all():
            raise EquationError(
                "residual(u, a) is not finite at the given states; check units and the states themselves"
            )
    generator = torch.Generator().manual_seed(0)
    _check_samples_apart(function, u, a, generator)
    for name, at in (("u", u), ("a", a)):
        along = torch.randn(at.shape, generator=generator, dtype=torch.float64).to(at) * _sizes(at)
        partial = (lambda x: function(x, a)) if name == "u" else (lambda x: function(u, x))
        _check_derivative(name, partial, at, along)


def _check_samples_apart(
    function: Callable[[Tensor, Tensor], Any], u: Tensor, a: Tensor, generator: torch.Generator
) -> None:
    """Refuse F(u, a) if that of the first sample alone is another than in a batch.

    At accurate data F is rounding, which is another one for products with another number of rows. So u is made up to
    10 % smaller, node by node, where F is large. This keeps its sign, for roots and logarithms.
    """
    off = u * (1 - 0.1 * torch.rand(u.shape, generator=generator, dtype=torch.float64).to(u))
    share = 1e-6 if u.dtype == torch.float64 else 1e-4
    for block, alone in zip(as_blocks(function(off, a)), as_blocks(function(off[:1], a[:1])), strict=True):
        # Off the data F may have no value at a node. Nothing is compared there.
        x, y = (values.nan_to_num(0.0, 0.0, 0.0) for values in (block, alone))
        if not torch.allclose(x[:1], y, rtol=1e-4, atol=share * float(x.abs().max())):
            raise EquationError(
                "residual(u, a) of a sample depends on the other samples of its batch; treat each on its own"
            )


def _sizes(x: Tensor) -> Tensor:
    """How large each entry of x [B, ...] is, so that fields and numbers in different units move by the same share.

    It is the mean |x| over samples, and over all entries where that is zero, or 1 where all of x is zero.
    """
    entry, whole = x.abs().mean(0), x.abs().mean()
    return torch.where(entry > 0, entry, torch.where(whole > 0, whole, 1.0))


def widest(residual: Callable[[Tensor, Tensor], Any], u: Tensor, a: Tensor) -> torch.dtype:
    """float64, unless the residual holds constants that insist on the dtype of the data, or the device has none.

    An error may have another cause. It then comes again with the data as they are, and is reported there.
    """
    try:
        residual(u[:1].double(), a[:1].double())
    except (RuntimeError, TypeError):
        return u.dtype
    return torch.float64


def _check_derivative(name: str, function: Callable[[Tensor], Any], x: Tensor, along: Tensor) -> None:
    """Refuse a derivative that forward mode lacks, that is zero, or that differs from central differences."""
    try:
        derivative = torch.func.jvp(lambda x: torch.cat([b.flatten() for b in as_blocks(function(x))]), (x,), (along,))[
            1
        ]
    except Exception as error:
        raise EquationError(
            f"residual(u, a) has no forward-mode derivative in {name}: {type(error).__name__}: {error}. Write it with "
            f"torch operations only: no numpy, no .item(), no in-place writes into its arguments"
        ) from error
    step = 1e-5 if x.dtype == torch.float64 else 1e-2
    ahead, behind = (torch.cat([b.flatten() for b in as_blocks(function(x + s * along))]) for s in (step, -step))
    difference = (ahead - behind) / (2 * step)
    size = float(difference.norm())
    rounding = 100 * torch.finfo(x.dtype).eps * float(ahead.norm()) / step
    if size <= rounding and not derivative.any():
        raise EquationError(
            f"residual(u, a) does not depend on {name}; the tangent equation A w + B v = 0 needs both. "
            + (
                "Is the prediction used in it?"
                if name == "u"
                else "Pass the input that the operator maps, not a constant. Boundary or initial values must be put "
                "into u, as in torch.cat([a[:, None], u[:, 1:]], 1), or into equations, u − a."
            )
        )
    wrong = float((derivative - difference).norm()) / max(size, rounding)
    if wrong > (1e-3 if x.dtype == torch.float64 else 0.1):
        raise EquationError(
            f"the derivative of residual(u, a) in {name} is {wrong:.0%} away from its finite difference: something "
            f"that depends on {name} is detached (.detach(), .data, torch.no_grad, a Python float) or has a jump"
        )
