"""The two nonlinear pieces of an FNO on a value and its q tangents at once.

A dual field H [B, 1+q, nx, ny, C] holds the value h = H[:, 0] and tangents ḣ_j = H[:, j]. Linear layers treat the
1+q fields alike; only the GELU g mixes them, (h, ḣ) ↦ (g(h), g′(h) ḣ), with the adjoint

    h̄ = z̄ g′(h) + Σ_j ż̄_j ḣ_j g″(h),    ḣ̄_j = ż̄_j g′(h).

Both functions walk through the batch in chunks that fit the cache, keep their input and the slopes g′, which are dear,
and recompute the rest.
"""

import itertools
import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from stcl.operators.dft import analyse, synthesise_onto, truncated_dft

_CHUNK_BYTES = 4 * 2**20  # of dual field; about the second-level caches of two cores
_aten = torch.ops.aten


class Block(Function):
    """(H, P) ↦ (modes of T, T Pᵀ) with T = GELU(H): what a spectral layer needs of its input.

    Modes are [B(1+q), 2, 2m·m, C] and T Pᵀ comes as rows [B(1+q)nx, ny, C]. T is never stored for the whole batch.
    """

    @staticmethod
    def forward(ctx, dual: Tensor, weight: Tensor, modes: int) -> tuple[Tensor, Tensor]:
        b, r, nx, ny, c = dual.shape
        dft = truncated_dft(nx, ny, modes, dual.dtype, dual.device)
        spectrum = dual.new_empty(b * r, 2, 2 * modes**2, c)
        local = dual.new_empty(b * r * nx, ny, c)
        by_sample = spectrum.unflatten(0, (b, r)), local.view(dual.shape)
        slope, scratch = torch.empty_like(dual[:, 0]), _Scratch(dual)
        for chunk in _chunks(dual):
            scratch.slope(dual[chunk, 0], slope[chunk])
            t = scratch.gelu(dual[chunk], slope[chunk])
            by_sample[0][chunk] = analyse(dft, t.flatten(0, 1)).unflatten(0, (-1, r))
            torch.mm(t.view(-1, c), weight.mT, out=by_sample[1][chunk].view(-1, c))
        ctx.save_for_backward(dual, slope, weight)
        ctx.modes = modes
        return spectrum, local

    @staticmethod
    @once_differentiable
    def backward(ctx, spectrum_bar: Tensor, local_bar: Tensor) -> tuple[Tensor, Tensor, None]:
        dual, slope, weight = ctx.saved_tensors
        b, r, nx, ny, c = dual.shape
        adjoint = truncated_dft(nx, ny, ctx.modes, dual.dtype, dual.device).transposed()
        spectrum_bar, local_bar = spectrum_bar.unflatten(0, (b, r)), local_bar.reshape(dual.shape)
        dual_bar, weight_bar = torch.empty_like(dual), torch.zeros_like(weight)
        scratch = _Scratch(dual)
        for chunk in _chunks(dual):
            h, t_bar, out_bar = dual[chunk], dual_bar[chunk], local_bar[chunk].view(-1, c)
            t = scratch.gelu(h, slope[chunk])
            weight_bar.addmm_(out_bar.mT, t.view(-1, c))
            torch.mm(out_bar, weight, out=t_bar.view(-1, c))
            synthesise_onto(adjoint, t_bar.view(-1, ny, c), spectrum_bar[chunk].flatten(0, 1))
            slope_bar = t[:, 0].zero_()
            for j in range(1, r):
                slope_bar.addcmul_(t_bar[:, j], h[:, j])
            t_bar.mul_(slope[chunk].unsqueeze(1))
            t_bar[:, 0].addcmul_(slope_bar, _curvature(h[:, 0]))
        return dual_bar, weight_bar, None


class Head(Function):
    """Last GELU and pointwise head, y = W₂ g(W₁ g(h) + b₁) + b₂, and its q tangents, from a dual field H.

    The head acts at each node alone and has few outputs, so its Jacobian is formed once per node, in reverse,

        J = W₂ diag(g′(k)) W₁ diag(g′(h)),    k = W₁ g(h) + b₁,

    and applied to every tangent, ẏ_j = J ḣ_j. The wide hidden layer is then touched once and not 1+q times. W₂ and W₁
    meet in one matrix: J = (g′(k) R) diag(g′(h)) with R[d, (o, i)] = W₂[o, d] W₁[d, i].
    """

    @staticmethod
    def forward(ctx, dual: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> tuple[Tensor, Tensor]:
        b, r, nx, ny, c = dual.shape
        outputs, hidden = w2.shape
        y = dual.new_empty(b, nx, ny, outputs)
        dy = dual.new_empty(b, r - 1, nx, ny, outputs)
        product = _product(w2, w1)
        slope_h, slope_k = dual.new_empty(b, nx, ny, c), dual.new_empty(b, nx * ny, hidden)
        scratch = _Scratch(dual, hidden)
        for chunk in _chunks(dual):
            h, dh = dual[chunk, 0], dual[chunk, 1:]
            k = torch.addmm(b1, _aten.gelu(h).view(-1, c), w1.mT)
            torch.addmm(b2, _aten.gelu(k), w2.mT, out=y[chunk].view(-1, outputs))
            inner = torch.mm(scratch.slope(k, slope_k[chunk].view(-1, hidden)), product)
            jacobian = inner.view(*h.shape[:3], outputs, c).mul_(scratch.slope(h, slope_h[chunk]).unsqueeze(3))
            for o in range(outputs):
                torch.sum(dh * jacobian[:, None, :, :, o], -1, out=dy[chunk][..., o])
        ctx.save_for_backward(dual, slope_h, slope_k, w1, b1, w2)
        return y, dy

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar: Tensor, dy_bar: Tensor) -> tuple[Tensor, ...]:
        dual, slopes_h, slopes_k, w1, b1, w2 = ctx.saved_tensors
        r, c = dual.shape[1], dual.shape[-1]
        outputs, hidden = w2.shape
        product = _product(w2, w1)
        dual_bar, product_bar = torch.empty_like(dual), torch.zeros_like(product)
        w1_bar, b1_bar, w2_bar = torch.zeros_like(w1), torch.zeros_like(b1), torch.zeros_like(w2)
        for chunk in _chunks(dual):
            h, dh = dual[chunk, 0], dual[chunk, 1:]
            out_bar, dout_bar = y_bar[chunk].reshape(-1, outputs), dy_bar[chunk]
            slope_h, slope_k = slopes_h[chunk].unsqueeze(3), slopes_k[chunk].view(-1, hidden)
            z = _aten.gelu(h).view(-1, c)
            k = torch.addmm(b1, z, w1.mT)
            w2_bar.addmm_(out_bar.mT, _aten.gelu(k))
            inner = torch.mm(slope_k, product).view(*h.shape[:3], outputs, c)  # J without diag(g′(h))

            # ẏ_j = J ḣ_j: adjoints of the tangents and of J
            jacobian, dh_bar = inner * slope_h, dual_bar[chunk, 1:]
            torch.mul(dout_bar[..., :1], jacobian[:, None, :, :, 0], out=dh_bar)
            for o in range(1, outputs):
                dh_bar.addcmul_(dout_bar[..., o, None], jacobian[:, None, :, :, o])
            jacobian_bar = jacobian.zero_()
            for o, j in itertools.product(range(outputs), range(r - 1)):
                jacobian_bar[..., o, :].addcmul_(dout_bar[:, j, ..., o, None], dh[:, j])

            slope_h_bar = (jacobian_bar * inner).sum(3)
            inner_bar = jacobian_bar.mul_(slope_h).view(-1, outputs * c)
            product_bar.addmm_(slope_k.mT, inner_bar)
            k_bar = torch.mm(out_bar, w2).mul_(slope_k)
            k_bar.addcmul_(torch.mm(inner_bar, product.mT), _curvature(k))
            w1_bar.addmm_(k_bar.mT, z)
            b1_bar += k_bar.sum(0)
            h_bar = torch.mul(torch.mm(k_bar, w1).view_as(h), slope_h.squeeze(3), out=dual_bar[chunk, 0])
            h_bar.addcmul_(slope_h_bar, _curvature(h))
        product_bar = product_bar.view(-1, outputs, c)
        w1_bar += torch.einsum("doi,od->di", product_bar, w2)
        w2_bar += torch.einsum("doi,di->od", product_bar, w1)
        return dual_bar, w1_bar, b1_bar, w2_bar, y_bar.sum((0, 1, 2))


def _product(w2: Tensor, w1: Tensor) -> Tensor:
    """R [D, o·i] of `Head` from W₂ [o, D] and W₁ [D, i]."""
    return (w2.mT.unsqueeze(2) * w1.unsqueeze(1)).flatten(1)


class _Scratch:
    """Memory that one chunk after the other uses again."""

    def __init__(self, dual: Tensor, channels: int = 0) -> None:
        largest = dual[_chunks(dual)[0]]
        self._t = torch.empty_like(largest)
        self._ones = dual.new_ones(largest[:, 0].numel() // dual.shape[-1] * max(channels, dual.shape[-1]))

    def slope(self, h: Tensor, out: Tensor) -> Tensor:
        """g′(h) = Φ(h) + h φ(h): the derivative kernel of GELU on an incoming gradient of ones."""
        return _aten.gelu_backward.grad_input(self._ones[: h.numel()].view(h.shape), h, grad_input=out)

    def gelu(self, dual: Tensor, slope: Tensor) -> Tensor:
        """T = GELU(H) of a dual field."""
        t = self._t[: len(dual)]
        _aten.gelu.out(dual[:, 0], out=t[:, 0])
        torch.mul(dual[:, 1:], slope.unsqueeze(1), out=t[:, 1:])
        return t


def _curvature(h: Tensor) -> Tensor:
    """g″(h) = (2 − h²) φ(h)."""
    square = h * h
    density = (square * -0.5).exp_().mul_(-1 / math.sqrt(2 * math.pi))
    return density.mul_(square.sub_(2))


def _chunks(dual: Tensor) -> list[slice]:
    """Slices of the batch: cache-sized on a CPU, everything at once elsewhere."""
    n = len(dual)
    if dual.device.type == "cpu":
        n = max(1, _CHUNK_BYTES // (dual[0].numel() * dual.element_size()))
    return [slice(i, min(i + n, len(dual))) for i in range(0, len(dual), n)]
