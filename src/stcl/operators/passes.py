"""The two passes of an FNO on a value and its q tangents at once, in array operations.

A dual field H [1+q, B, nx, ny, C] holds the value h = H[0] and the tangents ḣ_j = H[j]. Linear maps treat the 1+q
fields alike; only the GELU g mixes them, (h, ḣ) ↦ (g(h), g′(h) ḣ), with the adjoint

    h̄ = z̄ g′(h) + Σ_j ż̄_j ḣ_j g″(h),    ḣ̄_j = ż̄_j g′(h).

The backward pass is written out: it keeps the fields before every GELU and the modes before every mix, and recomputes
the rest. On a device, an update of a network of this size waits for launches and not for arithmetic, so both passes
are arranged in few operations. passes.c does the same for a CPU, row by row.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from stcl.operators.dft import TruncatedDFT, truncated_dft
from stcl.operators.weights import Weights

_aten = torch.ops.aten


def forward(
    x: Tensor, dx: Tensor | None, weights: Weights, keep: bool = True
) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
    """y [B, nx, ny, c_out], its tangents [B, q, nx, ny, c_out], and what the backward pass needs.

    x is [B, nx, ny, c_in]; dx is [B, q, nx, ny, c_in], or has one sample, row or column that stands for all. Kept are
    the first layer's matrices, then of each layer the modes and the field: of the first one those of x and of dx.
    """
    spectral, pointwise, constant = fold(weights)
    h, z = convolve(x, spectral, pointwise, constant)
    kept, dh = [spectral, pointwise, z, h], None
    if dx is not None:
        dh, z = convolve(dx.transpose(0, 1), spectral, pointwise, None)
        kept += [z, dh]
    for layer in range(1, len(weights.bias)):
        t = _gelu(h, dh)
        dual, z = convolve(t, weights.spectral[layer], weights.pointwise[layer], weights.bias[layer], values=1)
        h, dh = _parts(dual, dx)
        kept += [z, dual] if keep else []
    y, dy = _head(h, dh, weights)
    return y, None if dy is None else dy.transpose(0, 1), tuple(kept)


def backward(
    x: Tensor,
    dx: Tensor | None,
    weights: Weights,
    kept: tuple[Tensor, ...],
    y_bar: Tensor,
    dy_bar: Tensor | None,
    inputs: bool,
) -> tuple[Tensor | None, Tensor | None, Weights]:
    """The bars of x and dx, if they are asked for as `inputs`, and of the weights."""
    folded, folded_pointwise, x_modes, h, *rest = kept
    dx_modes, dh = (None, None) if dx is None else (rest.pop(0), rest.pop(0))
    first_tangents = dh
    before = [(h, dh), *(_parts(dual, dx) for dual in rest[1::2])]  # value and tangents before each GELU
    bar, head_bars = _head_adjoint(*before.pop(), weights, y_bar, None if dy_bar is None else dy_bar.transpose(0, 1))
    layer_bars = []
    for layer in range(len(weights.bias) - 1, 0, -1):
        h, dh = before.pop()
        slope = None if dh is None else _slope(h)
        matrices = weights.spectral[layer], weights.pointwise[layer]
        t_bar, spectral_bar, pointwise_bar = convolve_adjoint(bar, _gelu(h, dh, slope), rest[2 * layer - 2], *matrices)
        layer_bars.append((spectral_bar, pointwise_bar, bar[0].sum((0, 1, 2))))
        assert t_bar is not None
        bar = _gelu_adjoint(h, dh, slope, t_bar)

    matrices = folded, folded_pointwise
    x_bar, spectral_bar, pointwise_bar = convolve_adjoint(bar[0], x, x_modes, *matrices, inputs)
    dx_bar = None
    if dx is not None and dx_modes is not None and first_tangents is not None:
        dh_bar = bar[1:].sum_to_size(first_tangents.shape)
        dx_bar, *more = convolve_adjoint(dh_bar, dx.transpose(0, 1), dx_modes, *matrices, inputs)
        dx_bar = None if dx_bar is None else dx_bar.transpose(0, 1)
        spectral_bar, pointwise_bar = spectral_bar.add_(more[0]), pointwise_bar.add_(more[1])
    lift_bars, first_bars = _fold_adjoint(weights, spectral_bar, pointwise_bar, bar[0].sum((0, 1, 2)))
    layer_bars.append(first_bars)
    spectral, pointwise, bias = zip(*reversed(layer_bars), strict=True)
    return x_bar, dx_bar, Weights(*lift_bars, *head_bars, spectral, pointwise, bias)


def _parts(dual: Tensor, dx: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Value and tangents of a dual field."""
    return dual[0], None if dx is None else dual[1:]


# ---- the first layer ----------------------------------------------------------------------------------------------


def fold(weights: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """The first layer's matrices behind the lift, K₁(L x + l) = K̃ x + c, so that no lifted field exists.

    The transform acts on c_in channels. A constant field has the zero mode alone, so the lift's bias comes out as
    c = p + (P + Re M₀)ᵀ l with the zero mode's matrix M₀. Directions that all samples share, or that are constant
    along an axis, stay small here.
    """
    spectral, pointwise = weights.spectral[0], weights.pointwise[0]
    matrices = spectral.flatten(0, 2)
    folded = torch.bmm(weights.lift.mT.expand(len(matrices), -1, -1), matrices)
    constant = torch.addmv(weights.bias[0], pointwise, weights.lift_bias)
    constant = torch.addmv(constant, spectral[0, 0, 0].mT, weights.lift_bias)
    return folded.view(*spectral.shape[:3], *folded.shape[1:]), pointwise @ weights.lift, constant


def _fold_adjoint(
    weights: Weights, folded_bar: Tensor, pointwise_bar: Tensor, constant_bar: Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """The bars of L and l, and those of the first layer."""
    spectral, pointwise, lift, lift_bias = weights.spectral[0], weights.pointwise[0], weights.lift, weights.lift_bias
    folded_bar = folded_bar.view(-1, lift.shape[1], len(lift))
    spectral_bar = torch.bmm(lift.expand(len(folded_bar), -1, -1), folded_bar).view(spectral.shape)
    spectral_bar[0, 0, 0].addr_(lift_bias, constant_bar)
    lift_bar = torch.bmm(spectral.flatten(0, 2), folded_bar.mT).sum(0).addmm_(pointwise.mT, pointwise_bar)
    lift_bias_bar = torch.addmv(pointwise.mT @ constant_bar, spectral[0, 0, 0], constant_bar)
    pointwise_bar = (pointwise_bar @ lift.mT).addr_(constant_bar, lift_bias)
    return (lift_bar, lift_bias_bar), (spectral_bar, pointwise_bar, constant_bar)


# ---- K f: the spectral convolution plus P f + p at each node --------------------------------------------------------


def convolve(
    fields: Tensor,
    spectral: Tensor,
    pointwise: Tensor,
    bias: Tensor | None,
    values: int | None = None,
    in_place: bool = True,
) -> tuple[Tensor, Tensor]:
    """K f of fields [..., nx, ny, in], and their modes [2m·m, (2, fields), 2 in] as `convolve_adjoint` needs them.

    The bias goes to the first `values` of the leading axis, or to all. Transforms of torch.func do not know the sum in
    place.
    """
    *lead, nx, ny, c = fields.shape
    m, out = len(spectral), len(pointwise)
    dft, f = dft_of(fields, m), math.prod(lead)
    if bias is None:
        local = fields.reshape(-1, c) @ pointwise.mT
    elif values is None or values == lead[0]:
        local = torch.addmm(bias, fields.reshape(-1, c), pointwise.mT)
    else:
        nodes, local = values * math.prod(lead[1:]) * nx * ny, fields.new_empty(f * nx * ny, out)
        flat = fields.view(-1, c)
        torch.addmm(bias, flat[:nodes], pointwise.mT, out=local[:nodes])
        torch.mm(flat[nodes:], pointwise.mT, out=local[nodes:])
    half = torch.bmm(dft.analysis_y.expand(f * nx, -1, -1), fields.reshape(f * nx, ny, c))
    z = torch.bmm(dft.analysis_x.expand(f, -1, -1), half.view(f, 2 * nx, m * c))
    z = z.view(f, 2 * m, 2, 2, m, c).permute(4, 1, 2, 0, 3, 5).reshape(2 * m * m, 2 * f, 2 * c)
    mixed = torch.bmm(z, spectral.reshape(2 * m * m, 2 * c, out))
    mixed = mixed.view(m, 2 * m, 2, f, out).permute(3, 1, 2, 0, 4).reshape(f, 4 * m, m * out)
    half = torch.bmm(dft.synthesis_x.expand(f, -1, -1), mixed)
    onto = Tensor.baddbmm_ if in_place else torch.baddbmm
    rows = onto(local.view(f * nx, ny, out), dft.synthesis_y.expand(f * nx, -1, -1), half.view(f * nx, 2 * m, out))
    return rows.view(*lead, nx, ny, out), z


def convolve_adjoint(
    bar: Tensor, fields: Tensor, z: Tensor, spectral: Tensor, pointwise: Tensor, fields_too: bool = True
) -> tuple[Tensor | None, Tensor, Tensor]:
    """The bars of the fields, if asked for, and of the two weights."""
    *lead, nx, ny, out = bar.shape
    m, c = len(spectral), fields.shape[-1]
    dft, f = dft_of(bar, m), math.prod(lead)
    flat = bar.reshape(-1, out)
    half = torch.bmm(dft.synthesis_y.mT.expand(f * nx, -1, -1), flat.view(f * nx, ny, out))
    mixed = torch.bmm(dft.synthesis_x.mT.expand(f, -1, -1), half.view(f, 2 * nx, m * out))
    mixed = mixed.view(f, 2 * m, 2, m, out).permute(3, 1, 2, 0, 4).reshape(2 * m * m, 2 * f, out)
    spectral_bar = torch.bmm(z.mT, mixed).view(spectral.shape)
    pointwise_bar = flat.mT @ fields.reshape(-1, c)
    if not fields_too:
        return None, spectral_bar, pointwise_bar
    z_bar = torch.bmm(mixed, spectral.reshape(2 * m * m, 2 * c, out).mT)
    z_bar = z_bar.view(m, 2 * m, 2, f, 2, c).permute(3, 1, 2, 4, 0, 5).reshape(f, 8 * m, m * c)
    half = torch.bmm(dft.analysis_x.mT.expand(f, -1, -1), z_bar)
    rows = (flat @ pointwise).view(f * nx, ny, c)
    rows.baddbmm_(dft.analysis_y.mT.expand(f * nx, -1, -1), half.view(f * nx, 2 * m, c))
    return rows.view(*lead, nx, ny, c), spectral_bar, pointwise_bar


def dft_of(fields: Tensor, modes: int) -> TruncatedDFT:
    nx, ny = fields.shape[-3:-1]
    return truncated_dft(nx, ny, modes, fields.dtype, fields.device)


# ---- the head -------------------------------------------------------------------------------------------------------


def _head(h: Tensor, dh: Tensor | None, weights: Weights) -> tuple[Tensor, Tensor | None]:
    """The last GELU and the pointwise head, y = W₂ g(W₁ g(h) + b₁) + b₂, and its q tangents.

    The head acts at each node alone and has few outputs, so its Jacobian is formed once per node, in reverse,

        J = W₂ diag(g′(k)) W₁ diag(g′(h)),    k = W₁ g(h) + b₁,

    and applied to every tangent, ẏ_j = J ḣ_j. The wide hidden layer is then touched once and not 1+q times. W₂ and W₁
    meet in one matrix: J = (g′(k) R) diag(g′(h)) with R[d, (o, i)] = W₂[o, d] W₁[d, i].
    """
    k = torch.addmm(weights.head_bias, _aten.gelu(h).view(-1, h.shape[-1]), weights.head.mT)
    y = torch.addmm(weights.output_bias, _aten.gelu(k), weights.output.mT).view(*h.shape[:-1], -1)
    if dh is None:
        return y, None
    inner = (_slope(k) @ _product(weights)).view(*y.shape, -1)
    jacobian = inner.mul_(_slope(h).unsqueeze(-2))
    return y, (dh.unsqueeze(-2) * jacobian).sum(-1)


def _head_adjoint(
    h: Tensor, dh: Tensor | None, weights: Weights, y_bar: Tensor, dy_bar: Tensor | None
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The bar of the dual field, and those of W₁, b₁, W₂ and b₂."""
    w1, w2 = weights.head, weights.output
    z, y_bar = _aten.gelu(h).view(-1, h.shape[-1]), y_bar.reshape(-1, len(w2))
    k = torch.addmm(weights.head_bias, z, w1.mT)
    outputs_bar = y_bar.sum(0)
    w2_bar = y_bar.mT @ _aten.gelu(k)
    if dh is None or dy_bar is None:
        k_bar = _aten.gelu_backward(y_bar @ w2, k)
        bar = _aten.gelu_backward((k_bar @ w1).view_as(h), h).unsqueeze(0)
        return bar, (k_bar.mT @ z, k_bar.sum(0), w2_bar, outputs_bar)

    r, slope, slope_k = _product(weights), _slope(h), _slope(k)
    inner = (slope_k @ r).view(*h.shape[:-1], len(w2), -1)
    # ẏ_j = J ḣ_j gives J̄, from it the bars of its factors, and the bars of the tangents.
    bar = h.new_empty(1 + len(dh), *h.shape)
    torch.sum(dy_bar.unsqueeze(-1) * (inner * slope.unsqueeze(-2)), -2, out=bar[1:])
    jacobian_bar = (dy_bar.unsqueeze(-1) * dh.unsqueeze(-2)).sum(0)
    slope_bar = (jacobian_bar * inner).sum(-2)
    inner_bar = jacobian_bar.mul_(slope.unsqueeze(-2)).view(len(k), -1)
    r_bar = (slope_k.mT @ inner_bar).view(len(w1), len(w2), -1)

    k_bar = (inner_bar @ r.mT).mul_(_curvature(k)).addcmul_(y_bar @ w2, slope_k)
    torch.mul((k_bar @ w1).view_as(h), slope, out=bar[0])
    bar[0].addcmul_(slope_bar, _curvature(h))
    w1_bar = torch.addmm((r_bar * w2.mT.unsqueeze(2)).sum(1), k_bar.mT, z)
    w2_bar += (r_bar * w1.unsqueeze(1)).sum(2).mT
    return bar, (w1_bar, k_bar.sum(0), w2_bar, outputs_bar)


def _product(weights: Weights) -> Tensor:
    """R [D, o·i]."""
    return (weights.output.mT.unsqueeze(2) * weights.head.unsqueeze(1)).flatten(1)


# ---- GELU -----------------------------------------------------------------------------------------------------------


def _gelu(h: Tensor, dh: Tensor | None, slope: Tensor | None = None) -> Tensor:
    """The dual field behind the GELU; g′(h) may be given."""
    if dh is None:
        return _aten.gelu(h).unsqueeze(0)
    t = h.new_empty(1 + len(dh), *h.shape)
    _aten.gelu.out(h, out=t[0])
    torch.mul(_slope(h) if slope is None else slope, dh, out=t[1:])
    return t


def _gelu_adjoint(h: Tensor, dh: Tensor | None, slope: Tensor | None, bar: Tensor) -> Tensor:
    if dh is None or slope is None:
        return _aten.gelu_backward(bar, h.unsqueeze(0))
    slope_bar = (bar[1:] * dh).sum(0)
    bar.mul_(slope)
    bar[0].addcmul_(slope_bar, _curvature(h))
    return bar


def _slope(h: Tensor) -> Tensor:
    """g′(h) = Φ(h) + h φ(h): the derivative kernel of GELU on an incoming gradient of one."""
    return _aten.gelu_backward(_one(h.dtype, h.device).expand_as(h), h)


@lru_cache(maxsize=64)
def _one(dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.ones((), dtype=dtype, device=device)


def _curvature(h: Tensor) -> Tensor:
    """g″(h) = (2 − h²) φ(h), with φ(h) = exp(−h²/2 − log √2π)."""
    square = h * h
    density = torch.rsub(square, -0.5 * math.log(2 * math.pi), alpha=0.5).exp_()
    return torch.rsub(square, 2).mul_(density)
