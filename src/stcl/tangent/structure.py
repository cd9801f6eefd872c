"""What is measured of a tangent operator A: its symmetry and its condition numbers.

An operator that was assembled is measured exactly, from its matrix. Any other is estimated from products with it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from stcl.core.interfaces import InvertibleMetric, Metric
from stcl.tangent.operator import TangentOperator
from stcl.tangent.spectrum import Linear, ritz_values, smallest_eigenvalue, solve

PROBES = 8  # random vectors from which the symmetry defect is estimated
LANCZOS = 150  # steps towards the extreme eigenvalues
SOLVE_STEPS = 200  # largest number of Krylov steps of a reference solve
SOLVE_TOLERANCE = 1e-6  # relative residual at which a reference solve stops
ROUNDED = 100  # in units of the precision, the largest difference that is rounding
ROUNDING = 1e-14  # smallest eigenvalue of a Hessian, relative to the largest, that products can tell from zero


class Condition(NamedTuple):
    """A condition number, and whether it is only known to be at least that."""

    value: float
    is_bound: bool


# -- symmetry -----------------------------------------------------------------------------------------------------


def symmetry_defect(operator: TangentOperator) -> float:
    """‖A − Aᵀ‖/‖A‖ in Frobenius' norm, with the signs of `block_signs`; zero where it is rounding.

    In single precision products of a symmetric operator differ by some 1e-7.
    """
    signs = block_signs(operator)
    if operator.assembled is not None:
        signed = signs[:, None] * operator.assembled
        return _beyond_rounding((signed - signed.T).norm() / signed.norm())
    x = random_signs(operator, PROBES)
    forward, backward = signs * operator.product(x), operator.transposed_product(signs * x)
    return _beyond_rounding((forward - backward).norm() / forward.norm())


def _beyond_rounding(defect: Tensor) -> float:
    return float(defect) if float(defect) > ROUNDED * torch.finfo(defect.dtype).eps else 0.0


def block_signs(operator: TangentOperator) -> Tensor:
    """±1 for each equation, the same within a block: the sign that makes A most symmetric.

    An equation times −1 is the same equation. A saddle problem is symmetric with −∇· where it may be written with ∇·.
    """
    sizes = operator.unknowns.sizes
    signs = torch.ones(len(operator.unknowns), dtype=operator.u.dtype, device=operator.u.device)
    if operator.assembled is not None:
        down, across = operator.assembled[:, : sizes[0]].T, operator.assembled[: sizes[0]]
    else:
        x = torch.zeros(PROBES, len(signs), dtype=signs.dtype, device=signs.device)
        x[:, : sizes[0]] = random_signs(operator, PROBES)[:, : sizes[0]]
        down, across = operator.product(x), operator.transposed_product(x)
    rest = zip(signs.split(sizes)[1:], down.split(sizes, 1)[1:], across.split(sizes, 1)[1:], strict=True)
    for of_block, one, other in rest:
        if (one * other).sum() < 0:
            of_block.fill_(-1)
    return signs


def random_signs(operator: TangentOperator, count: int) -> Tensor:
    """Vectors [count, unknowns] of random signs, the same at every call."""
    generator = torch.Generator().manual_seed(1)
    signs = 2.0 * torch.randint(2, (count, len(operator.unknowns)), generator=generator) - 1
    return signs.to(operator.u)


def random_start(operator: TangentOperator) -> Tensor:
    """A vector [unknowns] of normals from which a Krylov space starts, the same at every call."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(len(operator.unknowns), generator=generator, dtype=torch.float64).to(operator.u)


# -- condition numbers --------------------------------------------------------------------------------------------


def condition_number(
    operator: TangentOperator,
    kept: Tensor,
    metric: Metric | None = None,
    preconditioner: InvertibleMetric | None = None,
) -> Condition:
    """κ(AᵀMA) in the unknowns of the mask `kept` [unknowns], with the others held; κ(AᵀA) without a metric M.

    It is exact for an assembled operator. Otherwise both ends of the spectrum come from Lanczos. The small end, which
    Lanczos finds late, comes from inverse iteration if there is a preconditioner that makes A easy to solve. A metric
    that is given beside the preconditioner must be the same.
    """
    if operator.assembled is not None:
        return _condition_of_factor(metric_root(operator, metric) @ operator.assembled[:, kept])
    apply = operator.unknowns.on_vectors(None if metric is None else metric.at(operator.a))

    def hessian(x: Tensor) -> Tensor:
        return kept * operator.transposed_product(apply(operator.product((kept * x)[None])))[0]

    start = kept * random_start(operator)
    values, _ = ritz_values(hessian, start, LANCZOS, symmetric=True)
    largest, smallest = float(values[-1]), float(values[0])
    if preconditioner is None:
        return Condition(largest / max(smallest, ROUNDING * largest), is_bound=True)
    unapply = operator.unknowns.on_vectors(None if metric is None else preconditioner.inverse_at(operator.a))
    residuals = []

    def inverse(x: Tensor) -> Tensor:
        y, left = reference_solve(operator, operator.transposed_product, x, preconditioner)
        x, right = reference_solve(operator, operator.product, unapply(y[None])[0], preconditioner)
        residuals.append(max(left, right))
        return x

    smallest = smallest_eigenvalue(inverse, start)
    return Condition(largest / smallest, is_bound=max(residuals) > 10 * SOLVE_TOLERANCE)


def metric_root(operator: TangentOperator, metric: Metric | None) -> Tensor:
    """M^½ on the equations as a dense symmetric matrix; the identity without a metric."""
    identity = torch.eye(len(operator.unknowns), dtype=operator.u.dtype, device=operator.u.device)
    if metric is None:
        return identity
    matrix = operator.unknowns.on_vectors(metric.at(operator.a))(identity)
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    return vectors * values.clamp_min(0).sqrt() @ vectors.T


def _condition_of_factor(factor: Tensor) -> Condition:
    """κ of the Hessian RᵀR for R = `factor`; a bound that rounding gives if R is singular to rounding."""
    values = torch.linalg.svdvals(factor)
    largest, smallest = float(values[0]), float(values[-1])
    rounding = len(factor) * torch.finfo(factor.dtype).eps * largest
    return Condition((largest / max(smallest, rounding)) ** 2, is_bound=smallest <= rounding)


def reference_solve(
    operator: TangentOperator, product: Linear, g: Tensor, preconditioner: Metric
) -> tuple[Tensor, float]:
    """x with A x = g, or Aᵀ x = g, whichever `product` is, and the relative residual that is left."""
    apply = operator.unknowns.on_vectors(preconditioner.at(operator.a))
    return solve(lambda x: product(x[None])[0], g, lambda r: apply(r[None])[0], SOLVE_STEPS, SOLVE_TOLERANCE)
