"""What an FNO does at the nodes of its rows, on a value and its q tangents at once: everything but the modes.

A dual field H [B, nx, 1+q, ny, C] holds, row by row, the value h = H[:, :, :1] and the tangents ḣ_j = H[:, :, j].
Linear maps treat the 1+q fields alike; only the GELU g mixes them, (h, ḣ) ↦ (g(h), g′(h) ḣ), with the adjoint

    h̄ = z̄ g′(h) + Σ_j ż̄_j ḣ_j g″(h),    ḣ̄_j = ż̄_j g′(h).

Each function comes with its adjoint, which takes the bar of every output, recomputes what it needs, and gives the bar
of every input. rows.c does the same for a CPU, without storing anything between its input and its output.
"""

import math

import torch
from torch import Tensor

from stcl.operators.dft import TruncatedDFT, analyse_y, synthesise_y_onto

_aten = torch.ops.aten


def first_forward(h: Tensor, dh: Tensor, weight: Tensor, dft: TruncatedDFT) -> tuple[Tensor, Tensor]:
    """(h, ḣ, P) ↦ (T Pᵀ, half spectra of T) with T = GELU(h, ḣ).

    h is [B, nx, 1, ny, C]; ḣ is [B, nx, q, ny, C], or has one sample, row or column that stands for all.
    """
    t = _gelu(h, dh)
    return t @ weight.mT, analyse_y(dft, t)


def first_backward(
    h: Tensor, dh: Tensor, weight: Tensor, dft: TruncatedDFT, local_bar: Tensor, half_bar: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The bars of h, ḣ and P."""
    bar, weight_bar = _spread_adjoint(_gelu(h, dh), weight, dft, local_bar, half_bar)
    _gelu_adjoint(h, dh, bar)
    return _value(bar), _tangents(bar).sum_to_size(dh.shape), weight_bar


def block_forward(dual: Tensor, half: Tensor, weight: Tensor, dft: TruncatedDFT) -> tuple[Tensor, Tensor]:
    """(H₀, half spectra, P) ↦ (T Pᵀ, half spectra of T) with T = GELU(H), H = H₀ + the field of the half spectra.

    H is completed in place of H₀.
    """
    synthesise_y_onto(dft, dual.view(-1, *dual.shape[-2:]), half)
    return first_forward(_value(dual), _tangents(dual), weight, dft)


def block_backward(
    dual: Tensor, weight: Tensor, dft: TruncatedDFT, local_bar: Tensor, half_bar: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The bars of H₀, the half spectra and P; `dual` is H."""
    h, dh = _value(dual), _tangents(dual)
    bar, weight_bar = _spread_adjoint(_gelu(h, dh), weight, dft, local_bar, half_bar)
    _gelu_adjoint(h, dh, bar)
    return bar, analyse_y(dft.transposed(), bar), weight_bar


def head_forward(
    dual: Tensor, half: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, dft: TruncatedDFT
) -> tuple[Tensor, Tensor]:
    """The last GELU and pointwise head, y = W₂ g(W₁ g(h) + b₁) + b₂, and its q tangents, from H as in `block_forward`.

    The head acts at each node alone and has few outputs, so its Jacobian is formed once per node, in reverse,

        J = W₂ diag(g′(k)) W₁ diag(g′(h)),    k = W₁ g(h) + b₁,

    and applied to every tangent, ẏ_j = J ḣ_j. The wide hidden layer is then touched once and not 1+q times. W₂ and W₁
    meet in one matrix: J = (g′(k) R) diag(g′(h)) with R[d, (o, i)] = W₂[o, d] W₁[d, i].

    y is [B, nx, 1, ny, c_out], ẏ is [B, nx, q, ny, c_out].
    """
    synthesise_y_onto(dft, dual.view(-1, *dual.shape[-2:]), half)
    h, dh = _value(dual), _tangents(dual)
    k = torch.addmm(b1, _aten.gelu(h).flatten(0, -2), w1.mT)
    y = torch.addmm(b2, _aten.gelu(k), w2.mT)
    jacobian = _inner(k, product(w1, w2), h) * _slope(h).unsqueeze(-2)
    dy = torch.stack([(dh * j).sum(-1) for j in jacobian.unbind(-2)], -1)
    return y.view(*h.shape[:-1], -1), dy


def head_backward(
    dual: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, dft: TruncatedDFT, y_bar: Tensor, dy_bar: Tensor
) -> tuple[Tensor, ...]:
    """The bars of H₀, the half spectra, W₁, b₁, W₂ and R, which is a product of W₁ and W₂; `dual` is H."""
    h, dh = _value(dual), _tangents(dual)
    bar, r = torch.empty_like(dual), product(w1, w2)
    z, slope, y_bar = _aten.gelu(h).flatten(0, -2), _slope(h), y_bar.reshape(-1, len(w2))
    k = torch.addmm(b1, z, w1.mT)
    slope_k, inner = _slope(k), _inner(k, r, h)

    # ẏ_j = J ḣ_j gives J̄, from it the bars of its factors, and the bars of the tangents.
    jacobian_bar = torch.stack([(along.unsqueeze(-1) * dh).sum(-3, keepdim=True) for along in dy_bar.unbind(-1)], -2)
    slope_bar = (jacobian_bar * inner).sum(-2)
    inner_bar = (jacobian_bar * slope.unsqueeze(-2)).flatten(0, -3).flatten(1)
    jacobian = (inner * slope.unsqueeze(-2)).unbind(-2)
    along = [a.unsqueeze(-1) * j for a, j in zip(dy_bar.unbind(-1), jacobian, strict=True)]
    _tangents(bar).copy_(sum(along[1:], start=along[0]))

    k_bar = (y_bar @ w2) * slope_k + (inner_bar @ r.mT) * _curvature(k)
    _value(bar).copy_((k_bar @ w1).view_as(h) * slope + slope_bar * _curvature(h))
    weights = k_bar.mT @ z, k_bar.sum(0), y_bar.mT @ _aten.gelu(k)
    return bar, analyse_y(dft.transposed(), bar), *weights, slope_k.mT @ inner_bar


def product(w1: Tensor, w2: Tensor) -> Tensor:
    """R [D, o·i] from W₁ [D, i] and W₂ [o, D]."""
    return (w2.mT.unsqueeze(2) * w1.unsqueeze(1)).flatten(1)


def _inner(k: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """g′(k) R, the Jacobian without diag(g′(h)): [B, nx, 1, ny, c_out, C]."""
    return (_slope(k) @ r).view(*h.shape[:-1], -1, h.shape[-1])


def _spread_adjoint(
    t: Tensor, weight: Tensor, dft: TruncatedDFT, local_bar: Tensor, half_bar: Tensor
) -> tuple[Tensor, Tensor]:
    """T̄ and P̄."""
    bar = local_bar @ weight
    synthesise_y_onto(dft.transposed(), bar.view(-1, *bar.shape[-2:]), half_bar)
    return bar, local_bar.flatten(0, -2).mT @ t.flatten(0, -2)


def _gelu(h: Tensor, dh: Tensor) -> Tensor:
    return torch.cat([_aten.gelu(h), (_slope(h) * dh).expand(*h.shape[:2], -1, *h.shape[3:])], 2)


def _gelu_adjoint(h: Tensor, dh: Tensor, bar: Tensor) -> None:
    """Replace T̄ in `bar` by H̄."""
    slope_bar = (_tangents(bar) * dh).sum(-3, keepdim=True)
    bar.mul_(_slope(h))
    _value(bar).addcmul_(slope_bar, _curvature(h))


def _slope(h: Tensor) -> Tensor:
    """g′(h) = Φ(h) + h φ(h): the derivative kernel of GELU on an incoming gradient of ones."""
    return _aten.gelu_backward(torch.ones_like(h), h)


def _curvature(h: Tensor) -> Tensor:
    """g″(h) = (2 − h²) φ(h)."""
    square = h * h
    return (2 - square) * (square * -0.5).exp_() / math.sqrt(2 * math.pi)


def _value(dual: Tensor) -> Tensor:
    return dual[:, :, :1]


def _tangents(dual: Tensor) -> Tensor:
    return dual[:, :, 1:]
