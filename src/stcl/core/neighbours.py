"""Weighted sums over a node and its neighbours, with the gradient written out. This module imports torch."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, zeros_like
from torch.autograd import Function
from torch.autograd.function import once_differentiable

Window = tuple[slice, slice]  # nodes of the last two axes
Term = tuple[Window, Window]  # nodes that a term is added at, and as many nodes that it reads

ALL, INNER = slice(None), slice(1, -1)
_FIRST, _LAST = slice(None, -1), slice(1, None)
# A node, then the next and the previous one along both axes: of arrays that hold interior nodes alone, and of those
# with a boundary whose values do not count.
FIVE_POINT: tuple[Term, ...] = (
    ((ALL, ALL), (ALL, ALL)),
    ((_FIRST, ALL), (_LAST, ALL)),
    ((_LAST, ALL), (_FIRST, ALL)),
    ((ALL, _FIRST), (ALL, _LAST)),
    ((ALL, _LAST), (ALL, _FIRST)),
)
FIVE_POINT_INSIDE: tuple[Term, ...] = (
    ((ALL, ALL), (INNER, INNER)),
    ((_FIRST, ALL), (slice(2, -1), INNER)),
    ((_LAST, ALL), (slice(1, -2), INNER)),
    ((ALL, _FIRST), (INNER, slice(2, -1))),
    ((ALL, _LAST), (INNER, slice(1, -2))),
)


def weighted_sum(w: Tensor, coefficients: Sequence[Tensor], terms: Sequence[Term]) -> Tensor:
    """Σ_k c_k w(neighbour k), [B, q, *nodes], for w [B, q, *grid] and coefficients that broadcast to [B, 1, *nodes].

    The first coefficient has all of [B, 1, *nodes], and the first term is added at all nodes. One kernel a term, and
    one more in the backward pass.
    """
    return _WeightedSum.apply(w, tuple(terms), *coefficients)


def plain_weighted_sum(w: Tensor, coefficients: Sequence[Tensor], terms: Sequence[Term]) -> Tensor:
    """The same without a gradient."""
    out = coefficients[0] * _at(w, terms[0][1])
    for c, (target, source) in zip(coefficients[1:], terms[1:], strict=True):
        _at(out, target).addcmul_(_of_nodes(c, target), _at(w, source))
    return out


def on_interior(coefficients: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """The operator of a five-point stencil on values [B, q, m1, m2] at interior nodes, without a gradient."""
    return lambda x: plain_weighted_sum(x, coefficients, FIVE_POINT)


class _WeightedSum(Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, terms: tuple[Term, ...], *coefficients: Tensor) -> Tensor:
        ctx.terms = terms
        ctx.save_for_backward(w, *coefficients)
        return plain_weighted_sum(w, coefficients, terms)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor | None, ...]:
        w, *coefficients = ctx.saved_tensors
        w_bar, bars = None, []
        if ctx.needs_input_grad[0]:
            w_bar = zeros_like(w)
            for c, (target, source) in zip(coefficients, ctx.terms, strict=True):
                _at(w_bar, source).addcmul_(_of_nodes(c, target), _at(bar, target))
        for k, (c, (target, source)) in enumerate(zip(coefficients, ctx.terms, strict=True)):
            c_bar = zeros_like(c) if ctx.needs_input_grad[2 + k] else None
            if c_bar is not None:
                of_term = _at(bar, target) * _at(w, source)
                _of_nodes(c_bar, target).add_(of_term.sum_to_size(_of_nodes(c, target).shape))
            bars.append(c_bar)
        return w_bar, None, *bars


def _at(x: Tensor, window: Window) -> Tensor:
    return x[..., window[0], window[1]]


def _of_nodes(x: Tensor, window: Window) -> Tensor:
    """A coefficient at the nodes of a window; an axis of length one stands for all nodes."""
    first, second = (nodes if n > 1 else ALL for nodes, n in zip(window, x.shape[-2:], strict=True))
    return x[..., first, second]
