"""Allen-Cahn as steps from one frame to the next. This module imports torch."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like


class AllenCahnMarch:
    """F(u, a)_{n+1} = u_{n+1} − Φ(u_n),  u_0 = a,  at the frames after the first.

    Φ takes a few substeps R(δ/2) E R(δ/2) from a frame to the next: the reaction u' = u − u³ and the diffusion are each
    solved exactly, the reaction node by node and the diffusion by the matrix E = exp(δ ε² ∂ₓₓ). Every step starts from
    its own frame, so all of them are taken together, and they see what happens between two frames. One sweep through
    the frames solves w_{n+1} = DΦ(u_n) w_n + g_{n+1}.

    Shapes are those of the residual of the problem: u [B, nt, nx], F [B, nt-1, nx].
    """

    tangent_residual = None  # nobody needs it: a sweep does not start from another tangent

    def __init__(self, diffusion: np.ndarray, step: float, substeps: int) -> None:
        """Take E [nx, nx] and the length δ of each of the substeps of a frame."""
        self.diffusion, self.step, self.substeps = diffusion, step, substeps

    def residual(self, u: Tensor, a: Tensor) -> Tensor:
        return u[:, 1:] - self._advance(_starts(u, a))[0]

    def input_derivative(self, u: Tensor, a: Tensor, v: Tensor) -> Tensor:
        """−DΦ(a) v at the second frame, and zero at all others."""
        slopes = [slope.unsqueeze(1) for slope in self._advance(a)[1]]
        first = self._push(slopes, v.expand(len(u), *v.shape[-2:]))
        return torch.nn.functional.pad(-first.unsqueeze(2), (0, 0, 0, u.shape[1] - 2))

    def propagate(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
        """g [B, q, nt-1, nx] ↦ x [B, q, nt, nx] with x_{n+1} = DΦ(u_n) x_n + g_{n+1} and x_0 = 0."""
        slopes = self._advance(_starts(u, a))[1]

        def sweep(g: Tensor) -> Tensor:
            x = g.new_zeros(*g.shape[:2], g.shape[2] + 1, g.shape[3])
            x[:, :, 1] = g[:, :, 0]
            for n in range(1, g.shape[2]):
                torch.add(self._push([s[:, n : n + 1] for s in slopes], x[:, :, n]), g[:, :, n], out=x[:, :, n + 1])
            return x

        return sweep

    def _advance(self, u: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Φ(u), and the derivative of each reaction on the way there."""
        diffusion, slopes = like(u, self.diffusion), []
        u, slope = _react(u, self.step / 2)
        slopes.append(slope)
        for substep in range(self.substeps):
            whole = substep < self.substeps - 1  # the half steps of two substeps are one step
            u, slope = _react(u @ diffusion, self.step if whole else self.step / 2)
            slopes.append(slope)
        return u, slopes

    def _push(self, slopes: list[Tensor], w: Tensor) -> Tensor:
        """DΦ w for the slopes of Φ."""
        diffusion = like(w, self.diffusion)
        w = w * slopes[0]
        for slope in slopes[1:]:
            w = (w @ diffusion).mul_(slope)
        return w


def _starts(u: Tensor, a: Tensor) -> Tensor:
    """The frames that the steps start from."""
    return torch.cat([a.unsqueeze(1), u[:, 1:-1]], 1)


def _react(u: Tensor, time: float) -> tuple[Tensor, Tensor]:
    """The solution of u' = u − u³ after this time, and its derivative in the initial value."""
    growth = math.exp(time)
    shrink = torch.rsqrt(1 + (growth**2 - 1) * u * u)
    return growth * u * shrink, growth * shrink**3
