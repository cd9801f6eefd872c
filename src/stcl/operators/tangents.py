"""Value and tangents of any network by forward mode."""

import torch
from torch import Tensor, nn


def value_and_tangents(network: nn.Module, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
    """y = f(x) [B, ...] and dy [B, q, ...] for directions dx [q, ...] shared by the batch or [B, q, ...].

    A network with a method of the same name does it its own, faster way.
    """
    own = getattr(network, "value_and_tangents", None)
    if own is not None:
        return own(x, dx)
    if dx.ndim == x.ndim:
        dx = dx.unsqueeze(0).expand(len(x), *dx.shape)

    def along(direction: Tensor) -> tuple[Tensor, Tensor]:
        return torch.func.jvp(network, (x,), (direction,))

    return torch.func.vmap(along, in_dims=1, out_dims=(None, 1))(dx)
