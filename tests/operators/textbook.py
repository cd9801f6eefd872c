"""The FNO as papers write it: full transforms, channels first, one direction at a time. The oracle and the baseline."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stcl.operators.fno import FNO


class TextbookSpectral(nn.Module):
    def __init__(self, width: int, modes: int, init: str) -> None:
        super().__init__()
        self.modes = modes
        draw = torch.randn if init == "normal" else torch.rand
        self.positive = nn.Parameter(draw(width, width, modes, modes, 2) / width**2)
        self.negative = nn.Parameter(draw(width, width, modes, modes, 2) / width**2)

    def forward(self, x: Tensor) -> Tensor:
        m = self.modes
        spectrum = torch.fft.rfft2(x, norm="ortho")
        rows = torch.cat([spectrum[:, :, :m, :m], spectrum[:, :, -m:, :m]], 2)
        weight = torch.view_as_complex(torch.cat([self.positive, self.negative], 2))
        mixed = F.pad(torch.einsum("bixy,ioxy->boxy", rows, weight), (0, spectrum.shape[3] - m))
        gap = mixed.new_zeros(*mixed.shape[:2], spectrum.shape[2] - 2 * m, mixed.shape[3])
        return torch.fft.irfft2(torch.cat([mixed[:, :, :m], gap, mixed[:, :, m:]], 2), s=x.shape[-2:], norm="ortho")


class TextbookFNO(nn.Module):
    """[B, nx, ny, c_in] → [B, nx, ny, c_out]."""

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
        self.lift = nn.Linear(c_in, width)
        self.spectral, self.pointwise = nn.ModuleList(), nn.ModuleList()
        for _ in range(layers):
            self.spectral.append(TextbookSpectral(width, modes, init))
            self.pointwise.append(nn.Conv2d(width, width, 1))
        self.head_in = nn.Linear(width, head)
        self.head_out = nn.Linear(head, c_out)

    def forward(self, x: Tensor) -> Tensor:
        z = self.lift(x).movedim(-1, 1)
        for spectral, pointwise in zip(self.spectral, self.pointwise, strict=True):
            z = F.gelu(spectral(z) + pointwise(z))
        return self.head_out(F.gelu(self.head_in(z.movedim(1, -1))))


def textbook_of(network: FNO) -> TextbookFNO:
    """The textbook network with the same numbers."""
    c_in, width = network.lift.in_features, network.lift.out_features
    shape = (network.head_out.out_features, width, network.modes, len(network.spectral), network.head_in.out_features)
    textbook = TextbookFNO(c_in, *shape)
    shapes = textbook.state_dict()
    textbook.load_state_dict({name: w.reshape(shapes[name].shape) for name, w in textbook_weights(network).items()})
    return textbook


def textbook_weights(network: FNO, gradients: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The network's weights, or their gradients, by the textbook's names: kx ≥ 0 and kx < 0 as [in, out, kx, ky, 2]."""
    named = {}
    for name, w in (gradients or network.state_dict()).items():
        if name.startswith("spectral."):
            layer, halves = name.removesuffix(".weight"), w.permute(3, 4, 1, 0, 2).chunk(2, 2)
            named |= {f"{layer}.positive": halves[0], f"{layer}.negative": halves[1]}
        else:
            named[name] = w
    return named


def loop_of_jvps(network: nn.Module, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
    """Value and tangents as the paper's code takes them: q separate forward-mode passes, each with its own value."""
    directions = dx.unbind(1) if dx.ndim > x.ndim else [v.expand_as(x) for v in dx]
    passes = [torch.func.jvp(network, (x,), (v,)) for v in directions]
    return passes[0][0], torch.stack([dy for _, dy in passes], 1)
