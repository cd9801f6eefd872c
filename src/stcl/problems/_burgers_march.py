"""Burgers as implicit steps from one frame to the next. This module imports torch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.problems._cyclic_reduction import CyclicReduction


class BurgersMarch:
    """F(u, f)_{n+1} = (u_{n+1} − u_n)/τ + N(u_{n+1}) − (f_n + f_{n+1})/2,  N(u) = u ∂ₓu − ν ∂ₓₓu,  at the frames.

    This is the implicit step of the solver with the frames' own distance τ. One sweep through the frames solves
    (1/τ + N'(u_{n+1})) w_{n+1} = w_n/τ + g_{n+1}. It has finer nodes in x, because boundary layers of w are thinner
    than a cell of the network's grid. u and g are interpolated to these nodes, and w is interpolated back.

    Shapes are those of the residual of the problem: u [B, nx, nt], F [B, nx-2, nt-1].
    """

    tangent_residual = None  # nobody needs it: a sweep does not start from another tangent

    def __init__(self, nodes: np.ndarray, frames: np.ndarray, finer: np.ndarray, viscosity: float) -> None:
        """Take nodes and frames of the network, and the finer nodes, both ends included."""
        self.viscosity, self.tau = viscosity, float(frames[1] - frames[0])
        self.spacing, self.fine_spacing = float(nodes[1] - nodes[0]), float(finer[1] - finer[0])
        self._refine, self._coarsen = _interpolation(nodes, finer), _interpolation(finer, nodes)

    def residual(self, u: Tensor, a: Tensor) -> Tensor:
        new, h = u[..., 1:], self.spacing
        slope = (new[..., 2:, :] - new[..., :-2, :]) / (2 * h)
        bend = (new[..., 2:, :] - 2 * new[..., 1:-1, :] + new[..., :-2, :]) / h**2
        change = (new - u[..., :-1])[..., 1:-1, :] / self.tau
        return change + new[..., 1:-1, :] * slope - self.viscosity * bend - _between(a).unsqueeze(-2)

    def input_derivative(self, u: Tensor, a: Tensor, v: Tensor) -> Tensor:
        """−(v_n + v_{n+1})/2 at every node."""
        v = v.expand(len(u), *v.shape[-2:])
        return -_between(v).unsqueeze(-2).expand(*v.shape[:2], u.shape[1] - 2, -1)

    def propagate(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
        """g [B, q, nx-2, nt-1] ↦ x [B, q, nx, nt], which vanishes at walls and in the first frame."""
        refine, coarsen, h = like(u, self._refine), like(u, self._coarsen), self.fine_spacing
        fine = refine @ u[..., 1:].permute(2, 1, 0)  # [nt-1, nodes, B]
        fine = fine.mT.contiguous()
        diffusion, transport = self.tau * self.viscosity / h**2, self.tau / (2 * h) * fine[..., 1:-1]
        slope = (self.tau / (2 * h)) * (fine[..., 2:] - fine[..., :-2])
        step = CyclicReduction(-diffusion - transport, 1 + 2 * diffusion + slope, -diffusion + transport)

        def sweep(g: Tensor) -> Tensor:
            # At the walls, where there is no equation, a force is what it is next to them.
            whole = torch.cat([g[:, :, :1], g, g[:, :, -1:]], 2).permute(3, 0, 1, 2)
            forces = self.tau * (whole @ refine[1:-1].mT)  # [nt-1, B, q, finer nodes]
            w, found = torch.zeros_like(forces[0]), []
            for n, force in enumerate(forces):
                w = step.solve(n, w + force)
                found.append(w)
            inner = torch.stack(found, -1)
            x = g.new_zeros(*g.shape[:2], len(coarsen), g.shape[3] + 1)
            x[..., 1:-1, 1:] = coarsen[1:-1, 1:-1] @ inner
            return x

        return sweep


def _between(f: Tensor) -> Tensor:
    """The means of neighbouring frames."""
    return (f[..., 1:] + f[..., :-1]) / 2


def _interpolation(nodes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The matrix [points, nodes] of linear interpolation."""
    return np.stack([np.interp(points, nodes, row) for row in np.eye(len(nodes))], axis=1)
