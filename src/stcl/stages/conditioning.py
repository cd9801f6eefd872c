"""Stage `conditioning`: what the tangent operator of a problem is like, and what a form makes of it.

    python -m stcl.stages.conditioning --spec '{"problem": …, "options": …, "form": …, "samples": …, "seed": …}' \
        --out conditioning/diffusion.json

All numbers come from dense matrices in float64, so options should name a small grid. A few inputs are drawn, solved and
linearised; each quantity is written for every sample, with its median and range.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from stcl import problems
from stcl.losses import forms, metrics
from stcl.losses.settings import Form, KrylovTarget
from stcl.problems.base import SolveError
from stcl.runtime.stores import write_json
from stcl.tangent.operator import TangentOperator
from stcl.tangent.states import states

DIRECTIONS = 8  # per sample, for the error of a solved target


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """The record of a spec {problem, options, form, samples, seed}.

    Of A at the true response, on the nodes that have an equation:

    symmetry_defect           ‖A − Aᵀ‖ / ‖A‖ in Frobenius' norm. Blocks of a saddle problem are given the sign that
                              makes A most symmetric; an equation times −1 is the same equation
    smallest_eigenvalue, largest_eigenvalue, negative_fraction     of (A + Aᵀ)/2, which is A where that is symmetric
    condition_raw             κ(AᵀA), of the raw residual's Hessian
    condition_scored          the same in the scored responses, the others held: a Leray-projected metric is blind to
                              pressure by design, so that this is what its condition number is to be compared with
    condition_metric          κ(AᵀMA) in the scored responses with the form's metric M; null for a form without one
    condition_preconditioned  max|λ| / min|λ| of MA, which a Krylov target's solver sees; null for other forms
    target_error              ‖ŵ − w‖ / ‖w‖ of a Krylov target ŵ after its m steps, the median of a few directions

    A condition number is null if the matrix is singular to rounding.
    """
    problem = problems.load(spec["problem"], **spec["options"])
    form = TypeAdapter(Form).validate_python(spec["form"])
    a, u = states(problem, spec["samples"])
    noise = np.random.default_rng(spec["seed"]).standard_normal((DIRECTIONS, *problem.noise_shape))
    v = torch.as_tensor(problem.direction(noise))
    operators = [TangentOperator(problem, u[i], a[i]) for i in range(len(a))]
    samples = [quantities(operator, form, v) for operator in operators]
    return {
        "spec": spec,
        "tangent_class": problem.tangent_class,
        "unknowns": len(operators[0].unknowns),
        "quantities": {name: _summary([sample[name] for sample in samples]) for name in samples[0]},
    }


def quantities(operator: TangentOperator, form: Form, v: Tensor) -> dict[str, float | None]:
    matrix = operator.matrix()
    scored = operator.unknowns.response < len(operator.problem.layout.scored)
    signed = symmetric_signs(matrix, operator.unknowns.sizes)[:, None] * matrix
    eigenvalues = torch.linalg.eigvalsh((signed + signed.T) / 2)
    found = {
        "symmetry_defect": float((signed - signed.T).norm() / matrix.norm()),
        "smallest_eigenvalue": float(eigenvalues[0]),
        "largest_eigenvalue": float(eigenvalues[-1]),
        "negative_fraction": float((eigenvalues < 0).double().mean()),
        "condition_raw": condition(matrix),
        "condition_scored": condition(matrix[:, scored]),
        "condition_metric": None,
        "condition_preconditioned": None,
        "target_error": None,
    }
    if getattr(form, "metric", None) is None:
        return found
    root = square_root(metric_matrix(operator, metrics.load(operator.problem, form.metric)))
    found["condition_metric"] = condition((root @ matrix)[:, scored])
    if isinstance(form, KrylovTarget):
        eigenvalues = torch.linalg.eigvals(root @ matrix @ root).abs()
        found["condition_preconditioned"] = float(eigenvalues.max() / eigenvalues.min())
        found["target_error"] = _target_error(operator, forms.load(operator.problem, form), matrix, v)
    return found


def symmetric_signs(matrix: Tensor, sizes: list[int]) -> Tensor:
    """±1 for each equation, the same within a block: the sign with which a block mirrors the first one's columns."""
    blocks = matrix[: sizes[0]].split(sizes, 1)[1:], matrix.split(sizes, 0)[1:]
    signs = [matrix.new_ones(sizes[0])]
    for across, down in zip(*blocks, strict=True):
        mirrored = (across * down[:, : sizes[0]].T).sum() >= 0
        signs.append(torch.full((len(down),), 1.0 if mirrored else -1.0, dtype=matrix.dtype))
    return torch.cat(signs)


def metric_matrix(operator: TangentOperator, metric: Any) -> Tensor:
    """M as a dense matrix on the equations."""
    columns = torch.eye(len(operator.unknowns), dtype=operator.u.dtype)[None]
    return operator.unknowns.join(metric.at(operator.a)(operator.unknowns.split(columns)))[0]


def square_root(metric: Tensor) -> Tensor:
    """The symmetric root of a positive semidefinite matrix."""
    values, vectors = torch.linalg.eigh((metric + metric.T) / 2)
    return vectors * values.clamp_min(0).sqrt() @ vectors.T


def condition(factor: Tensor) -> float | None:
    """κ of the Hessian RᵀR for R = `factor`; None if R is singular to rounding."""
    values = torch.linalg.svdvals(factor)
    largest, smallest = float(values[0]), float(values[-1])
    if smallest <= len(factor) * torch.finfo(factor.dtype).eps * largest:
        return None
    return (largest / smallest) ** 2


def _target_error(operator: TangentOperator, form: Any, matrix: Tensor, v: Tensor) -> float:
    exact = torch.linalg.solve(matrix, operator.right_hand_side(v).T).T
    target = form.target(operator.a, operator.u, v).x[0].flatten(1)
    return float(((target - exact).norm(dim=1) / exact.norm(dim=1)).median())


def _summary(values: list[float | None]) -> dict[str, Any] | None:
    if None in values:
        return None
    return {"median": float(np.median(values)), "min": min(values), "max": max(values), "samples": values}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.conditioning",
        description="Spectrum and condition numbers of a tangent operator.",
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="problem, options, form, samples, seed as JSON")
    parser.add_argument("--code", default="", help="identity of the code, for the record")
    parser.add_argument("--out", type=Path, required=True, help="record to write")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        write_json(arguments.out, measure(arguments.spec) | {"code": arguments.code})
    except (SolveError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
