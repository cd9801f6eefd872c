"""An FNO on a value and its q tangents at once, with its gradients, as one operation of autograd."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import functional as F

from stcl.operators import compiled_passes, passes
from stcl.operators.forward_mode import value_and_tangents
from stcl.operators.weights import Weights


def fno(x: Tensor, dx: Tensor | None, weights: Weights) -> tuple[Tensor, Tensor | None]:
    """y [B, nx, ny, c_out] and, with directions dx, its tangents [B, q, nx, ny, c_out].

    x is [B, nx, ny, c_in]; dx is [B, q, nx, ny, c_in], or has one sample, row or column that stands for all.
    """
    flat = weights.flat()
    tensors = (x, *flat) if dx is None else (x, dx, *flat)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Passes.apply(x, dx, *flat)
    y, dy, _ = _implementation(x).forward(x, dx, weights, keep=False)
    return y, dy


class _Passes(Function):
    """Forward and backward pass. Gradients of gradients go through `plain`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dx: Tensor | None, *flat: Tensor) -> tuple[Tensor, Tensor | None]:
        y, dy, kept = _implementation(x).forward(x, dx, Weights.of(flat))
        ctx.given = 2 + len(flat)
        ctx.save_for_backward(x, dx, *flat, *kept)
        return y, dy

    @staticmethod
    def backward(ctx: Any, y_bar: Tensor, dy_bar: Tensor | None) -> tuple[Tensor | None, ...]:
        (x, dx, *flat), kept = ctx.saved_tensors[: ctx.given], ctx.saved_tensors[ctx.given :]
        if torch.is_grad_enabled():
            return _differentiable_backward(ctx.needs_input_grad, x, dx, flat, y_bar, dy_bar)
        inputs = any(ctx.needs_input_grad[:2])
        bars = _implementation(x).backward(x, dx, Weights.of(flat), kept, y_bar, dy_bar, inputs)
        return *bars[:2], *bars[2].flat()


def _differentiable_backward(
    needed: tuple[bool, ...], x: Tensor, dx: Tensor | None, flat: list[Tensor], y_bar: Tensor, dy_bar: Tensor | None
) -> tuple[Tensor | None, ...]:
    """The bars as functions that autograd can differentiate again."""
    weights = Weights.of(flat)
    if dx is None or dy_bar is None:
        outputs, outputs_bar = [plain(x, weights)], [y_bar]
    else:
        outputs = list(value_and_tangents(lambda x: plain(x, weights), x, dx if len(dx) > 1 else dx[0]))
        outputs_bar = [y_bar, dy_bar]
    wanted = [t for t, need in zip((x, dx, *flat), needed, strict=True) if need and t is not None]
    found = iter(torch.autograd.grad(outputs, wanted, outputs_bar, create_graph=True))
    return tuple(next(found) if need else None for need in needed)


def plain(x: Tensor, weights: Weights) -> Tensor:
    """The same value in operations that every transform of torch.func, and autograd, knows."""
    h, _ = passes.convolve(x, *passes.fold(weights), in_place=False)
    for layer in range(1, len(weights.bias)):
        matrices = weights.spectral[layer], weights.pointwise[layer], weights.bias[layer]
        h, _ = passes.convolve(F.gelu(h), *matrices, in_place=False)
    k = F.gelu(F.linear(F.gelu(h), weights.head, weights.head_bias))
    return F.linear(k, weights.output, weights.output_bias)


def transformed(x: Tensor) -> bool:
    """Whether a transform is at work that an operation with a backward pass of its own does not know."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or x.dtype not in compiled_passes.REALS
    )


def implementation(like: Tensor) -> str:
    """What does the passes of inputs like this one: "c" or "torch". In float32 their results differ by rounding."""
    return "c" if _implementation(like) is compiled_passes else "torch"


def _implementation(x: Tensor) -> ModuleType:
    """The module that does the passes fastest: C for a CPU that has a compiler, torch for everything else."""
    return compiled_passes if compiled_passes.available(x) else passes
