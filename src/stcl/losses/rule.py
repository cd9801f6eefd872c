"""The decision rule: which form fits a tangent class, and which cannot work. Imports no torch."""

from collections.abc import Iterator

from stcl.losses.settings import (
    Form,
    InverseLaplacian,
    JacobianPenalty,
    KrylovTarget,
    LerayOseen,
    NormalizedResidual,
    PreconditionedResidual,
    Residual,
    ShiftedLaplacian,
)
from stcl.problems.base import Problem


def default_form(problem: Problem) -> Form:
    """The form of the paper's table for the class of the tangent operator A.

    spd         stiff, so the residual is measured by an inverse Laplacian
    indefinite  a positive metric leaves near-resonant modes without curvature: match a solved tangent instead
    parabolic   the space-time residual, relative to its right-hand side where the input drives the equation; an
                initial condition has no right-hand side
    saddle      momentum without its gradient part, weighed by the Oseen symbol, with divergence and boundary terms
    """
    match problem.tangent_class:
        case "spd":
            return PreconditionedResidual(metric=InverseLaplacian())
        case "indefinite":
            return KrylovTarget(metric=ShiftedLaplacian())
        case "parabolic":
            return NormalizedResidual() if problem.layout.initial_axis is None else Residual()
        case "saddle":
            return PreconditionedResidual(metric=LerayOseen())
    raise ValueError(f"tangent_class must be spd, indefinite, parabolic or saddle, got {problem.tangent_class!r}")


def refusals(form: Form, problem: Problem) -> Iterator[str]:
    """Why this form cannot work for this class. Symmetry is tested by the solver's form, where the operator exists."""
    kind = problem.tangent_class
    metric = getattr(form, "metric", None)
    if isinstance(form, JacobianPenalty):
        return
    if isinstance(form, KrylovTarget):
        if kind not in ("spd", "indefinite"):
            yield f"krylov_target needs an elliptic tangent operator, this one is {kind}; use a residual form"
        elif kind == "indefinite" and form.solver == "cg":
            yield "cg may only be used for definite operators, this one is indefinite; use minres or gmres"
    elif kind == "saddle" and not isinstance(metric, LerayOseen):
        yield f"{form.name} does not weigh the blocks of a saddle residual; use preconditioned_residual, leray_oseen"
    elif kind != "saddle" and isinstance(metric, LerayOseen):
        yield f"leray_oseen weighs the blocks of a saddle residual, this one is {kind}; use another metric"
    elif kind == "parabolic" and metric is not None:
        yield f"{metric.name} acts in space alone, a parabolic residual lives in space-time; use residual"
