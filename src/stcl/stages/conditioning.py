"""The stage `conditioning` measures the tangent operator of a problem, and what a form of the loss makes of it.

    python -m stcl.stages.conditioning --spec '{"problem": …, "options": …, "form": …, "samples": …, "seed": …}' \
        --out conditioning/diffusion.json

All numbers come from dense matrices in float64, so options should name a small grid. A few inputs are drawn and solved,
and the equation is linearised at each. Each quantity is written for every sample, with its median and range.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl import problems
from stcl.losses import forms, metrics
from stcl.losses.settings import FormSettings, KrylovTarget, March, SolvedTarget, metric_of
from stcl.problems.base import SolveError
from stcl.runtime.ending import end
from stcl.runtime.stores import write_json
from stcl.study.specs.conditioning import ConditioningSpec
from stcl.tangent.operator import TangentOperator
from stcl.tangent.structure import Condition, block_signs, condition_number, metric_root, symmetry_defect

DIRECTIONS = 8  # number of directions per sample along which the error of a solved target is measured


def conditioning_record(spec: ConditioningSpec) -> dict[str, Any]:
    """The record of a spec, with these quantities of A at the true response, on the nodes that have an equation:

    symmetry_defect           ‖A − Aᵀ‖ / ‖A‖ in Frobenius' norm. Blocks of a saddle problem get the sign that makes A
                              most symmetric, because an equation times −1 is the same equation.
    smallest_eigenvalue, largest_eigenvalue, negative_fraction     of (A + Aᵀ)/2, which is A where that is symmetric
    condition_raw             κ(AᵀA), the condition number of the raw residual's Hessian
    condition_scored          the same in the scored responses, with the others held. A Leray-projected metric is blind
                              to pressure by design, so its condition number is to be compared with this one.
    condition_metric          κ(AᵀMA) in the scored responses with the form's metric M; null for a form without one
    condition_metric_all      the same in all responses, which a loss that is not blind to pressure trains together
    condition_preconditioned  max|λ| / min|λ| of MA, which a Krylov target's solver sees; null for other forms
    target_error              ‖ŵ − w‖ / ‖w‖ of a solved target ŵ after its m steps, the median of a few directions; null
                              for a march, which solves another system than A w = −B v

    A condition number is null if the matrix is singular to rounding.
    """
    problem = problems.load(spec.problem, **spec.options)
    a, u = problem.states(spec.samples)
    noise = np.random.default_rng(spec.seed).standard_normal((DIRECTIONS, *problem.noise_shape))
    v = torch.as_tensor(problem.direction(noise))
    operators = [TangentOperator(problem, u[i], a[i]) for i in range(len(a))]
    samples = [quantities(operator, spec.form, v) for operator in operators]
    return {
        "spec": spec.json_dict(),
        "tangent_class": problem.tangent_class,
        "unknowns": len(operators[0].unknowns),
        "quantities": {name: _summary([sample[name] for sample in samples]) for name in samples[0]},
    }


def quantities(operator: TangentOperator, form: FormSettings, v: Tensor) -> dict[str, float | None]:
    matrix, problem = operator.assemble(), operator.equation
    scored = operator.unknowns.response < len(problem.layout.scored)
    signed = block_signs(operator)[:, None] * matrix
    eigenvalues = torch.linalg.eigvalsh((signed + signed.T) / 2)
    found = {
        "symmetry_defect": symmetry_defect(operator),
        "smallest_eigenvalue": float(eigenvalues[0]),
        "largest_eigenvalue": float(eigenvalues[-1]),
        "negative_fraction": float((eigenvalues < 0).double().mean()),
        "condition_raw": _known(condition_number(operator, torch.ones_like(scored))),
        "condition_scored": _known(condition_number(operator, scored)),
        "condition_metric": None,
        "condition_metric_all": None,
        "condition_preconditioned": None,
        "target_error": None,
    }
    if isinstance(form, KrylovTarget | SolvedTarget) and not isinstance(form.solver, March):
        found["target_error"] = _target_error(operator, forms.load(problem, form), v)
    chosen = metric_of(form)
    if chosen is None:
        return found
    metric = metrics.load(problem, chosen)
    found["condition_metric"] = _known(condition_number(operator, scored, metric))
    found["condition_metric_all"] = _known(condition_number(operator, torch.ones_like(scored), metric))
    if isinstance(form, KrylovTarget | SolvedTarget):
        root = metric_root(operator, metric)
        eigenvalues = torch.linalg.eigvals(root @ matrix @ root).abs()
        found["condition_preconditioned"] = float(eigenvalues.max() / eigenvalues.min())
    return found


def _known(condition: Condition) -> float | None:
    return None if condition.is_bound else condition.value


def _target_error(operator: TangentOperator, form: Any, v: Tensor) -> float:
    """The error in the scored responses. A pressure is solved for in the sense of least squares."""
    scored = operator.unknowns.response < len(operator.equation.layout.scored)
    solve = torch.linalg.solve if scored.all() else lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").solution
    exact = solve(operator.matrix(), operator.right_hand_side(v).T).T[:, scored]
    target = operator.unknowns.restrict(form.target(operator.a, operator.u, v).x[0])[:, scored]
    return float(((target - exact).norm(dim=1) / exact.norm(dim=1)).median())


def _summary(values: list[float | None]) -> dict[str, Any] | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return {"median": float(np.median(known)), "min": min(known), "max": max(known), "samples": known}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.conditioning",
        description="Measure the spectrum and the condition numbers of a tangent operator.",
    )
    parser.add_argument(
        "--spec",
        type=ConditioningSpec.parse,
        required=True,
        help="the measurement as JSON: problem, options, form, samples, seed",
    )
    parser.add_argument("--code", default="", help="identity of the code, which the record keeps")
    parser.add_argument("--out", type=Path, required=True, help="record to write")
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        write_json(arguments.out, conditioning_record(arguments.spec) | {"code": arguments.code})
    except (SolveError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
    end()
