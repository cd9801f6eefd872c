"""The pieces of an FNO on a value and its q tangents at once, with their gradients.

Between two pieces, only modes are mixed. All of them keep nothing but their inputs for the backward pass. What happens
at the nodes is in `rows`. Here, half spectra become modes; this is the only place where rows meet.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from stcl.operators import compiled_rows, rows
from stcl.operators.dft import TruncatedDFT, analyse_x, synthesise_x, truncated_dft


class First(Function):
    """(h, ḣ, P) ↦ (T Pᵀ, modes of T) with T = GELU(h, ḣ), as in `rows.first_forward`."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, dh: Tensor, weight: Tensor, cutoff: int) -> tuple[Tensor, Tensor]:
        ctx.cutoff, dft = cutoff, _dft(h, cutoff)
        ctx.save_for_backward(h, dh, weight)
        local, half = _rows(h).first_forward(h, dh, weight, dft)
        return local, analyse_x(dft, half)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, local_bar: Tensor, modes_bar: Tensor) -> tuple[Tensor | None, ...]:
        h, dh, weight = ctx.saved_tensors
        dft = _dft(h, ctx.cutoff)
        half_bar = synthesise_x(dft, modes_bar, local_bar.shape[2])
        return *_rows(h).first_backward(h, dh, weight, dft, local_bar, half_bar), None


class Layer(Function):
    """(H₀, modes, P) ↦ (T Pᵀ, modes of T) with T = GELU(H), H = H₀ + the field of the modes.

    This is all of a spectral layer that touches whole fields. H is completed in place of H₀, which nobody else needs.
    """

    @staticmethod
    def forward(ctx: Any, dual: Tensor, modes: Tensor, weight: Tensor, cutoff: int) -> tuple[Tensor, Tensor]:
        ctx.cutoff, dft = cutoff, _dft(dual, cutoff)
        local, half = _rows(dual).block_forward(dual, synthesise_x(dft, modes, dual.shape[2]), weight, dft)
        ctx.save_for_backward(dual, weight)
        return local, analyse_x(dft, half)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, local_bar: Tensor, modes_bar: Tensor) -> tuple[Tensor | None, ...]:
        dual, weight = ctx.saved_tensors
        dft = _dft(dual, ctx.cutoff)
        half_bar = synthesise_x(dft, modes_bar, dual.shape[2])
        dual_bar, half_bar, weight_bar = _rows(dual).block_backward(dual, weight, dft, local_bar, half_bar)
        return dual_bar, analyse_x(dft, half_bar), weight_bar, None


class Head(Function):
    """(H₀, modes, W₁, b₁, W₂, b₂) ↦ (y, ẏ), as in `rows.head_forward`, with H as in `Layer`."""

    @staticmethod
    def forward(
        ctx: Any, dual: Tensor, modes: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, cutoff: int
    ) -> tuple[Tensor, Tensor]:
        ctx.cutoff, dft = cutoff, _dft(dual, cutoff)
        y, dy = _rows(dual).head_forward(dual, synthesise_x(dft, modes, dual.shape[2]), w1, b1, w2, b2, dft)
        ctx.save_for_backward(dual, w1, b1, w2)
        return y, dy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y_bar: Tensor, dy_bar: Tensor) -> tuple[Tensor | None, ...]:
        dual, w1, b1, w2 = ctx.saved_tensors
        dft = _dft(dual, ctx.cutoff)
        dual_bar, half_bar, w1_bar, b1_bar, w2_bar, r_bar = _rows(dual).head_backward(
            dual, w1, b1, w2, dft, y_bar, dy_bar
        )
        r_bar = r_bar.view(len(w1), len(w2), -1)
        w1_bar = w1_bar + torch.einsum("doi,od->di", r_bar, w2)
        w2_bar = w2_bar + torch.einsum("doi,di->od", r_bar, w1)
        return dual_bar, analyse_x(dft, half_bar), w1_bar, b1_bar, w2_bar, y_bar.sum((0, 1, 2, 3)), None


def _dft(field: Tensor, cutoff: int) -> TruncatedDFT:
    _, nx, _, ny, _ = field.shape
    return truncated_dft(nx, ny, cutoff, field.dtype, field.device)


def implementation(like: Tensor) -> str:
    """What does the rows of fields like this one: "c" or "torch". In float32 their results differ by rounding."""
    return "c" if _rows(like) is compiled_rows else "torch"


def _rows(field: Tensor) -> ModuleType:
    """The module that does the rows fastest: C for a CPU that has a compiler, torch for everything else."""
    return compiled_rows if compiled_rows.available(field) else rows
