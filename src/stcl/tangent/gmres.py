"""GMRES whose basis is one tensor: few operations a step, for systems that need ten steps and more."""

import torch
from torch import Tensor

from stcl.tangent.krylov import Linear, Solution


def gmres(operator: Linear, g: Tensor, preconditioner: Linear, steps: int, axes: int) -> Solution:
    """GMRES with right preconditioner for A x = g with any A, from zero; arguments as in stcl.tangent.krylov.

    Gram-Schmidt is classical and done once. In single precision this costs some steps after twenty or so. The residual
    is still that of x, by the relation A P V = V H of the Arnoldi process. `solved` is false where x is not finite.
    """
    lead = g.shape[: g.ndim - axes]
    flat = g.reshape(lead.numel(), -1)
    length = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    basis = flat.new_empty(len(flat), steps + 1, flat.shape[1])
    basis[:, 0] = flat / _nonzero(length)
    shares = flat.new_zeros(len(flat), steps + 1, steps)  # H
    turned = flat.new_zeros(len(flat), steps + 1, steps)  # Ω H, upper triangular
    turn = torch.eye(steps + 1, dtype=g.dtype, device=g.device).repeat(len(flat), 1, 1)  # Ω, a product of rotations
    for j in range(steps):
        known, column = basis[:, : j + 1], shares[:, :, j]
        w = operator(preconditioner(basis[:, j].view(g.shape))).reshape(len(flat), 1, -1)
        before, share = torch.linalg.vector_norm(w, dim=2), torch.bmm(w, known.mT)
        w = torch.baddbmm(w, share, known, alpha=-1)
        rest = torch.linalg.vector_norm(w, dim=2)
        # The Krylov space is exhausted where Arnoldi only returns rounding errors.
        rest = torch.where(rest > 10 * torch.finfo(g.dtype).eps * before, rest, 0)
        column[:, : j + 2] = torch.cat([share.squeeze(1), rest], 1)
        basis[:, j + 1] = w.squeeze(1) * (rest > 0) / _nonzero(rest)
        rotated = torch.bmm(turn, column.unsqueeze(2)).squeeze(2)
        pair = rotated[:, j : j + 2]
        cosine, sine = (pair / _nonzero(torch.linalg.vector_norm(pair, dim=1, keepdim=True))).unbind(1)
        rotation = torch.stack([cosine, sine, -sine, cosine], 1).view(-1, 2, 2)
        turn[:, j : j + 2] = torch.bmm(rotation, turn[:, j : j + 2])
        turned[:, :, j] = torch.bmm(turn, column.unsqueeze(2)).squeeze(2)
    triangle = turned[:, :steps]
    # A column is zero where the Krylov space was exhausted before, and so is the vector of the basis that it weighs.
    diagonal = triangle.diagonal(dim1=1, dim2=2)
    diagonal.copy_(torch.where(diagonal == 0, 1, diagonal))
    y = torch.linalg.solve_triangular(triangle, turn[:, :steps, :1], upper=True)
    left = torch.bmm(shares, y).neg_()
    left[:, 0] += 1
    residual = torch.linalg.vector_norm(torch.bmm(left.mT, basis), dim=2)
    x = preconditioner((length * torch.bmm(y.mT, basis[:, :steps]).squeeze(1)).view(g.shape))
    solved = x.reshape(len(flat), -1).isfinite().all(1)
    x = torch.where(solved.view(*lead, *[1] * axes), x, 0)
    return Solution(x, torch.where(length > 0, residual, 0).view(lead), solved.view(lead))


def _nonzero(length: Tensor) -> Tensor:
    """A divisor: 1 for 0."""
    return torch.where(length == 0, 1, length)
