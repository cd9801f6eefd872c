"""The decision rule: which form fits a tangent operator, and which cannot work. This module imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass

from stcl.core.interfaces import DiscreteEquation, OperatorClass, Solver, TangentClass
from stcl.losses.settings import (
    Direct,
    FittedLaplacian,
    FormSettings,
    InverseLaplacian,
    JacobianPenalty,
    Krylov,
    KrylovTarget,
    LerayOseen,
    March,
    MetricSettings,
    NormalizedResidual,
    PreconditionedResidual,
    Residual,
    ShiftedLaplacian,
    SolvedTarget,
    SolverSettings,
    SpaceTime,
    Stcl,
    Stokes,
    metric_of,
    state_of,
)
from stcl.problems.base import Problem
from stcl.tangent.solver_choice import SYMMETRIC, solver_refusal, space_time_refusal

ELLIPTIC = 0.5  # smallest |⟨φ, Aφ⟩|/‖Aφ‖ of waves φ for an operator with a Laplacian in it
DEFINITE = 1e-3  # smallest real part of the eigenvalues of MA, relative to the largest, of a definite operator
RESONANT = 0.02  # smallest |eigenvalue| of MA, relative to the largest, of an operator that is not nearly singular
WORTH_MATCHING = 0.1  # largest error of a solved target that is worth matching
WORTH_CORRECTING = 0.05  # largest change of solved responses by a Newton step that makes predictions better
INITIAL = 2  # largest number of frames that an initial condition enters
DIRECT = 400  # largest number of unknowns of an A whose kept inverse pays soon, if five steps would do, too, or none is
# known: benchmarks/kept_solvers.py
SINGULAR = 1e-10  # smallest |eigenvalue| of MA, relative to the largest, that is not rounding
EXACT = 1e-6  # largest ‖g − A x‖/‖g‖ of a direct solve of an operator that is not singular
CONSISTENT = 0.1  # largest share of the data's spread that a Newton step may move them by: 0.01 or less where frames
# are close enough, 0.2 and more where they are not (the paper's Burgers residual)
STEPS = (5, 10, 20)  # numbers of steps of the target's solver that are tried; the first is the paper's

SOLVED_BY: dict[str, tuple[TangentClass, ...]] = {  # the classes of operators that a solver of targets is for
    "krylov": ("spd", "indefinite"),
    "space_time": ("parabolic",),
    "stokes": ("saddle",),
    "direct": ("spd", "indefinite", "parabolic"),  # the matrix of a saddle problem is singular
    "march": ("parabolic",),
}


def form_for(kind: OperatorClass | None, metric: MetricSettings | None, driven: bool) -> FormSettings:
    """The form of the paper's table for the class of the tangent operator A.

    spd         A is stiff, so the residual is measured by an inverse Laplacian.
    indefinite  A positive metric leaves near-resonant modes without curvature. A solved tangent is matched instead.
    parabolic   The space-time residual is taken, relative to its right-hand side where the input drives the equation.
                An initial condition has no right-hand side.
    saddle      The momentum residual is taken without its gradient part and weighed by the Oseen symbol. Divergence and
                boundary terms are added.

    There is one class that the table does not have:

    advective   A is steady and without a Laplacian. If it is of first order, κ(AᵀA) only grows like h⁻², and none
                of the metrics above fits. The residual is taken relative to its right-hand side.
    """
    match kind:
        case "spd" | "saddle" if metric is not None:
            return PreconditionedResidual(metric=metric)
        case "indefinite" if metric is not None and not isinstance(metric, LerayOseen):
            return KrylovTarget(metric=metric)
        case "parabolic":
            return NormalizedResidual() if driven else Residual()
        case "advective":
            return NormalizedResidual()
    raise ValueError(f"tangent_class must be spd, indefinite, parabolic or saddle, got {kind!r} with metric {metric!r}")


def default_form(equation: DiscreteEquation) -> FormSettings:
    """The form for the class that an equation declares, with the paper's metrics."""
    kind = equation.tangent_class
    metrics: dict[TangentClass | None, MetricSettings] = {
        "spd": InverseLaplacian(),
        "indefinite": ShiftedLaplacian(),
        "saddle": LerayOseen(),
    }
    return form_for(kind, metrics.get(kind), driven=kind != "parabolic" or equation.layout.initial_axis is None)


@dataclass(frozen=True)
class Findings:
    """What a probe has measured of A.

    Symmetry and eigenvalues are those of the worst state. Condition numbers and target errors are medians over states.
    """

    unknowns: int
    symmetry_defect: float  # ‖A − Aᵀ‖/‖A‖
    time_axis: str | None = None
    driven_frames: int | None = None  # number of frames in which B v is not zero, for problems in time
    saddle: bool = False
    alignment: float | None = None  # alignment of waves and their images, for steady problems without a multiplier
    metric: FittedLaplacian | LerayOseen | None = None
    lowest: float | None = None  # smallest real part of the eigenvalues of MA, relative to the largest
    nearest: float | None = None  # smallest modulus of the eigenvalues of MA, relative to the largest
    condition_raw: float | None = None  # κ(AᵀA) in the scored responses
    condition_raw_is_bound: bool = False  # κ(AᵀA) is only known to be at least that
    condition_metric: float | None = None  # κ(AᵀMA) in the scored responses
    condition_metric_is_bound: bool = False  # κ(AᵀMA) is only known to be at least that
    condition_joint: float | None = None  # κ(AᵀA) in all unknowns, where some are not scored
    condition_joint_is_bound: bool = False  # that κ(AᵀA) is only known to be at least that
    solver: Solver | None = None  # the Krylov method that fits an elliptic A
    target_errors: tuple[tuple[int, float], ...] = ()  # steps of the solver and the median of ‖ŵ − w‖/‖w‖ after them
    march: bool = False  # whether a problem in time has written down steps of its own
    correction: float | None = None  # of problems in time: ‖A⁻¹F(u, a)‖ over the distance of u from the mean response
    direct_residual: float | None = None  # largest ‖g − A x‖/‖g‖ of a direct solve, where A was assembled

    @property
    def symmetric(self) -> bool:
        return self.symmetry_defect < SYMMETRIC

    @property
    def krylov_class(self) -> OperatorClass:
        """The class as a Krylov form must know it: spd only if A is positive definite, not if −A is."""
        negative = self.tangent_class == "spd" and self.solver == "minres"
        return "indefinite" if negative else self.tangent_class

    @property
    def driven(self) -> bool:
        """Whether the input acts on the equation. An initial condition only enters the first frames' differences."""
        return self.driven_frames is None or self.driven_frames > INITIAL

    @property
    def consistent(self) -> bool:
        """Whether solutions of the equation on this grid are the data; of a steady problem this is not asked."""
        return self.time_axis is None or (self.correction is not None and self.correction <= CONSISTENT)

    @property
    def tangent_class(self) -> OperatorClass:
        if self.time_axis is not None:
            return "parabolic"
        if self.saddle:
            return "saddle"
        if self.metric is None or self.lowest is None:
            return "advective"
        return "spd" if self.lowest > DEFINITE else "indefinite"


def choose(found: Findings) -> tuple[FormSettings, list[str]]:
    """The form for what was measured, and the reasons for it, a sentence each.

    It is the paper's form for the operator's class, with two exceptions. Where a few Krylov steps solve a definite
    elliptic operator, as they do an indefinite one, the solved tangent is matched. This has a Hessian with κ = 1 at
    hardly more cost. The same holds for a problem in time, if the data are solutions of its residual on this grid.
    """
    kind = found.tangent_class
    form, reasons = form_for(kind, found.metric, found.driven), list(_reasons(found, kind))
    if isinstance(found.metric, FittedLaplacian):
        steps = next((m for m, error in found.target_errors if error <= WORTH_MATCHING), None)
        errors = ", ".join(f"{error:.1e} after {m}" for m, error in found.target_errors)
        if steps is not None or kind == "indefinite":
            form = KrylovTarget(metric=found.metric, steps=steps or STEPS[-1], solver=found.solver)
            reasons.append(f"matching tangents that {found.solver} solves has κ = 1; they are off by {errors} steps")
        else:
            reasons.append(f"tangents that {found.solver} solves are off by {errors} steps: not worth matching")
    if found.correction is not None:
        solved, why = _in_time(found)
        form, reasons = solved or form, [*reasons, why]
    if kind == "parabolic" and isinstance(form, NormalizedResidual):
        reasons.append("the residual is taken relative to B v")
    return form, [*reasons, *_near_singular(found, kind)]


def _near_singular(found: Findings, kind: OperatorClass) -> Iterator[str]:
    """Warnings of an A that is singular, or nearly so for some inputs. A definite one only has small eigenvalues."""
    if found.nearest is None or kind != "indefinite":
        return
    if found.nearest < SINGULAR:
        yield (
            "warning: A is singular, as where a constant is free; add what fixes it to all equations, such as "
            "u.mean(1, keepdim=True)"
        )
    elif found.nearest < RESONANT:
        yield (
            f"warning: MA has an eigenvalue of {found.nearest:.1e} of the largest; near a resonance tangents are huge, "
            f"leave such samples out"
        )


def _in_time(found: Findings) -> tuple[SolvedTarget | None, str]:
    """The solved target of a problem in time if it is worth matching, and why it is or is not."""
    how = "the problem's own steps solve" if found.march else "GMRES solves in space and time"
    moved = f"a Newton step moves the data by {found.correction or 0:.1%} of their spread"
    if not found.consistent:
        return None, f"tangents that {how} are not worth matching: {moved}, so this grid does not have their solutions"
    if found.march:
        return SolvedTarget(solver=March()), f"matching tangents that {how} has κ = 1; {moved}"
    steps = next((m for m, error in found.target_errors if error <= WORTH_MATCHING), None)
    errors = ", ".join(f"{error:.1e} after {m}" for m, error in found.target_errors)
    if steps is None:
        return None, f"tangents that {how} are off by {errors} steps: not worth matching"
    solver = SpaceTime(steps=steps)
    return SolvedTarget(
        solver=solver
    ), f"matching tangents that {how} has κ = 1; they are off by {errors} steps; {moved}"


def solved_for(found: Findings) -> SolvedTarget | None:
    """The solved target for what was measured, whether it is worth matching or not; None where no solver fits."""
    if found.time_axis is not None:
        if found.correction is None:  # the layout is not one that space_time knows
            return None
        return SolvedTarget(solver=March() if found.march else SpaceTime())
    if isinstance(found.metric, LerayOseen):
        return SolvedTarget(solver=Stokes(viscosity=found.metric.viscosity))
    if isinstance(found.metric, FittedLaplacian):
        return SolvedTarget(solver=Krylov(metric=found.metric, method=found.solver))
    return None


def with_kept_solver(found: Findings, form: FormSettings) -> tuple[FormSettings, list[str]]:
    """The form for training with labels, and why: where A is small, a target that a direct solver finds is matched.

    At the label A is the same at every update, so the solver keeps its inverse. It needs no metric, no symmetry and no
    class, which also serves operators that no Krylov method here fits.
    """
    small = found.unknowns <= _largest_kept(found)
    solved = found.direct_residual is not None and found.direct_residual <= EXACT
    by_steps = any(error <= WORTH_MATCHING for _, error in found.target_errors)
    if not (small and solved) or found.saddle or found.march or not found.consistent:
        far_off = isinstance(form, KrylovTarget) and not by_steps
        return form, ["warning: these targets are far off; SolvedTarget(solver=Direct()) has exact ones"] * far_off
    otherwise: Krylov | SpaceTime | None = None
    if isinstance(form, SolvedTarget) and isinstance(form.solver, SpaceTime):
        otherwise = form.solver
    if isinstance(found.metric, FittedLaplacian) and by_steps:
        steps = form.steps if isinstance(form, KrylovTarget) else STEPS[-1]
        otherwise = Krylov(metric=found.metric, steps=steps, method=found.solver)
    reason = f"with labels exact targets are matched: A has {found.unknowns} unknowns, few enough to keep its inverse"
    return SolvedTarget(solver=Direct(otherwise=otherwise)), [reason]


def _largest_kept(found: Findings) -> int:
    """The number of unknowns up to which a kept inverse is taken. It grows with the steps that it stands for."""
    if not found.target_errors:
        return DIRECT
    steps = next((m for m, error in found.target_errors if error <= WORTH_MATCHING), STEPS[-1])
    return DIRECT * steps // STEPS[0]


def _reasons(found: Findings, kind: OperatorClass) -> Iterator[str]:
    known = found.condition_metric is not None and found.condition_raw is not None
    raw = f"{'at least ' if found.condition_raw_is_bound else ''}{found.condition_raw or 0:.1e}"
    metric = f"{'at least ' if found.condition_metric_is_bound else ''}{found.condition_metric or 0:.1e}"
    match kind:
        case "parabolic":
            yield f"the axis {found.time_axis} is time: A marches, and a metric in space alone does not fit it"
            if found.driven:
                yield f"the input drives {found.driven_frames} frames"
            else:
                yield f"B v is zero but in {found.driven_frames} frame(s): the input is an initial condition"
        case "saddle":
            yield "the last field has no equation of its own: it is a multiplier, and its gradient is projected out"
            if known:
                yield f"in the velocities alone κ is {raw} for the raw residual and {metric} with M"
                exact = not (found.condition_raw_is_bound or found.condition_metric_is_bound)
                if exact and (found.condition_metric or 0) > (found.condition_raw or 0):
                    yield "M does not lower it: its use is that the loss does not see the multiplier's gradient"
                least = "at least " if found.condition_joint_is_bound else ""
                joint = f"{least}{found.condition_joint or 0:.1e}"
                yield f"in velocities and multiplier together κ of the raw residual is {joint}"
        case "advective":
            yield "no Laplacian was found that a metric could invert"
            yield f"waves and their images are {found.alignment:.0%} aligned; those of a Laplacian 100 %"
        case "spd" | "indefinite":
            name = "definite" if kind == "spd" else "indefinite"
            yield f"the eigenvalues of MA go down to {found.lowest:.2g} of the largest: A is {name}"
            if known and (found.condition_metric or 0) < (found.condition_raw or 0):
                yield f"measuring the residual by M lowers κ from {raw} to {metric}"


def refusals(form: FormSettings, equation: DiscreteEquation) -> Iterator[str]:
    """Why this form cannot work for this class. Symmetry is tested by the solver's form, where the operator exists."""
    kind, metric = equation.tangent_class, metric_of(form)
    if isinstance(metric, ShiftedLaplacian) and metric.shift is None and equation.wave_number is None:
        yield "shifted_laplacian needs a shift, because this problem declares no wave_number; give `shift`"
    if isinstance(form, JacobianPenalty):
        return
    if isinstance(form, KrylovTarget):
        if kind not in ("spd", "indefinite"):
            yield f"krylov_target needs an elliptic tangent operator, this one is {kind}; use a residual form"
        elif refusal := solver_refusal(form.solver, kind):
            yield refusal
    elif isinstance(form, SolvedTarget):
        if isinstance(form.solver, Direct) and form.state != "label":
            yield f"solver direct keeps what belongs to labels, a {form.state} never comes again; use state label"
        if isinstance(form.solver, March) and form.warm_start:
            yield "solver march starts from the first frame and solves exactly; leave warm_start out"
        yield from _solver_refusals(form.solver, equation)
    elif kind == "saddle" and not isinstance(metric, LerayOseen):
        yield f"{form.name} does not weigh the blocks of a saddle residual; use preconditioned_residual, leray_oseen"
    elif kind != "saddle" and isinstance(metric, LerayOseen):
        yield f"leray_oseen weighs the blocks of a saddle residual, this one is {kind}; use another metric"
    elif kind == "parabolic" and metric is not None:
        yield f"{metric.name} acts in space alone, a parabolic residual lives in space-time; use residual"


def input_refusals(settings: Stcl, problem: Problem) -> Iterator[str]:
    """Why these settings cannot use inputs without labels, each after the key that is in the way."""
    form = settings.settled_form
    if settings.inputs == "labelled":
        for key in ("pool", "unlabelled_batch", "value"):
            if getattr(settings, key) not in (None, "none"):
                yield f"{key}: it is for inputs without labels; set inputs to unlabelled or both, or leave {key} out"
        return
    if type(problem).input is Problem.input:
        yield f"inputs: {settings.inputs} needs inputs of the prior from normals; give the problem `input(noise)`"
    if state_of(form) == "label":
        yield (
            f"form.state: {form.name} linearises at the label, which inputs: {settings.inputs} do not have; use "
            f"prediction, or solved_target with corrected"
        )
    if isinstance(form, KrylovTarget | SolvedTarget):
        return
    if settings.value == "corrected":
        yield f"value: corrected needs a form with a solver, {form.name} has none; use solved_target, or residual"
    if problem.resonant:
        yield (
            f"form: {form.name} has no solver, by which near-resonant inputs could be recognised and left out; use "
            f"solved_target"
        )


def without_labels(form: FormSettings) -> str:
    """What a form can do at inputs that nobody has solved."""
    if isinstance(form, KrylovTarget | SolvedTarget):
        return "predictions take a Newton step by the form's solver, and value and tangents are drawn to what it gives"
    return "tangents are judged at the prediction itself; the form has no solver that could correct its value"


def _solver_refusals(solver: SolverSettings, equation: DiscreteEquation) -> Iterator[str]:
    """Why a solver of a target cannot work for this class."""
    kind, needed = equation.tangent_class, SOLVED_BY[solver.name]
    if kind not in needed:
        others = ", ".join(name for name, classes in SOLVED_BY.items() if kind in classes)
        yield f"solver {solver.name} is for operators that are {' or '.join(needed)}, this one is {kind}; use {others}"
    elif isinstance(solver, Direct) and solver.otherwise is not None:
        yield from _solver_refusals(solver.otherwise, equation)
    elif isinstance(solver, Krylov):
        yield from filter(None, [solver_refusal(solver.method, kind)])
    elif isinstance(solver, SpaceTime):
        yield from filter(None, [space_time_refusal(equation.layout)])
    elif isinstance(solver, March) and equation.march is None:
        yield "solver march needs steps that the problem has written down as `march`; use space_time"
