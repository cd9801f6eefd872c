"""The Fourier neural operator of the paper, with value and tangents in one pass."""

from typing import Any

import torch
from torch import Tensor, nn

from stcl.operators.duals import fno, plain, transformed
from stcl.operators.settings import too_many_modes
from stcl.operators.weights import Weights


class SpectralWeights(nn.Module):
    """One complex matrix for each of the kept modes, [ky, kx, Re|Im, in, out] with kx = 0..m−1 and −m..−1."""

    def __init__(self, width: int, modes: int, init: str) -> None:
        super().__init__()
        draw = {"normal": torch.randn, "uniform": torch.rand}[init]
        # The draws are [in, out, kx, ky, Re|Im] for kx ≥ 0, then for kx < 0.
        draws = [draw(width, width, modes, modes, 2) / width**2 for _ in range(2)]
        self.weight = nn.Parameter(torch.cat(draws, 2).permute(3, 2, 4, 0, 1).contiguous())


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
        if transformed(x):
            return plain(x, self.weights())
        y, _ = fno(x, None, self.weights())
        return y

    def value_and_tangents(self, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        """y [B, nx, ny, c_out] and dy [B, q, nx, ny, c_out] for directions dx, [q, nx, ny, c_in] or one set per sample.

        Directions that are constant along a grid axis may have one node there. The value is computed once for all
        directions, and gradients with respect to the weights and to x and dx flow through both results.
        """
        self._check_grid(x)
        y, dy = fno(x, dx if dx.ndim > x.ndim else dx.unsqueeze(0), self.weights())
        assert dy is not None
        return y, dy

    def weights(self) -> Weights:
        """The parameters in the order of the passes."""
        head_in, head_out = self.head_in, self.head_out
        return Weights(
            self.lift.weight,
            self.lift.bias,
            head_in.weight,
            head_in.bias,
            head_out.weight,
            head_out.bias,
            tuple(layer.weight for layer in self.spectral),
            tuple(layer.weight for layer in self.pointwise),
            tuple(layer.bias for layer in self.pointwise),
        )

    def _check_grid(self, x: Tensor) -> None:
        refusal = too_many_modes(self.modes, tuple(x.shape[1:3]))
        if refusal is not None:
            raise ValueError(refusal)
