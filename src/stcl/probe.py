"""What the tangent operator of an equation is like, from products with it at a few states."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from stcl.core.errors import EquationError
from stcl.core.interfaces import DiscreteEquation, Metric, TangentSolver
from stcl.losses import metrics, settings
from stcl.losses.batch_directions import all_equal
from stcl.losses.directions import combinations
from stcl.losses.metrics.fitted_laplacian import FittedLaplacian, settings_of
from stcl.losses.newton import on_blocks
from stcl.losses.rule import DEFINITE, ELLIPTIC, STEPS, Findings
from stcl.losses.settings import LerayOseen
from stcl.losses.solvers.march import March
from stcl.losses.solvers.space_time import SpaceTime
from stcl.tangent import krylov
from stcl.tangent.laplacian_fit import fit_laplacian
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import input_derivative, single_block
from stcl.tangent.solver_choice import fitting_solver, space_time_refusal
from stcl.tangent.spectrum import ritz_values
from stcl.tangent.structure import condition_number, random_signs, random_start, reference_solve, symmetry_defect
from stcl.tangent.transforms import basis, few_modes

STATES = 3  # largest number of states at which A is probed
SMALL = 1000  # unknowns up to which an operator is assembled, and its condition numbers are exact
EXACT_STEPS = 60  # GMRES steps in space and time whose result stands for the solution
SOLVED = 1e-3  # largest relative residual of what stands for a solution
ARNOLDI = 60  # steps for the preconditioned operator, whose spectrum is narrow


def probe(equation: DiscreteEquation, conditions: bool = True) -> Findings:
    """Findings for the decision rule.

    Condition numbers take most of the time. They are left out unless `conditions` asks for them.
    """
    operators = operators_of(equation, STATES)
    found = Findings(
        unknowns=len(operators[0].unknowns),
        symmetry_defect=max(symmetry_defect(op) for op in operators),
        direct_residual=_direct_residual(operators),
    )
    if equation.layout.time_axis is None and _is_saddle(equation, operators[0]):
        found = _saddle(found, operators)
    else:
        _refuse_blocks(equation)
        found = (_elliptic if equation.layout.time_axis is None else _time)(found, operators)
    return _conditions(found, operators) if conditions else found


def operators_of(equation: DiscreteEquation, count: int) -> list[TangentOperator]:
    """A at a few states, as a matrix where it is small."""
    a, u = equation.states(count)
    operators = [TangentOperator(equation, u[i], a[i]) for i in range(len(a))]
    for operator in operators:
        if len(operator.unknowns) <= SMALL:
            operator.assemble()
    return operators


def _direct_residual(operators: list[TangentOperator]) -> float | None:
    """The largest ‖g − A x‖/‖g‖ of direct solves; infinite if A is singular, None if it was not assembled."""
    residuals = []
    for matrix in (operator.assembled for operator in operators):
        if matrix is None:
            return None
        g = random_start(operators[0])
        x, info = torch.linalg.solve_ex(matrix, g)
        residuals.append(float((matrix @ x - g).norm() / g.norm()) if info == 0 else math.inf)
    return max(residuals)


def _refuse_blocks(equation: DiscreteEquation) -> None:
    """Blocks are weighed apart, which is known for steady saddle problems alone."""
    a, u = equation.states(1)
    blocks = equation.residual(u, a)
    if not isinstance(blocks, Tensor):
        raise EquationError(
            f"residual(u, a) gives {len(blocks)} blocks of shapes "
            f"{' and '.join(str(tuple(block.shape[1:])) for block in blocks)} for each sample, and this is no steady "
            f"saddle problem, whose blocks are momentum and divergence; return one tensor: stack the equations of "
            f"several fields along the first axis after the batch, and leave equations of walls out"
        )


def random_directions(inputs: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Directions [*lead, ...] like the differences of the inputs [N, ...]; white noise where they have none."""
    generator = torch.Generator(inputs.device).manual_seed(0)
    if all_equal(inputs):
        shape = (*lead, *inputs.shape[1:])
        return torch.randn(shape, generator=generator, dtype=inputs.dtype, device=inputs.device)
    return combinations(inputs, lead, generator)


# -- operators that march in time ---------------------------------------------------------------------------------


def _time(found: Findings, operators: list[TangentOperator]) -> Findings:
    """The findings with the number of frames in which an input has an effect of its own."""
    operator, layout = operators[0], operators[0].equation.layout
    v = torch.randn(4, *layout.input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    effect = operator.unknowns.embed(operator.right_hand_side(v.to(operator.a)))
    axis = effect.ndim - len(layout.grid) + layout.axes.index(layout.time_axis)
    frames = effect.abs().movedim(axis, 0).flatten(1).amax(1)
    driven = int((frames > 1e-10 * frames.max()).sum())
    found = replace(found, time_axis=layout.time_axis, driven_frames=driven)
    return _time_targets(found, operator.equation) if space_time_refusal(layout) is None else found


def _time_targets(found: Findings, equation: DiscreteEquation) -> Findings:
    """The findings with what a solved target would be worth, by the steps of the problem itself if it has them.

    Whether solutions of the equation on this grid are the data is seen from a Newton step at the data: ‖A⁻¹F(u, a)‖
    over the distance of the responses from their mean.
    """
    a, u = equation.states(8)
    few, states = slice(STATES), (u[:STATES], a[:STATES])
    apart = (u - u.mean(0) if len(u) > 1 else u)[few].flatten(1).norm(dim=1)

    def correction(solver: TangentSolver) -> float:
        left = on_blocks(lambda r: r.neg().unsqueeze(1), solver.equation.residual(*states))
        return float((solver.at(*states)(left).x.flatten(1).norm(dim=1) / apart).median())

    if equation.march is not None:
        return replace(found, march=True, correction=correction(March(equation, settings.March(), "parabolic")))
    solver = SpaceTime(equation, settings.SpaceTime(steps=EXACT_STEPS), "parabolic")
    v = random_directions(a, (len(u[few]), 4))
    g = -single_block(input_derivative(equation, *states, v), "space_time")
    exact = solver.at(*states)(g)
    errors = []
    for steps in STEPS:
        target = solver.with_steps(steps).at(*states)(g).x
        relative = (target - exact.x).flatten(2).norm(dim=2) / exact.x.flatten(2).norm(dim=2)
        errors.append((steps, float(torch.where(exact.residual < SOLVED, relative, 1.0).median())))
    return replace(found, target_errors=tuple(errors), correction=correction(solver))


# -- saddle problems ----------------------------------------------------------------------------------------------


def _is_saddle(equation: DiscreteEquation, operator: TangentOperator) -> bool:
    """Whether a saddle problem is declared or, if nothing is, the last field is absent from its own equation."""
    declared, unknowns = equation.saddle, operator.unknowns
    last = unknowns.response == unknowns.response.max()
    if declared is None:
        image = operator.product(random_signs(operator, 1) * last)[0]
        declared = bool(unknowns.response.max() > 0 and image[last].norm() <= 1e-8 * image.norm())
    if declared and len(unknowns.sizes) < 2:
        raise EquationError(
            "this is a saddle problem, whose equations are weighed apart: return the residual as a tuple (momentum, "
            "divergence) or (momentum, divergence, boundary values)"
        )
    return declared


def _saddle(found: Findings, operators: list[TangentOperator]) -> Findings:
    """The findings with the metric of a saddle problem.

    Viscosity and speed of its Oseen symbol come from waves φ: ⟨φ, Kφ⟩ = µ|k|²‖φ‖², ‖skew(K)φ‖ = b₀|k|‖φ‖.
    """
    layout, unknowns = operators[0].equation.layout, operators[0].unknowns
    if len(layout.grid) != 2:
        raise EquationError(f"the metric of saddle problems is for two dimensions, the grid is {layout.grid}")
    nodes = [n - 2 for n in layout.grid]
    first = (unknowns.response == 0).cpu()
    if int(first.sum()) != math.prod(nodes):
        raise EquationError(
            f"the metric of saddle problems is for walls: expected momentum equations at the {nodes[0]} × {nodes[1]} "
            f"nodes inside the grid {layout.grid}, got {int(first.sum())} for each velocity. Leave equations of walls "
            f"out of the momentum. If the flow is periodic, return momentum and divergence as one tensor, stacked "
            f"along the first axis after the batch, and name the form: form='normalized_residual'"
        )
    spacings = [c[1] - c[0] for c in layout.coordinates]
    tables = [basis("sine", m) for m in nodes]
    waves = list(itertools.product(*[few_modes(m, 5) for m in nodes]))
    square = torch.tensor(
        [sum(values[k] / h**2 for (_, values), k, h in zip(tables, wave, spacings, strict=True)) for wave in waves]
    )
    modes = torch.zeros(len(waves), len(unknowns), dtype=torch.float64)
    modes[:, first] = torch.tensor(np.array([np.outer(tables[0][0][i], tables[1][0][j]).ravel() for i, j in waves]))
    viscosity, speed = [], []
    for operator in operators:
        image, back = (f(modes.to(operator.u)).cpu()[:, first] for f in (operator.product, operator.transposed_product))
        viscosity.append(float(((modes[:, first] * image).sum(1) / square).median()))
        speed.append(float(((image - back).norm(dim=1) / 2 / square.sqrt()).median()))
    metric = LerayOseen(viscosity=abs(float(np.median(viscosity))), speed=float(np.median(speed)))
    return replace(found, saddle=True, metric=metric)


# -- steady operators without a multiplier ------------------------------------------------------------------------


def _elliptic(found: Findings, operators: list[TangentOperator]) -> Findings:
    """The findings with the nearest Laplacian, and, if there is one in A, what it makes of A as a preconditioner."""
    fit = fit_laplacian(operators)
    found = replace(found, alignment=fit.alignment)
    if fit.alignment < ELLIPTIC or not any(fit.weights):
        return found
    chosen = settings_of(fit)
    metric = FittedLaplacian(operators[0].equation, chosen)
    sign = -1 if fit.negated else 1
    values = [sign * _preconditioned_eigenvalues(operator, metric) for operator in operators]
    lowest = min(float(v.real.min() / v.abs().max()) for v in values)
    solver = fitting_solver(found.symmetry_defect, positive=lowest > DEFINITE and not fit.negated)
    errors = [_target_errors(operator, metric, krylov.SOLVERS[solver]) for operator in operators]
    return replace(
        found,
        metric=chosen,
        lowest=lowest,
        nearest=min(float(v.abs().min() / v.abs().max()) for v in values),
        solver=solver,
        target_errors=tuple(zip(STEPS, map(float, np.median(errors, 0)), strict=True)),
    )


def _preconditioned_eigenvalues(operator: TangentOperator, metric: Metric) -> Tensor:
    """The outer eigenvalues of MA."""
    apply = operator.unknowns.on_vectors(metric.at(operator.a))
    start = random_start(operator)
    return ritz_values(lambda x: apply(operator.product(x[None]))[0], start, ARNOLDI, symmetric=False)[0]


def _target_errors(operator: TangentOperator, metric: Metric, solver: Callable[..., krylov.Solution]) -> list[float]:
    """‖ŵ − w‖/‖w‖ after each number of steps, the median over a few directions."""
    generator = torch.Generator(operator.u.device).manual_seed(0)
    inputs = operator.equation.states(8)[0]
    if all_equal(inputs):  # they have no differences
        inputs = torch.randn(8, *inputs.shape[1:], generator=generator, dtype=inputs.dtype, device=inputs.device)
    g = operator.right_hand_side(combinations(inputs, (4,), generator))
    exact = torch.stack([reference_solve(operator, operator.product, row, metric)[0] for row in g])
    apply = operator.unknowns.on_vectors(metric.at(operator.a))
    errors = []
    for steps in STEPS:
        target = solver(operator.product, g, apply, steps=steps, axes=1).x
        errors.append(float(((target - exact).norm(dim=1) / exact.norm(dim=1)).median()))
    return errors


# -- condition numbers --------------------------------------------------------------------------------------------


def _conditions(found: Findings, operators: list[TangentOperator]) -> Findings:
    """The findings with condition numbers, medians over the states.

    κ(AᵀA) and, if there is a metric M, κ(AᵀMA) are taken in the same unknowns, those of the scored responses, while the
    others are held. Where there are others, κ(AᵀA) in all unknowns stands beside them.
    """
    equation = operators[0].equation
    metric = None if found.metric is None else metrics.load(equation, found.metric)
    preconditioner = metric if isinstance(metric, FittedLaplacian) else None
    scored = operators[0].unknowns.response < len(equation.layout.scored)
    raw = [condition_number(op, scored, None, preconditioner) for op in operators]
    found = replace(
        found,
        condition_raw=float(np.median([value for value, _ in raw])),
        condition_raw_is_bound=any(is_bound for _, is_bound in raw),
    )
    if not scored.all():
        joint = [condition_number(op, torch.ones_like(scored)) for op in operators]
        found = replace(
            found,
            condition_joint=float(np.median([value for value, _ in joint])),
            condition_joint_is_bound=any(is_bound for _, is_bound in joint),
        )
    if metric is None:
        return found
    weighed = [condition_number(op, scored, metric, preconditioner) for op in operators]
    return replace(
        found,
        condition_metric=float(np.median([value for value, _ in weighed])),
        condition_metric_is_bound=any(is_bound for _, is_bound in weighed),
    )
