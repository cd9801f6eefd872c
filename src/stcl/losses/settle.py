"""From the form that a user asks for, by name or by "auto", to its settings."""

from collections.abc import Callable

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses.rule import Findings, choose, solved_for, with_kept_solver
from stcl.losses.settings import (
    FormSettings,
    Krylov,
    KrylovTarget,
    LerayOseen,
    NormalizedResidual,
    PreconditionedResidual,
    Residual,
    SolvedTarget,
    solvers_of,
)
from stcl.tangent.solver_choice import solver_refusal

FORMS = ("residual", "normalized_residual", "preconditioned_residual", "krylov_target", "solved_target")


def settle(
    form: str | FormSettings, equation: DiscreteEquation, probe: Callable[[DiscreteEquation], Findings]
) -> tuple[FormSettings, list[str], OperatorClass | None]:
    """The settings of a form that is asked for, why they were chosen, and the class of A where it had to be known.

    `probe` measures the operator. It is called where the form or its solver depends on what A is like.
    """
    if form == "residual":
        return Residual(), [], None
    if form == "normalized_residual":
        return NormalizedResidual(), [], None
    if not isinstance(form, str) and not _needs_probe(form, equation):
        return form, [], equation.tangent_class
    found = probe(equation)
    # What was measured counts here, also where a class is declared: the solver was chosen by it.
    tangent_class = found.krylov_class
    if not isinstance(form, str):
        return form, [], tangent_class
    if form == "auto":
        chosen, reasons = choose(found)
        kept, why = with_kept_solver(found, chosen)
        return kept, reasons + why, tangent_class
    if form == "solved_target":
        solved = solved_for(found)
        if solved is None:
            raise ValueError(
                f"no stepwise solver fits this operator, which is {found.tangent_class}; use residual, "
                f"normalized_residual, or stcl.SolvedTarget(solver=stcl.Direct())"
            )
        return solved, [], tangent_class
    if found.metric is None:
        raise ValueError(
            f"{form} needs a metric, and none fits: this operator is {found.tangent_class}; use residual or "
            f"normalized_residual, or give the form with its metric"
        )
    if form == "krylov_target":
        if isinstance(found.metric, LerayOseen):
            raise ValueError(
                "krylov_target needs an elliptic operator, this one is saddle; use preconditioned_residual"
            )
        return KrylovTarget(metric=found.metric, solver=found.solver), [], tangent_class
    return PreconditionedResidual(metric=found.metric), [], tangent_class


def _needs_probe(form: FormSettings, equation: DiscreteEquation) -> bool:
    """Whether the Krylov method of a form must fit the class of A, and the declared one does not settle that it does.

    A method that the declared class refuses may come from a probe, so it is measured whether it fits.
    """
    declared = equation.tangent_class
    methods = [solver.method for solver in solvers_of(form) if isinstance(solver, Krylov)]
    methods += [form.solver] if isinstance(form, KrylovTarget) else []
    return any(declared is None or solver_refusal(method, declared) is not None for method in methods)


def in_words(form: str | FormSettings) -> str:
    """A form in a few words."""
    if isinstance(form, str):
        return form
    words: list[str | None] = [form.name]
    if isinstance(form, PreconditionedResidual):
        words += [form.metric.name]
    if isinstance(form, KrylovTarget):
        words += [form.solver, f"{form.steps} steps"]
    if isinstance(form, SolvedTarget):
        words += [form.solver.name]
    return ", ".join(word for word in words if word)
