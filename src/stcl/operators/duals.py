"""The two nonlinear pieces of an FNO on a value and its q tangents at once.

A dual field H [B, 1+q, nx, ny, C] holds the value h = H[:, 0] and tangents ḣ_j = H[:, j]. Linear layers treat the
1+q fields alike; only the GELU g mixes them, (h, ḣ) ↦ (g(h), g′(h) ḣ), with the adjoint

    h̄ = z̄ g′(h) + Σ_j ż̄_j ḣ_j g″(h),    ḣ̄_j = ż̄_j g′(h).

Both functions walk through the batch in chunks that fit the cache, keep their input and what is dear (the slopes g′ and
the Jacobian of the head), and recompute the rest.
"""

import itertools
import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from stcl.operators.dft import TruncatedDFT, analyse, synthesise_onto, truncated_dft

_CHUNK_BYTES = 16 * 2**20  # of dual field: small enough for the last-level cache, large enough to hide call overheads
_aten = torch.ops.aten


class Block(Function):
    """(H₀, modes, P) ↦ (T Pᵀ, modes of T) with T = GELU(H), H = H₀ + the field of the modes.

    This is all of a spectral layer that touches whole fields; between two of them, only modes are mixed. Fields are
    [B, 1+q, nx, ny, C], modes [B(1+q), 2, 2m·m, C] or None. H is completed in place of H₀, which nobody else needs,
    and T is never stored for the whole batch.
    """

    @staticmethod
    def forward(ctx, dual: Tensor, modes: Tensor | None, weight: Tensor, cutoff: int) -> tuple[Tensor, Tensor]:
        b, r, nx, ny, c = dual.shape
        dft = truncated_dft(nx, ny, cutoff, dual.dtype, dual.device)
        local, spectrum = torch.empty_like(dual), dual.new_empty(b * r, 2, 2 * cutoff**2, c)
        spectrum_of = spectrum.unflatten(0, (b, r))
        slope, scratch = torch.empty_like(dual[:, 0]), _Scratch(dual)
        for chunk in _chunks(dual):
            h = _complete(dft, dual, modes, chunk)
            t = scratch.gelu(h, scratch.slope(h[:, 0], slope[chunk]))
            torch.mm(t.view(-1, c), weight.mT, out=local[chunk].view(-1, c))
            spectrum_of[chunk] = analyse(dft, t.flatten(0, 1)).unflatten(0, (-1, r))
        ctx.save_for_backward(dual, slope, weight)
        ctx.cutoff, ctx.completed = cutoff, modes is not None
        return local, spectrum

    @staticmethod
    @once_differentiable
    def backward(ctx, local_bar: Tensor, spectrum_bar: Tensor) -> tuple[Tensor | None, ...]:
        dual, slope, weight = ctx.saved_tensors
        b, r, nx, ny, c = dual.shape
        adjoint = truncated_dft(nx, ny, ctx.cutoff, dual.dtype, dual.device).transposed()
        local_bar, spectrum_bar = local_bar.contiguous(), spectrum_bar.unflatten(0, (b, r))
        dual_bar, weight_bar = torch.empty_like(dual), torch.zeros_like(weight)
        modes_bar = dual.new_empty(b * r, 2, 2 * ctx.cutoff**2, c) if ctx.completed else None
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
            _complete_adjoint(adjoint, dual_bar, modes_bar, chunk)
        return dual_bar, modes_bar, weight_bar, None


class Head(Function):
    """Last GELU and pointwise head, y = W₂ g(W₁ g(h) + b₁) + b₂, and its q tangents, from H as in `Block`.

    The head acts at each node alone and has few outputs, so its Jacobian is formed once per node, in reverse,

        J = W₂ diag(g′(k)) W₁ diag(g′(h)),    k = W₁ g(h) + b₁,

    and applied to every tangent, ẏ_j = J ḣ_j. The wide hidden layer is then touched once and not 1+q times. W₂ and W₁
    meet in one matrix: J = (g′(k) R) diag(g′(h)) with R[d, (o, i)] = W₂[o, d] W₁[d, i].
    """

    @staticmethod
    def forward(
        ctx, dual: Tensor, modes: Tensor | None, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, cutoff: int
    ) -> tuple[Tensor, Tensor]:
        b, r, nx, ny, c = dual.shape
        dft = truncated_dft(nx, ny, cutoff, dual.dtype, dual.device)
        outputs, hidden = w2.shape
        y = dual.new_empty(b, nx, ny, outputs)
        dy = dual.new_empty(b, r - 1, nx, ny, outputs)
        product = _product(w2, w1)
        slope_h, slope_k = dual.new_empty(b, nx, ny, c), dual.new_empty(b, nx * ny, hidden)
        inner = dual.new_empty(b, nx, ny, outputs, c)  # J without diag(g′(h))
        scratch = _Scratch(dual, hidden)
        for chunk in _chunks(dual):
            h, dh = _complete(dft, dual, modes, chunk).split((1, r - 1), 1)
            h = h.squeeze(1)
            k = torch.addmm(b1, _aten.gelu(h).view(-1, c), w1.mT)
            torch.addmm(b2, _aten.gelu(k), w2.mT, out=y[chunk].view(-1, outputs))
            slope = scratch.slope(k, slope_k[chunk].view(-1, hidden))
            torch.mm(slope, product, out=inner[chunk].view(-1, outputs * c))
            jacobian = inner[chunk] * scratch.slope(h, slope_h[chunk]).unsqueeze(3)
            for o in range(outputs):
                torch.sum(dh * jacobian[:, None, :, :, o], -1, out=dy[chunk][..., o])
        ctx.save_for_backward(dual, slope_h, slope_k, inner, w1, b1, w2)
        ctx.cutoff, ctx.completed = cutoff, modes is not None
        return y, dy

    @staticmethod
    @once_differentiable
    def backward(ctx, y_bar: Tensor, dy_bar: Tensor) -> tuple[Tensor, ...]:
        dual, slopes_h, slopes_k, inners, w1, b1, w2 = ctx.saved_tensors
        b, r, nx, ny, c = dual.shape
        outputs, hidden = w2.shape
        adjoint = truncated_dft(nx, ny, ctx.cutoff, dual.dtype, dual.device).transposed()
        modes_bar = dual.new_empty(b * r, 2, 2 * ctx.cutoff**2, c) if ctx.completed else None
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

            # ẏ_j = J ḣ_j: adjoints of the tangents and of J
            inner, dh_bar = inners[chunk], dual_bar[chunk, 1:]
            jacobian = inner * slope_h
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
            _complete_adjoint(adjoint, dual_bar, modes_bar, chunk)
        product_bar = product_bar.view(-1, outputs, c)
        w1_bar += torch.einsum("doi,od->di", product_bar, w2)
        w2_bar += torch.einsum("doi,di->od", product_bar, w1)
        return dual_bar, modes_bar, w1_bar, b1_bar, w2_bar, y_bar.sum((0, 1, 2)), None


def _complete(dft: TruncatedDFT, dual: Tensor, modes: Tensor | None, chunk: slice) -> Tensor:
    """The chunk of H = H₀ + the field of the modes, in place."""
    h = dual[chunk]
    if modes is not None:
        synthesise_onto(dft, h.view(-1, *h.shape[-2:]), modes.unflatten(0, dual.shape[:2])[chunk].flatten(0, 1))
    return h


def _complete_adjoint(adjoint: TruncatedDFT, dual_bar: Tensor, modes_bar: Tensor | None, chunk: slice) -> None:
    """Gradient of the modes from that of H, while the latter is in the cache."""
    if modes_bar is not None:
        by_sample = modes_bar.unflatten(0, dual_bar.shape[:2])
        by_sample[chunk] = analyse(adjoint, dual_bar[chunk].flatten(0, 1)).unflatten(0, (-1, dual_bar.shape[1]))


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
