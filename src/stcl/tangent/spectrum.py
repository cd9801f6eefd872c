"""Extreme eigenvalues of operators that are only known by their products."""

from collections.abc import Callable

import torch
from torch import Tensor

Linear = Callable[[Tensor], Tensor]


def ritz_values(product: Linear, start: Tensor, steps: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Ritz values of an operator on vectors [unknowns], and the weight of each in the start vector.

    They come from Lanczos with full orthogonalisation, or from Arnoldi if the operator is not symmetric. Extreme
    eigenvalues are found first. The Ritz values of a symmetric operator all lie between its smallest and its largest
    eigenvalue. Those of a non-symmetric operator are complex and have no weights.
    """
    _, hessenberg = _arnoldi(product, start, steps, stop=0.0)
    square = hessenberg[:-1]
    if not symmetric:
        values = torch.linalg.eigvals(square)
        return values, torch.full(values.shape, torch.nan)
    values, vectors = torch.linalg.eigh((square + square.T) / 2)
    return values, vectors[0].square()


def solve(product: Linear, g: Tensor, preconditioner: Linear, steps: int, tolerance: float) -> tuple[Tensor, float]:
    """x with A x = g for vectors [unknowns], and ‖g − A x‖/‖g‖, by GMRES that stops at the tolerance."""
    basis, hessenberg = _arnoldi(lambda x: product(preconditioner(x)), g, steps, stop=tolerance)
    right = torch.zeros(len(hessenberg), dtype=g.dtype, device=g.device)
    right[0] = g.norm()
    y = torch.linalg.lstsq(hessenberg, right[:, None]).solution[:, 0]
    return preconditioner(y @ basis[: len(y)]), float((right - hessenberg @ y).norm() / right[0])


def smallest_eigenvalue(inverse: Linear, start: Tensor, tolerance: float = 0.01, iterations: int = 30) -> float:
    """The smallest eigenvalue of a positive H, by the power method with H⁻¹.

    The iteration stops when the value changes by less than the tolerance, relative to it.
    """
    x, value = start / start.norm(), torch.inf
    for _ in range(iterations):
        y = inverse(x)
        value, before = float(1 / (x @ y)), value
        if abs(before - value) < tolerance * value:
            break
        x = y / y.norm()
    return value


def _arnoldi(product: Linear, start: Tensor, steps: int, stop: float) -> tuple[Tensor, Tensor]:
    """Orthonormal vectors [k+1, unknowns] of the Krylov space and the Hessenberg matrix [k+1, k] between them.

    k is `steps`, or smaller if the space is exhausted, or if the residual of the system with right-hand side `start`
    falls below `stop`, relative to it.
    """
    steps = min(steps, len(start))
    basis = torch.empty(steps + 1, len(start), dtype=start.dtype, device=start.device)
    hessenberg = torch.zeros(steps + 1, steps, dtype=start.dtype, device=start.device)
    basis[0] = start / start.norm()
    # This vector is orthogonal to the columns so far, and its first entry is 1. One over its length is the residual.
    left = torch.ones(steps + 1, dtype=start.dtype)
    for k in range(steps):
        image = product(basis[k])
        before = image.norm()
        for _ in range(2):
            share = basis[: k + 1] @ image
            image = image - share @ basis[: k + 1]
            hessenberg[: k + 1, k] += share
        length = image.norm()
        hessenberg[k + 1, k] = length
        if length <= 1e-12 * before:
            return basis[: k + 2], hessenberg[: k + 2, : k + 1]
        basis[k + 1] = image / length
        left[k + 1] = -(left[: k + 1] @ hessenberg[: k + 1, k].cpu()) / length.cpu()
        if float(1 / left[: k + 2].norm()) < stop:
            return basis[: k + 2], hessenberg[: k + 2, : k + 1]
    return basis, hessenberg
