"""What the tangent operator of an equation is like, from products with it at a few states."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl.equation import Equation, EquationError
from stcl.losses import metrics
from stcl.losses.directions import combinations
from stcl.losses.rule import DEFINITE, ELLIPTIC, STEPS, SYMMETRIC, Findings
from stcl.losses.settings import LerayOseen
from stcl.problems.base import Problem
from stcl.tangent import krylov
from stcl.tangent.laplacian_fit import LaplacianFit, fit_laplacian
from stcl.tangent.operator import TangentOperator
from stcl.tangent.spectrum import Linear, ritz_values, smallest_eigenvalue, solve
from stcl.tangent.states import states
from stcl.tangent.transforms import basis

STATES = 3
SMALL = 1000  # unknowns up to which an operator is assembled, and its condition numbers are exact
ROUNDING = 1e-14  # smallest eigenvalue of a Hessian, relative to the largest, that is known at all
PROBES = 8  # random vectors for the symmetry defect
LANCZOS = 150  # steps for extreme eigenvalues
ARNOLDI = 60  # steps for the preconditioned operator, whose spectrum is narrow
SOLVE = 200  # largest number of Krylov steps of a reference solve
SOLVED = 1e-6  # its relative residual


def measure(problem: Problem | Equation, conditions: bool = True) -> Findings:
    """Findings for the decision rule; without condition numbers, which take most of the time, if they are not asked."""
    a, u = states(problem, STATES)
    operators = [TangentOperator(problem, u[i], a[i]) for i in range(len(a))]
    for operator in operators:
        if len(operator.unknowns) <= SMALL:
            operator.assemble()
    layout = problem.layout
    time_axis = next((axis for axis in layout.axes if axis == "t"), None)
    saddle = time_axis is None and _is_saddle(problem, operators[0])
    common = {
        "unknowns": len(operators[0].unknowns),
        "symmetry_defect": max(symmetry_defect(op) for op in operators),
        "time_axis": time_axis,
        "driven_frames": None if time_axis is None else _driven_frames(operators[0]),
        "saddle": saddle,
    }
    if time_axis is not None:
        found = {}
    elif saddle:
        found = {"metric": _momentum_fit(operators)}
    else:
        fit = fit_laplacian(operators)
        found = {"alignment": fit.alignment}
        if fit.alignment >= ELLIPTIC and any(fit.weights):
            found |= _elliptic(problem, operators, fit, common["symmetry_defect"] < SYMMETRIC)
    if conditions:
        metric = metrics.load(problem, found["metric"]) if "metric" in found else None
        found |= _conditions(operators, metric, preconditioner=None if saddle else metric)
    return Findings(**common, **found)


def _elliptic(problem: Any, operators: list[TangentOperator], fit: LaplacianFit, symmetric: bool) -> dict[str, Any]:
    """What is measured of an operator with a Laplacian in it."""
    chosen = fit.metric()
    metric = metrics.load(problem, chosen)
    sign = -1 if fit.negated else 1
    values = [sign * _preconditioned_eigenvalues(op, metric) for op in operators]
    found = {
        "metric": chosen,
        "lowest": min(float(v.real.min() / v.abs().max()) for v in values),
        "nearest": min(float(v.abs().min() / v.abs().max()) for v in values),
    }
    positive = found["lowest"] > DEFINITE and not fit.negated
    found["solver"] = ("cg" if positive else "minres") if symmetric else "gmres"
    errors = [_target_errors(op, metric, getattr(krylov, found["solver"])) for op in operators]
    found["target_errors"] = tuple(zip(STEPS, map(float, np.median(errors, 0)), strict=True))
    return found


def _preconditioned_eigenvalues(operator: TangentOperator, metric: Any) -> Tensor:
    """The outer eigenvalues of MA."""
    apply = _vectors(operator, metric.at(operator.a))
    values, _ = ritz_values(lambda x: apply(operator.product(x[None]))[0], _start(operator), ARNOLDI, symmetric=False)
    return values


# -- symmetry and structure ---------------------------------------------------------------------------------------


def symmetry_defect(operator: TangentOperator) -> float:
    """‖A − Aᵀ‖/‖A‖ in Frobenius' norm, estimated with random signs."""
    signs = block_signs(operator)
    x = _signs(PROBES, operator)
    forward, backward = signs * operator.product(x), operator.transposed_product(signs * x)
    return float((forward - backward).norm() / forward.norm())


def block_signs(operator: TangentOperator) -> Tensor:
    """±1 for each equation: the sign of a block that makes A most symmetric, as −∇· does for a saddle problem."""
    sizes = operator.unknowns.sizes
    signs = torch.ones(len(operator.unknowns), dtype=operator.u.dtype, device=operator.u.device)
    x = torch.zeros(PROBES, len(signs), dtype=signs.dtype, device=signs.device)
    x[:, : sizes[0]] = _signs(PROBES, operator)[:, : sizes[0]]
    down, across = operator.product(x).split(sizes, 1), operator.transposed_product(x).split(sizes, 1)
    for first, size, one, other in zip(itertools.accumulate(sizes), sizes[1:], down[1:], across[1:], strict=False):
        if (one * other).sum() < 0:
            signs[first : first + size] = -1
    return signs


def _is_saddle(problem: Any, operator: TangentOperator) -> bool:
    """Declared, or the last field does not occur in its own equation."""
    declared = getattr(problem, "saddle", None)
    unknowns = operator.unknowns
    last = unknowns.response == unknowns.response.max()
    if declared is None:
        image = operator.product(_signs(1, operator) * last)[0]
        declared = bool(unknowns.response.max() > 0 and image[last].norm() <= 1e-8 * image.norm())
    if declared and len(unknowns.sizes) < 2:
        raise EquationError(
            "this is a saddle problem, whose equations are weighed apart: return the residual as a tuple (momentum, "
            "divergence) or (momentum, divergence, boundary values)"
        )
    return declared


def _driven_frames(operator: TangentOperator) -> int:
    """The number of frames in which an input has an effect of its own."""
    layout = operator.problem.layout
    v = torch.randn(4, *layout.input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    effect = operator.unknowns.embed(operator.right_hand_side(v.to(operator.a)))
    axis = effect.ndim - len(layout.grid) + layout.axes.index("t")
    frames = effect.abs().movedim(axis, 0).flatten(1).amax(1)
    return int((frames > 1e-10 * frames.max()).sum())


def _momentum_fit(operators: list[TangentOperator]) -> LerayOseen:
    """Viscosity and speed of the Oseen symbol from waves φ: ⟨φ, Kφ⟩ = µ|k|²‖φ‖², ‖skew(K)φ‖ = b₀|k|‖φ‖."""
    layout = operators[0].problem.layout
    if len(layout.grid) != 2:
        raise EquationError(f"the metric of saddle problems is for two dimensions, the grid is {layout.grid}")
    unknowns = operators[0].unknowns
    nodes = [n - 2 for n in layout.grid]
    spacings = [c[1] - c[0] for c in layout.coordinates]
    tables = [basis("sine", m) for m in nodes]
    waves = list(itertools.product(*[np.unique(np.geomspace(1, m, 5).round().astype(int)) - 1 for m in nodes]))
    square = torch.tensor(
        [sum(values[k] / h**2 for (_, values), k, h in zip(tables, wave, spacings, strict=True)) for wave in waves]
    )
    modes = torch.zeros(len(waves), len(unknowns), dtype=torch.float64)
    modes[:, unknowns.response.cpu() == 0] = torch.tensor(
        np.array([np.outer(tables[0][0][i], tables[1][0][j]).ravel() for i, j in waves])
    )
    first = (unknowns.response == 0).cpu()
    viscosity, speed = [], []
    for operator in operators:
        image, back = (f(modes.to(operator.u)).cpu()[:, first] for f in (operator.product, operator.transposed_product))
        viscosity.append(float(((modes[:, first] * image).sum(1) / square).median()))
        speed.append(float(((image - back).norm(dim=1) / 2 / square.sqrt()).median()))
    return LerayOseen(viscosity=abs(float(np.median(viscosity))), speed=float(np.median(speed)))


# -- condition numbers --------------------------------------------------------------------------------------------


def _conditions(operators: list[TangentOperator], metric: Any, preconditioner: Any) -> dict[str, Any]:
    """κ(AᵀA) and κ(AᵀMA), medians over the states."""
    raw = [condition(op, None, preconditioner) for op in operators]
    found = {
        "condition_raw": float(np.median([value for value, _ in raw])),
        "condition_raw_is_bound": any(bound for _, bound in raw),
    }
    if metric is None:
        return found
    with_metric = [condition(op, metric, preconditioner) for op in operators]
    return found | {
        "condition_metric": float(np.median([value for value, _ in with_metric])),
        "condition_metric_is_bound": any(bound for _, bound in with_metric),
    }


def condition(operator: TangentOperator, metric: Any, preconditioner: Any) -> tuple[float, bool]:
    """κ(AᵀMA) in the scored responses, or κ(AᵀA) in all of them without M; and whether it is only a lower bound.

    A small operator's is exact. Otherwise both ends come from Lanczos; with a preconditioner that makes A easy to
    solve, the small end, which Lanczos finds late, comes from inverse iteration.
    """
    scored = operator.unknowns.response < len(operator.problem.layout.scored)
    kept = scored if metric is not None else torch.ones_like(scored)
    apply = _vectors(operator, None if metric is None else metric.at(operator.a))
    if operator.assembled is not None:
        columns = operator.assembled[:, kept]
        hessian = columns.T @ apply(columns.T).T
        values = torch.linalg.eigvalsh((hessian + hessian.T) / 2)
        return float(values[-1] / values[0].clamp_min(ROUNDING * values[-1])), bool(values[0] < ROUNDING * values[-1])

    def hessian(x: Tensor) -> Tensor:
        return kept * operator.transposed_product(apply(operator.product((kept * x)[None])))[0]

    start = kept * _start(operator)
    values, _ = ritz_values(hessian, start, LANCZOS, symmetric=True)
    largest, smallest = float(values[-1]), float(values[0])
    if preconditioner is None:
        return largest / max(smallest, ROUNDING * largest), True
    unapply = _vectors(operator, None if metric is None else metric.inverse_at(operator.a))
    residuals = []

    def inverse(x: Tensor) -> Tensor:
        y, left = _solve(operator, operator.transposed_product, x, preconditioner)
        x, right = _solve(operator, operator.product, unapply(y[None])[0], preconditioner)
        residuals.append(max(left, right))
        return x

    return largest / smallest_eigenvalue(inverse, start), max(residuals) > 10 * SOLVED


def _solve(operator: TangentOperator, product: Linear, g: Tensor, metric: Any) -> tuple[Tensor, float]:
    """x with A x = g, or Aᵀ x = g, and the relative residual."""
    apply = _vectors(operator, metric.at(operator.a))
    return solve(lambda x: product(x[None])[0], g, lambda r: apply(r[None])[0], SOLVE, SOLVED)


def _target_errors(operator: TangentOperator, metric: Any, solver: Callable) -> list[float]:
    """‖ŵ − w‖/‖w‖ after each number of steps, the median of a few directions."""
    v = combinations(states(operator.problem, 8)[0], (4,), torch.Generator(operator.u.device).manual_seed(0))
    g = operator.right_hand_side(v)
    exact = torch.stack([_solve(operator, operator.product, row, metric)[0] for row in g])
    apply = _vectors(operator, metric.at(operator.a))
    errors = []
    for steps in STEPS:
        target = solver(operator.product, g, apply, steps=steps, axes=1).x
        errors.append(float(((target - exact).norm(dim=1) / exact.norm(dim=1)).median()))
    return errors


def _vectors(operator: TangentOperator, apply: Callable[[Any], Any] | None) -> Linear:
    """A metric's map, which takes residuals, for vectors [k, unknowns]; the identity for None."""
    unknowns = operator.unknowns
    return (lambda x: x) if apply is None else (lambda x: unknowns.join(apply(unknowns.split(x[None])))[0])


def _signs(count: int, operator: TangentOperator) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    signs = 2.0 * torch.randint(2, (count, len(operator.unknowns)), generator=generator) - 1
    return signs.to(operator.u)


def _start(operator: TangentOperator) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(len(operator.unknowns), generator=generator, dtype=torch.float64).to(operator.u)
