"""The Fourier neural operator of the paper."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SpectralConv(nn.Module):
    """Multiply the lowest Fourier modes by complex matrices, stored as real pairs [in, out, m, m, 2]."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        scale = 1.0 / width**2
        self.positive = nn.Parameter(scale * torch.randn(width, width, modes, modes, 2))
        self.negative = nn.Parameter(scale * torch.randn(width, width, modes, modes, 2))

    def forward(self, x: Tensor) -> Tensor:
        m = self.modes
        spectrum = torch.fft.rfft2(x, norm="ortho")
        rows = torch.cat([spectrum[:, :, :m, :m], spectrum[:, :, -m:, :m]], 2)
        weight = torch.view_as_complex(torch.cat([self.positive, self.negative], 2))
        mixed = torch.einsum("bixy,ioxy->boxy", rows, weight)
        pad = torch.nn.functional.pad(mixed, (0, spectrum.shape[3] - m))
        gap = pad.new_zeros(*pad.shape[:2], spectrum.shape[2] - 2 * m, pad.shape[3])
        return torch.fft.irfft2(torch.cat([pad[:, :, :m], gap, pad[:, :, m:]], 2), s=x.shape[-2:], norm="ortho")


class FNO(nn.Module):
    """Lift, blocks of GELU(spectral + pointwise), pointwise head: [B, nx, ny, c_in] → [B, nx, ny, c_out]."""

    def __init__(
        self, c_in: int, c_out: int, width: int = 32, modes: int = 8, layers: int = 4, head: int = 128
    ) -> None:
        super().__init__()
        self.lift = nn.Linear(c_in, width)
        self.spectral = nn.ModuleList()
        self.pointwise = nn.ModuleList()
        for _ in range(layers):
            self.spectral.append(SpectralConv(width, modes))
            self.pointwise.append(nn.Conv2d(width, width, 1))
        self.head_in = nn.Linear(width, head)
        self.head_out = nn.Linear(head, c_out)

    def forward(self, x: Tensor) -> Tensor:
        z = self.lift(x).movedim(-1, 1)
        for spectral, pointwise in zip(self.spectral, self.pointwise, strict=True):
            z = F.gelu(spectral(z) + pointwise(z))
        return self.head_out(F.gelu(self.head_in(z.movedim(1, -1))))
