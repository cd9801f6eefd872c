"""The stage `inverse_reference` solves the inverse problems of a dataset with the reference solver.

    python -m stcl.stages.inverse_reference --out results/quick/inverse/diffusion/reference.json \
        --spec '{"problem": "diffusion", "options": {"n": 17}, "inversions": {"noise": 0.02}}'

Gradients are exact: they come from the solver's tangents along the modes of the prior. Every answer is checked before
it is stored: the Jacobian must agree with differences of the solver. Where the optimiser does not reach a minimum, the
store and the ledger say so. An interrupted run continues after the last chunk it stored.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stcl import inverse, problems
from stcl.problems.base import SolveError
from stcl.runtime import options, stores
from stcl.runtime.ending import end
from stcl.runtime.parallel import ordered
from stcl.runtime.progress import Progress
from stcl.stages.inversion import InverseProblems, SolverModel
from stcl.study.specs.inverse import InverseReferenceSpec

CHUNK = 4  # number of inverse problems that are solved together
STEPS = 300  # largest number of steps; most problems need ten
PATH = 6  # number of points of the optimiser's path at which gradients are stored, both ends among them
OPTIMAL = 2 * inverse.TOLERANCE  # largest distance of a stored MAP point from the minimiser, in the same units
# The check of the Jacobian: steps relative to z, and the tolerated defect relative to the change. A right Jacobian
# agrees with differences of some step. Near a resonance, responses bend so strongly that only the smallest will do.
DIFFERENCE_STEPS, DIFFERENCE_TOLERANCE = (1e-4, 1e-6, 1e-8), 1e-4


def generate(spec: InverseReferenceSpec, manifest: Path, work: Path, code: str, workers: int) -> None:
    """Writes the answers to the inverse problems that `spec` describes beside `manifest`, with their ledger."""
    problem = problems.load(spec.problem, **spec.options)
    posed = InverseProblems(problem, spec.inversions)
    begun = time.perf_counter()
    truths, layout, d = posed.truths, problem.layout, posed.prior.dimension
    points = inverse.linearise(SolverModel(problem), posed.sensors, truths.noise, posed.prior, posed.points)
    count, m = truths.data.shape
    title = f"{spec.problem} inverse problems"
    key = stores.job_key(spec.canonical(), code, str(manifest))
    of_input = (layout.input_dims, layout.input_shape)
    field = stores.Field
    writer = stores.StoreWriter(
        work / key,
        key,
        count,
        {
            "truth": field(*of_input, "input to be found, on the network's grid"),
            "u": field(layout.response_dims, layout.response_shape, "response to it"),
            "outside": field((), (), "1 if it was drawn from the wider prior, else 0"),
            "data": field(("datum",), (m,), "observations with noise"),
            "z": field(("mode",), (d,), "MAP point in whitened coordinates"),
            "a": field(*of_input, "MAP point on the network's grid"),
            "reached": field((), (), "1 if it is a minimum; 0 if the optimiser ended before, and nothing is compared"),
            "misfit": field((), (), "half the squared misfit at the MAP point, over the noise"),
            "jacobian": field(
                ("datum", "mode"), (m, d), "derivative of the observations at the MAP point, over the noise"
            ),
            "path": field(("point", "mode"), (PATH, d), "points of the path from the prior's mean to the MAP point"),
            "path_gradient": field(("point", "mode"), (PATH, d), "gradient of the misfit at them"),
            "misfits": field(("step",), (STEPS + 1,), "misfit after every step; the last value is repeated"),
            "evaluations": field((), (), "number of solves with all tangents that the MAP point took"),
        },
        {
            "noise": (("one",), np.array([truths.noise])),
            "sensors": (("sensor", "axis"), posed.sensors.points),
            "points": (("sample_point", "mode"), posed.points.numpy()),
            "point_data": (("sample_point", "datum"), points.y.numpy()),
            "point_jacobian": (("sample_point", "datum", "mode"), points.jacobian.numpy()),
            **stores.axes(layout),
        },
        stores.labels(layout),
        {"title": title, "spec": spec.canonical()},
    )
    if not writer.done:
        writer.cost.update({"prepare_seconds": time.perf_counter() - begun, "evaluations": len(posed.points)})
    rows = [range(i, min(i + CHUNK, count)) for i in range(writer.done, count, CHUNK)]
    tasks = ((few.start, truths.data[few.start : few.stop], truths.noise) for few in rows)
    with Progress(title, count, "problem", writer.done) as progress:
        for few, (found, cost) in zip(rows, ordered(partial(_solve, spec), tasks, workers), strict=True):
            chunk = slice(few.start, few.stop)
            given = {
                "truth": problem.network_input(truths.a[chunk]),
                "u": truths.u[chunk],
                "outside": truths.outside[chunk],
                "data": truths.data[chunk],
            }
            writer.append(given | found, cost)
            progress.step(len(few))
    writer.finish(manifest, spec.json_dict(), code)


def _solve(spec: InverseReferenceSpec, task: tuple[int, np.ndarray, float]) -> tuple[dict, dict[str, float]]:
    """The checked answers to a few inverse problems, and what they cost."""
    first, data, noise = task[0], torch.from_numpy(task[1]), task[2]
    problem = problems.load(spec.problem, **spec.options)
    posed, solver = InverseProblems(problem, spec.inversions), SolverModel(problem)
    begun = time.perf_counter()
    found = inverse.map_point(solver, posed.sensors, data, noise, posed.prior, steps=STEPS)
    solved = time.perf_counter()
    check_answers(posed, solver, first, data, noise, found)
    path = torch.stack([_spread(found.path[:, i]) for i in range(len(data))])
    along = inverse.linearise(solver, posed.sensors, noise, posed.prior, path.flatten(0, 1))
    gradient = along.gradient((data / noise).repeat_interleave(PATH, 0)).reshape(path.shape)
    misfits = torch.cat([found.path_misfit, found.path_misfit[-1:].expand(STEPS + 1 - len(found.path_misfit), -1)])
    arrays = {
        "z": found.z,
        "a": problem.network_input(found.a.numpy()),
        "reached": reached(found),
        "misfit": found.misfit,
        "jacobian": found.jacobian,
        "path": path,
        "path_gradient": gradient,
        "misfits": misfits.T,
        "evaluations": found.evaluations,
    }
    cost = {
        **problem.counts,
        "seconds": solved - begun,
        "check_seconds": time.perf_counter() - solved,
        "evaluations": int(found.evaluations.sum()),
        "not_reached": int((~reached(found)).sum()),
    }
    return {name: np.asarray(values) for name, values in arrays.items()}, cost


def check_answers(
    posed: InverseProblems, solver: SolverModel, first: int, data: Tensor, noise: float, found: inverse.MapPoint
) -> None:
    """Refuses misfits that are none, and Jacobians that are not the derivative of the solver's observations.

    Both tests take the solver's responses alone. Error messages count truths from `first`.
    """
    signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], found.z.shape))
    predicted = (found.jacobian @ signs[..., None])[..., 0]

    def observed(z: Tensor) -> Tensor:
        return posed.sensors(solver(posed.prior(z))) / noise

    defect = torch.full((len(data),), torch.inf, dtype=found.z.dtype)
    for relative in DIFFERENCE_STEPS:
        step = relative * (1 + found.z.norm(dim=1, keepdim=True)) / found.z.shape[1] ** 0.5
        difference = (observed(found.z + step * signs) - observed(found.z - step * signs)) / (2 * step)
        defect = torch.fmin(defect, (predicted - difference).norm(dim=1) / difference.norm(dim=1))
        if (defect <= DIFFERENCE_TOLERANCE).all():
            break
    misfit = (observed(found.z) - data / noise).square().sum(1) / 2
    wrong = ~((misfit - found.misfit).abs() <= 1e-6 * (1 + misfit))
    for bad, what in (
        (~(defect <= DIFFERENCE_TOLERANCE), lambda i: f"its Jacobian differs from differences by {defect[i]:.3g}"),
        (wrong, lambda i: f"its misfit is {misfit[i]:.6g} where {found.misfit[i]:.6g} was found"),
    ):
        if bad.any():
            i = int(torch.nonzero(bad)[0])
            raise stores.StoreError(
                f"{int(bad.sum())} of {len(bad)} inverse problems have no usable answer, first: truth {first + i}: "
                f"{what(i)}. Nothing of this chunk was stored; raise `noise` or take fewer `modes`"
            )


def reached(found: inverse.MapPoint) -> Tensor:
    """Whether the optimiser ended in a minimum, by the Newton decrement, [B]. A resonance can stop it before."""
    return found.decrement <= OPTIMAL**2 * found.objective


def _spread(path: Tensor) -> Tensor:
    """PATH points of a path [steps + 1, d], evenly between the first and the last step that moved."""
    moved = torch.cat([torch.ones(1, dtype=torch.bool), (path.diff(dim=0) != 0).any(1)])
    taken = path[moved]
    return taken[torch.linspace(0, len(taken) - 1, PATH).round().long()]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.inverse_reference",
        description="Solve the inverse problems of a dataset with the reference solver.",
    )
    parser.add_argument(
        "--spec",
        type=InverseReferenceSpec.parse,
        required=True,
        help="the inverse problems as JSON: problem, options, inversions",
    )
    parser.add_argument("--out", type=Path, required=True, help="manifest to write; the store is written beside it")
    options.add_resuming(parser, "work/inverse")
    options.add_workers(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        generate(arguments.spec, arguments.out, arguments.work, arguments.code, arguments.workers)
    except (stores.StoreError, SolveError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
    end()
