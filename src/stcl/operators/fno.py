"""The Fourier neural operator of the paper, with value and tangents in one pass."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stcl.operators.dft import analyse_x, analyse_y, synthesise_x, synthesise_y_onto, truncated_dft
from stcl.operators.duals import First, Head, Layer


class SpectralWeights(nn.Module):
    """Complex matrices of the kept modes, as real pairs [in, out, kx, ky, Re|Im], for kx ≥ 0 and for kx < 0."""

    def __init__(self, width: int, modes: int, init: str) -> None:
        super().__init__()
        draw = {"normal": torch.randn, "uniform": torch.rand}[init]
        self.positive, self.negative = (
            nn.Parameter(_modes_first(draw(width, width, modes, modes, 2) / width**2)) for _ in range(2)
        )

    def matrices(self) -> Tensor:
        """Real and imaginary parts [2, 2m·m, in, out], one matrix per mode (ky, kx)."""
        return torch.cat([w.permute(4, 3, 2, 0, 1) for w in (self.positive, self.negative)], 2).flatten(1, 2)


def _modes_first(w: Tensor) -> Tensor:
    """The same tensor in the memory order in which `matrices` reads it, so that it is not transposed at every step."""
    return w.permute(4, 3, 2, 0, 1).contiguous().permute(3, 4, 2, 1, 0)


class FNO(nn.Module):
    """Lift, blocks of GELU(spectral + pointwise), pointwise head: [B, nx, ny, c_in] → [B, nx, ny, c_out].

        h₁ = K₁(L x + l),   h_ℓ₊₁ = K_ℓ₊₁ g(h_ℓ),   y = W₂ g(W₁ g(h_layers) + b₁) + b₂,

    where K_ℓ f is the spectral convolution of f plus P_ℓ f + p_ℓ at each node. `init` is the law of the spectral
    weights, standard normal or uniform on [0, 1), before they are divided by width². Weights are drawn in this order:
    lift; kx ≥ 0, kx < 0 and pointwise of each block; head.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        width: int = 32,
        modes: int = 8,
        layers: int = 4,
        head: int = 128,
        init: str = "normal",
    ) -> None:
        super().__init__()
        if init not in ("normal", "uniform"):
            raise ValueError(f'init must be "normal" or "uniform", got {init!r}')
        if layers < 2:
            raise ValueError(f"the network needs layers >= 2, got {layers}: the first has the lift, the last the head")
        self.modes = modes
        self.lift = nn.Linear(c_in, width)
        # torch does not say of what type the modules of a list are.
        self.spectral: Any = nn.ModuleList()
        self.pointwise: Any = nn.ModuleList()
        for _ in range(layers):
            self.spectral.append(SpectralWeights(width, modes, init))
            self.pointwise.append(nn.Linear(width, width))
        self.head_in = nn.Linear(width, head)
        self.head_out = nn.Linear(head, c_out)

    def forward(self, x: Tensor) -> Tensor:
        """y [B, nx, ny, c_out] for x [B, nx, ny, c_in]. Any torch.func transform applies to it."""
        self._check_grid(x)
        h, _ = self._first(x.unsqueeze(2), None)
        for spectral, pointwise in zip(self.spectral[1:], self.pointwise[1:], strict=True):
            z = F.gelu(h)
            h = self._convolve(z, spectral.matrices(), pointwise.weight, pointwise.bias)
        return self.head_out(F.gelu(self.head_in(F.gelu(h)))).squeeze(2)

    def value_and_tangents(self, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        """y [B, nx, ny, c_out] and dy [B, q, nx, ny, c_out] for directions dx, [q, nx, ny, c_in] or one set per sample.

        Directions that are constant along a grid axis may have one node there. The value is computed once for all
        directions, and gradients with respect to the weights and to x and dx flow through both results.
        """
        self._check_grid(x)
        dx = dx if dx.ndim > x.ndim else dx.unsqueeze(0)
        h, dh = self._first(x.unsqueeze(2), dx.transpose(1, 2))
        r, nodes = 1 + dx.shape[1], x.shape[1] * x.shape[2]
        dual, modes = First.apply(h, dh, self.pointwise[1].weight, self.modes)
        for layer in range(1, len(self.pointwise)):
            if layer > 1:
                dual, modes = Layer.apply(dual, modes, self.pointwise[layer].weight, self.modes)
            modes = mix(modes, self.spectral[layer].matrices())
            # The bias is a constant, and only the values have it.
            modes[0, 0, 0, ::r] += math.sqrt(nodes) * self.pointwise[layer].bias
        head_in, head_out = self.head_in, self.head_out
        y, dy = Head.apply(dual, modes, head_in.weight, head_in.bias, head_out.weight, head_out.bias, self.modes)
        return y.squeeze(2), dy.transpose(1, 2)

    def _first(self, x: Tensor, dx: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """h₁ = K₁(L x + l) of x, and K₁ L dx: [..., nx, r, ny, c_in] → [..., nx, r, ny, width].

        The lift is folded into the first layer's matrices, so that the transform acts on c_in channels and no lifted
        field exists. Biases ride on a constant channel. The matrices do not depend on x, so directions that all
        samples share, or that are constant along an axis, stay small here.
        """
        lift, pointwise = self.lift, self.pointwise[0]
        lifted = torch.cat([lift.weight.mT, lift.bias.unsqueeze(0)])
        matrices = lifted @ self.spectral[0].matrices()
        local = pointwise.weight @ lifted.mT
        h = self._convolve(F.pad(x, (0, 1), value=1.0), matrices, local, pointwise.bias)
        if dx is None:
            return h, None
        return h, self._convolve(dx, matrices[:, :, :-1], local[:, :-1], None)

    def _convolve(self, fields: Tensor, matrices: Tensor, local: Tensor, bias: Tensor | None) -> Tensor:
        """Spectral plus pointwise map of fields [B, nx, r, ny, in] by [2, 2m·m, in, out], [out, in] and [out].

        The bias enters as what it is, the zero mode (1/√(nx ny) everywhere). This saves one pass over the field.
        """
        b, nx, r, ny, _ = fields.shape
        dft = truncated_dft(nx, ny, self.modes, fields.dtype, fields.device)
        modes = mix(analyse_x(dft, analyse_y(dft, fields)), matrices)
        if bias is not None:
            modes[0, 0, 0] += math.sqrt(nx * ny) * bias
        rows = fields.reshape(b * nx * r, ny, -1) @ local.mT
        return synthesise_y_onto(dft, rows, synthesise_x(dft, modes, r)).view(b, nx, r, ny, -1)

    def _check_grid(self, x: Tensor) -> None:
        nx, ny = x.shape[1:3]
        if 2 * self.modes > nx or self.modes > ny // 2 + 1:
            raise ValueError(
                f"{self.modes} modes need a grid of at least {2 * self.modes} x {2 * self.modes - 2} nodes, "
                f"got {nx} x {ny}; use fewer modes or a finer grid"
            )


def mix(modes: Tensor, matrices: Tensor) -> Tensor:
    """Each mode times its complex matrix: [m, 2m, 2, N, in] and [2, 2m·m, in, out] → [m, 2m, 2, N, out]."""
    re, im = modes.flatten(0, 1).unbind(1)
    real, imag = matrices.unbind(0)
    out_re = torch.bmm(re, real).baddbmm_(im, imag, alpha=-1)
    out_im = torch.bmm(re, imag).baddbmm_(im, real)
    return torch.stack([out_re, out_im], 1).unflatten(0, modes.shape[:2])
