"""Burgers as implicit steps from one frame to the next. This module imports torch."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like
from stcl.problems._cyclic_reduction import CyclicReduction


class BurgersMarch:
    """F(u, f)_{n+1} = (u_{n+1} − u_n)/τ + N(u_{n+1}) − f̄_n,  N(u) = u ∂ₓu − ν ∂ₓₓu,  with the frames' distance τ.

    This is the implicit step of the solver, taken once from frame to frame. f̄_n is the mean of what the solver's own
    steps of size s take in between, each the f of its old time: with f linear between frames,
    f̄_n = (1/2 + d) f_n + (1/2 − d) f_{n+1},  d = s / 2τ.

    F has finer nodes in x than the network, to which u is interpolated, because boundary layers are thinner than a cell
    of the network's grid. One sweep through the frames solves (1/τ + N'(u_{n+1})) w_{n+1} = w_n/τ + g_{n+1} at these
    nodes, and w is interpolated back.

    Shapes: u [B, nx, nt], F [B, finer-2, nt-1].
    """

    tangent_residual = None  # nobody needs it: a sweep does not start from another tangent

    def __init__(
        self, nodes: np.ndarray, frames: np.ndarray, finer: np.ndarray, solver_step: float, viscosity: float
    ) -> None:
        """Take nodes and frames of the network, the finer nodes, both ends included, and the solver's time step."""
        self.viscosity, self.tau = viscosity, float(frames[1] - frames[0])
        self.spacing = float(finer[1] - finer[0])
        later = max(0.5 - solver_step / (2 * self.tau), 0.0)
        self._shares = 1 - later, later  # of f_n and of f_{n+1} in their mean
        self._refine, self._coarsen = _interpolation(nodes, finer), _interpolation(finer, nodes)

    def residual(self, u: Tensor, a: Tensor) -> Tensor:
        fine, h = like(u, self._refine) @ u, self.spacing
        new = fine[..., 1:]
        slope = (new[..., 2:, :] - new[..., :-2, :]) / (2 * h)
        bend = (new[..., 2:, :] - 2 * new[..., 1:-1, :] + new[..., :-2, :]) / h**2
        change = (new - fine[..., :-1])[..., 1:-1, :] / self.tau
        return change + new[..., 1:-1, :] * slope - self.viscosity * bend - self._between(a).unsqueeze(-2)

    def input_derivative(self, u: Tensor, a: Tensor, v: Tensor) -> Tensor:
        """The mean of v between two frames, negative, at every node."""
        v = v.expand(len(u), *v.shape[-2:])
        return -self._between(v).unsqueeze(-2).expand(*v.shape[:2], len(self._refine) - 2, -1)

    def _between(self, f: Tensor) -> Tensor:
        """f̄ [..., nt-1]."""
        earlier, later = self._shares
        return earlier * f[..., :-1] + later * f[..., 1:]

    def propagate(self, u: Tensor, a: Tensor) -> Callable[[Tensor], Tensor]:
        """g [B, q, finer-2, nt-1] ↦ x [B, q, nx, nt], which vanishes at walls and in the first frame."""
        refine, coarsen, h = like(u, self._refine), like(u, self._coarsen), self.spacing
        fine = refine @ u[..., 1:].permute(2, 1, 0)  # [nt-1, nodes, B]
        fine = fine.mT.contiguous()
        diffusion, transport = self.tau * self.viscosity / h**2, self.tau / (2 * h) * fine[..., 1:-1]
        slope = (self.tau / (2 * h)) * (fine[..., 2:] - fine[..., :-2])
        step = CyclicReduction(-diffusion - transport, 1 + 2 * diffusion + slope, -diffusion + transport)

        def sweep(g: Tensor) -> Tensor:
            forces = self.tau * g.permute(3, 0, 1, 2)  # [nt-1, B, q, finer-2]
            w, found = torch.zeros_like(forces[0]), []
            for n, force in enumerate(forces):
                w = step.solve(n, w + force)
                found.append(w)
            inner = torch.stack(found, -1)
            x = g.new_zeros(*g.shape[:2], len(coarsen), g.shape[3] + 1)
            x[..., 1:-1, 1:] = coarsen[1:-1, 1:-1] @ inner
            return x

        return sweep


def _interpolation(nodes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The matrix [points, nodes] of linear interpolation."""
    return np.stack([np.interp(points, nodes, row) for row in np.eye(len(nodes))], axis=1)
