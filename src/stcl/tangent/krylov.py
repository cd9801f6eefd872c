"""A fixed number of Krylov steps for many systems at once.

Every solver takes the operator A, right-hand sides g [..., *field], a positive preconditioner M ≈ A⁻¹, the number of
steps m, and how many trailing axes make up one vector. It starts from zero and gives x ≈ A⁻¹g and the relative
residual that is left. A and M act on tensors of the shape of g. The systems do not see each other, and nothing is read
back to the host. A system that is solved, or whose g is zero, stops where it is while the others go on.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from stcl.core.interfaces import Solver

Linear = Callable[[Tensor], Tensor]
Dot = Callable[[Tensor, Tensor], Tensor]

BLOWN_UP = 1e4  # growth of rᵀ M r from which on CG has not solved anything


class Solution(NamedTuple):
    """x [..., *field], ‖g − A x‖/‖g‖ [...], which is 0 where g is zero, and whether there is a solution at all [...].

    Where the solver broke down there is none: A is singular in this precision, or not what the solver asks for.
    """

    x: Tensor
    residual: Tensor
    solved: Tensor


def minres(operator: Linear, g: Tensor, preconditioner: Linear, steps: int, axes: int) -> Solution:
    """Preconditioned MINRES for symmetric A, definite or not.

    It runs Lanczos in the inner product of M, with a running QR factorisation by Givens rotations (c, s). The
    recurrences are those of Elman, Silvester and Wathen (2014), algorithm 4.1. rᵀ M r never grows, unless A is singular
    in this precision; x is zero where it did. One more product with A gives the residual of x itself.
    """
    dot = _dot(axes)
    g, scale = _scaled(g, axes)
    z = preconditioner(g)
    first = dot(z, g)
    exhausted = _eps(g) ** 2 * first
    gamma = eta = first.clamp_min(0).sqrt_()
    v, z = (y * _inverse(gamma) for y in (g, z))  # of length one, as all that follow: vᵀ M v = vᵀ z = 1
    x = torch.zeros_like(g)
    v_before: Tensor | None = None
    # Of the last two steps: w, and the rotation as the pairs (c, -s) and (s, c).
    last: tuple[Tensor, Tensor] | None = None
    last_but_one: tuple[Tensor, Tensor] | None = None
    for _ in range(steps):
        product = operator(z)
        delta = dot(product, z)
        v_next = torch.addcmul(product, delta, v, value=-1)
        if v_before is not None:
            v_next.addcmul_(gamma, v_before, value=-1)
        z_next = preconditioner(v_next)
        gamma_next = dot(z_next, v_next)
        # The Krylov space is exhausted where Lanczos only returns rounding errors.
        gamma_next = gamma_next.masked_fill_(gamma_next <= exhausted, 0).sqrt_()
        # The column (gamma, delta, gamma_next) of the tridiagonal matrix is turned by both rotations, then by a third.
        alpha, w = delta, z
        if last is not None:
            above = gamma
            if last_but_one is not None:
                far, above = last_but_one[1][1] * gamma
                w = torch.addcmul(w, far, last_but_one[0], value=-1)
            above, alpha = torch.addcmul(last[1][0] * above, last[1][1], delta)
            w = torch.addcmul(w, above, last[0], value=-1)
        shrink = _inverse(torch.hypot(alpha, gamma_next))
        rotation = torch.stack([alpha, -gamma_next, gamma_next, alpha]).mul_(shrink).unflatten(0, (2, 2))
        last, last_but_one = (w * shrink, rotation), last
        step, eta = rotation[0] * eta
        x.addcmul_(step, last[0])
        shrink = _inverse(gamma_next)
        v, v_before, z, gamma = v_next * shrink, v, z_next * shrink, gamma_next
    r = g - operator(x)
    good = dot(r, preconditioner(r)) <= 1.01 * first.clamp_min(0)
    return _solution(x, r, good, g, scale, dot, axes)


def cg(operator: Linear, g: Tensor, preconditioner: Linear, steps: int, axes: int) -> Solution:
    """Preconditioned conjugate gradients for symmetric positive definite A."""
    dot = _dot(axes)
    g, scale = _scaled(g, axes)
    x, r = torch.zeros_like(g), g
    z = preconditioner(r)
    p, rho = z, dot(r, z)
    first = rho
    going = good = torch.ones_like(rho, dtype=torch.bool)
    for _ in range(steps):
        product = operator(p)
        curvature = dot(p, product)
        unsolved = going & _unsolved(r, g, dot)
        going = unsolved & (curvature > 0)
        # Curvature that is not positive means nothing where only rounding is left.
        good = good & (going | ~unsolved | (dot(r, r) <= _eps(g) * dot(g, g)))
        alpha = going * rho * _inverse(curvature)
        x, r = x + alpha * p, r - alpha * product
        z = preconditioner(r)
        rho, rho_before = dot(r, z), rho
        p = z + rho * _inverse(rho_before) * p
    # Next to no curvature, of an A that is not definite, lets x blow up: a residual of a definite A grows far less.
    good = good & (rho <= BLOWN_UP * first)
    return _solution(x, r, good, g, scale, dot, axes)


def gmres(operator: Linear, g: Tensor, preconditioner: Linear, steps: int, axes: int) -> Solution:
    """GMRES with right preconditioner for any A.

    It has the smallest ‖g − A x‖ there is after as many products. It keeps one vector a step in one tensor, for few
    operations a step, and its work grows with the square of their number. Gram-Schmidt is classical and done once. In
    single precision this costs some steps after twenty or so. The residual is still that of x, by the relation
    A P V = V H of the Arnoldi process. It never grows, unless A is singular in this precision; x is zero where it did.
    """
    g, scale = _scaled(g, axes)
    lead = g.shape[: g.ndim - axes]
    flat = g.reshape(lead.numel(), -1)
    length = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    basis = flat.new_empty(len(flat), steps + 1, flat.shape[1])
    basis[:, 0] = flat * _inverse(length)
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
        rest = torch.where(rest > 10 * _eps(g) * before, rest, 0)
        column[:, : j + 2] = torch.cat([share.squeeze(1), rest], 1)
        basis[:, j + 1] = w.squeeze(1) * _inverse(rest)
        rotated = torch.bmm(turn, column.unsqueeze(2)).squeeze(2)
        pair = rotated[:, j : j + 2]
        cosine, sine = (pair * _inverse(torch.linalg.vector_norm(pair, dim=1, keepdim=True))).unbind(1)
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
    residual = torch.linalg.vector_norm(torch.bmm(left.mT, basis), dim=2).view(lead)
    x = scale * preconditioner((length * torch.bmm(y.mT, basis[:, :steps]).squeeze(1)).view(g.shape))
    good = (residual <= 1.01) & x.flatten(-axes).isfinite().all(-1)
    x = x.masked_fill(~good.view(*lead, *[1] * axes), 0)
    return Solution(x, residual.masked_fill(~good, 1), good)


SOLVERS: dict[Solver, Callable[..., Solution]] = {"minres": minres, "cg": cg, "gmres": gmres}


def _dot(axes: int) -> Dot:
    """Inner products over the trailing axes, which are kept with length one; one operation for all systems."""

    def dot(x: Tensor, y: Tensor) -> Tensor:
        lead = x.shape[: x.ndim - axes]
        first, second = (z.reshape(lead.numel(), -1) for z in (x, y))
        return torch.bmm(first.unsqueeze(1), second.unsqueeze(2)).view(*lead, *[1] * axes)

    return dot


def _scaled(g: Tensor, axes: int) -> tuple[Tensor, Tensor]:
    """g over its largest |entry|, so that squares of float32 neither overflow nor vanish, and that |entry|."""
    scale = torch.linalg.vector_norm(g, math.inf, dim=tuple(range(-axes, 0)), keepdim=True)
    return g * _inverse(scale), scale


def _inverse(x: Tensor) -> Tensor:
    """1/x, and 0 for 0."""
    return x.reciprocal().nan_to_num_(nan=math.nan, posinf=0.0, neginf=0.0)


def _eps(g: Tensor) -> float:
    return torch.finfo(g.dtype).eps


def _unsolved(r: Tensor, g: Tensor, dot: Dot) -> Tensor:
    """Where the residual r is above rounding."""
    return dot(r, r) > _eps(g) ** 2 * dot(g, g)


def _solution(x: Tensor, r: Tensor, good: Tensor, g: Tensor, scale: Tensor, dot: Dot, axes: int) -> Solution:
    """What a solver found, and zero where it is not good."""
    residual = (dot(r, r) * _inverse(dot(g, g))).sqrt_().masked_fill_(~good, 1)
    x = (scale * x).masked_fill_(~good, 0)
    return Solution(x, *(of_system.flatten(-axes).squeeze(-1) for of_system in (residual, good)))
