"""Value and tangents of any network by forward mode."""

from collections.abc import Callable

import torch
from torch import Tensor


def value_and_tangents(network: Callable[[Tensor], Tensor], x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
    """y = f(x) [B, ...] and dy [B, q, ...] for directions dx [q, ...] shared by the batch or [B, q, ...].

    Directions that are constant along a grid axis may have one node there. A network with a method of the same name
    does it in its own, faster way. For any other, the q tangents are pushed forward together along one value.
    """
    own = getattr(network, "value_and_tangents", None)
    if own is not None:
        return own(x, dx)
    if dx.ndim == x.ndim:
        dx = dx.unsqueeze(0)
    dx = dx.expand(len(x), -1, *x.shape[1:])

    # torch.func.linearize would fold the weights into constants: tangents would have no gradient in the weights.
    def pushforward(v: Tensor) -> tuple[Tensor, Tensor]:
        value, tangent = torch.func.jvp(network, (x,), (v,))  # type: ignore[misc]  # no auxiliary output is asked for
        return value, tangent

    return torch.func.vmap(pushforward, in_dims=1, out_dims=(None, 1))(dx)  # type: ignore[arg-type]  # None is allowed
