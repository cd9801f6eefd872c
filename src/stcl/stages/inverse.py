"""The stage `inverse` solves the inverse problems of a dataset through trained cells and compares with the solver.

    python -m stcl.stages.inverse --reference inverse/diffusion/reference.json --spec '{"sampling": null}' \
        --out inverse/diffusion.json runs/…/train.json [runs/…/train.json …]

Nothing is trained. The record holds the medians over inverse problems for each cell. The file .npz beside it holds the
numbers of every inverse problem.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl import inverse, problems
from stcl.operators.build import trained_surrogate
from stcl.problems.base import SolveError
from stcl.runtime import checkpoint, devices, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.ending import end
from stcl.stages import delayed_acceptance
from stcl.stages.inversion import SEED, InverseProblems, SolverModel
from stcl.stages.surrogate_model import SurrogateModel
from stcl.study.inversions import Sampling
from stcl.study.specs.inverse import InverseReferenceSpec, InverseSpec
from stcl.study.specs.train import TrainSpec

LEADING = 5  # number of eigenpairs of the Hessian that are compared
SAME = 1e-2  # two MAP points at a smaller relative distance are the same minimum


@dataclass(frozen=True)
class Reference:
    """The inverse problems with the solver's answers, in float64."""

    posed: InverseProblems
    arrays: dict[str, Tensor]
    content: str
    seconds: float  # per inverse problem

    @classmethod
    def read(cls, manifest: Path) -> "Reference":
        described = stores.read_manifest(manifest)
        spec = InverseReferenceSpec.model_validate(described["spec"])
        posed = InverseProblems(problems.load(spec.problem, **spec.options), spec.inversions)
        arrays = {name: torch.from_numpy(values).double() for name, values in stores.read(manifest).items()}
        ledger = json.loads(stores.ledger_path(manifest).read_text())
        return cls(posed, arrays, described["content"], ledger["seconds"] / described["samples"])

    @property
    def noise(self) -> float:
        return float(self.arrays["noise"])

    @property
    def scaled(self) -> Tensor:
        """The data over the noise, [truths, m]."""
        return self.arrays["data"] / self.noise

    def linearise(self, model: inverse.Map, z: Tensor) -> inverse.Linearisation:
        return inverse.linearise(model, self.posed.sensors, self.noise, self.posed.prior, z)

    def observed(self, model: inverse.Map, z: Tensor) -> Tensor:
        """What a model predicts at z [B, d], over the noise, without derivatives."""
        return self.posed.sensors(model(self.posed.prior(z))).to(z) / self.noise

    def map_point(self, model: inverse.Map, **options: Any) -> inverse.MapPoint:
        return inverse.map_point(
            model, self.posed.sensors, self.arrays["data"], self.noise, self.posed.prior, **options
        )

    def on_network(self, a: Tensor) -> Tensor:
        return torch.as_tensor(self.posed.problem.network_input(a.numpy()))


def measure(reference: Reference, model: inverse.Map, solver: SolverModel) -> dict[str, Tensor]:
    """What is measured of a model, for every inverse problem, [truths, ...].

    gradient_error, gradient_cosine              of the misfit's gradient at random inputs, [truths, points]
    path_gradient_error, path_gradient_cosine    of all gradients together along the solver's path to its MAP point
    map_distance       ‖a_θ − a‖ / ‖a‖ between the MAP points through the model and through the solver
    truth_error        ‖a_θ − truth‖ / ‖truth‖
    misfit             the solver's squared misfit at a_θ, over the noise and the number of data: 1 fits the data
    evaluations        solves, with tangents, until the solver's optimiser ends, if it starts from a_θ
    same_minimum       whether it ends where it ended from the prior's mean
    eigenvalue_error, subspace_angle, information_gain    of the Hessian at the solver's MAP point
    map_seconds, map_evaluations                 of the MAP point through the model
    a, misfits, eigenvalues                      for the figure
    """
    known, data = reference.arrays, reference.scaled
    points = reference.linearise(model, known["points"])
    exact = inverse.Linearisation(known["point_data"], known["point_jacobian"])
    ours, theirs = (_gradients(at, data) for at in (points, exact))
    path = reference.linearise(model, known["path"].flatten(0, 1))
    count, length, _ = known["path"].shape
    along = path.gradient(data.repeat_interleave(length, 0)).reshape(known["path"].shape)

    begun = time.perf_counter()
    found = reference.map_point(model)
    seconds = time.perf_counter() - begun
    a, wanted, truth = reference.on_network(found.a), known["a"], known["truth"]
    # A MAP point at which the solver has no solution fits nothing.
    misfit = (reference.observed(solver, found.z) - data).square().mean(1).nan_to_num(nan=torch.inf)
    solvable = torch.where(misfit.isfinite()[:, None], found.z, 0)
    corrected = reference.map_point(solver, start=solvable)

    jacobians = path.jacobian.reshape(count, length, *path.jacobian.shape[1:])[:, -1]  # at the solver's MAP points
    spectrum, true = inverse.spectrum(jacobians), inverse.spectrum(known["jacobian"])
    shown = found.path[: int(found.evaluations[0]), 0]
    return {
        "gradient_error": _relative(ours, theirs),
        "gradient_cosine": torch.cosine_similarity(ours, theirs, dim=-1),
        "path_gradient_error": _relative(along.flatten(1), known["path_gradient"].flatten(1)),
        "path_gradient_cosine": torch.cosine_similarity(along.flatten(1), known["path_gradient"].flatten(1)),
        "map_distance": _relative(a.flatten(1), wanted.flatten(1)),
        "truth_error": _relative(a.flatten(1), truth.flatten(1)),
        "misfit": misfit,
        "evaluations": corrected.evaluations,
        "same_minimum": _relative(reference.on_network(corrected.a).flatten(1), wanted.flatten(1)) < SAME,
        "eigenvalue_error": _relative(spectrum.eigenvalues[:, :LEADING], true.eigenvalues[:, :LEADING]),
        "subspace_angle": inverse.subspace_angle(
            spectrum.eigenvectors[..., :LEADING], true.eigenvectors[..., :LEADING]
        ),
        "information_gain": spectrum.information_gain,
        "map_seconds": torch.full((count,), seconds / count),
        "map_evaluations": found.evaluations,
        "a": a,
        "misfits": (reference.observed(solver, shown) - data[0]).square().mean(1),
        "eigenvalues": spectrum.eigenvalues[0],
    }


def of_solver(reference: Reference) -> dict[str, Tensor]:
    """The same of the stored answers, where there is something to measure."""
    known, m = reference.arrays, reference.scaled.shape[1]
    spectrum = inverse.spectrum(known["jacobian"])
    return {
        "truth_error": _relative(known["a"].flatten(1), known["truth"].flatten(1)),
        "misfit": 2 * known["misfit"] / m,
        "evaluations": known["evaluations"],
        "information_gain": spectrum.information_gain,
        "map_seconds": torch.full((len(known["a"]),), reference.seconds),
        "map_evaluations": known["evaluations"],
        "a": known["a"],
        "misfits": 2 * known["misfits"][0, : int(known["evaluations"][0])] / m,
        "eigenvalues": spectrum.eigenvalues[0],
    }


def chains(
    reference: Reference, sampling: Sampling, model: inverse.Map | None, solver: SolverModel
) -> dict[str, float]:
    """Delayed-acceptance chains for the first truth. Without a model, the solver's own MAP point proposes."""
    centre, jacobian = reference.arrays["z"][:1], reference.arrays["jacobian"][:1]
    if model is not None:
        one = {"data": reference.arrays["data"][:1]}
        found = Reference(reference.posed, reference.arrays | one, "", 0).map_point(model)
        centre, jacobian = found.z, found.jacobian

    def potential(of: inverse.Map) -> delayed_acceptance.Potential:
        def value(z: Tensor) -> Tensor:
            misfit = (reference.observed(of, z) - reference.scaled[0]).square().sum(1) / 2
            return misfit.nan_to_num(nan=torch.inf) + z.square().sum(1) / 2

        return value

    generator = torch.Generator().manual_seed(SEED["chains"])
    visited = delayed_acceptance.sample(
        potential(solver),
        None if model is None else potential(model),
        centre[0],
        inverse.spectrum(jacobian),
        sampling.chains,
        sampling.steps,
        sampling.beta,
        generator,
    )
    return {
        "first_acceptance": visited.first_acceptance,
        "second_acceptance": visited.second_acceptance,
        "samples_per_solve": visited.effective_samples_per_solve(burn_in=sampling.steps // 5),
    }


def medians(measured: dict[str, Tensor], outside: Tensor, reached: Tensor) -> dict[str, float]:
    """The medians over the truths of the prior, and under names that end with _outside over the others.

    A truth whose MAP point the solver has not reached does not count.
    """
    found = {}
    for name, values in measured.items():
        if name in ("a", "misfits", "eigenvalues"):
            continue
        for rows, ending in ((~outside & reached, ""), (outside & reached, "_outside")):
            if rows.any():
                of_these = values[rows].double().numpy()
                found[f"{name}{ending}"] = float(of_these.mean() if name == "same_minimum" else np.median(of_these))
    return found


def record(
    spec: InverseSpec, manifest: Path, runs: list[Path], device: torch.device
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record of a block, and the numbers of every inverse problem of each cell."""
    reference = Reference.read(manifest)
    problem, outside = reference.posed.problem, reference.arrays["outside"] > 0
    reached = reference.arrays["reached"] > 0
    if not (reached & ~outside).any():
        raise ValueError(f"{manifest}: the solver reached no MAP point of the prior's truths; raise `noise`")
    solver = SolverModel(problem)
    measured, summary = {"solver": of_solver(reference)}, {}
    for run in runs:
        record = json.loads(run.read_text())
        trained = TrainSpec.model_validate(record["spec"])
        weights = checkpoint.load_weights(run.with_name("weights.pt"), record)
        model = SurrogateModel(problem, trained_surrogate(problem.layout, trained.network, weights).to(device))
        name = "/".join(run.parts[-6:-1])
        measured[name] = measure(reference, model, solver)
        summary[name] = medians(measured[name], outside, reached)
        if spec.sampling is not None:
            summary[name] |= chains(reference, spec.sampling, model, solver)
    summary = {"solver": medians(measured["solver"], outside, reached)} | summary
    if spec.sampling is not None:
        summary["solver"] |= chains(reference, spec.sampling, None, solver)
    arrays = {f"{name}:{key}": values.numpy() for name, found in measured.items() for key, values in found.items()}
    return {"spec": spec.json_dict(), "reference": reference.content, "cells": summary}, arrays


def _gradients(at: inverse.Linearisation, data: Tensor) -> Tensor:
    """The gradient of each truth's misfit at each of the points, [truths, points, d]."""
    return torch.einsum("pmd,tpm->tpd", at.jacobian, at.y - data[:, None])


def _relative(ours: Tensor, theirs: Tensor) -> Tensor:
    return (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.inverse", description="Solve inverse problems through trained cells of one dataset."
    )
    parser.add_argument("--spec", type=InverseSpec.parse, required=True, help="what is measured, as JSON: sampling")
    parser.add_argument("--code", default="", help="identity of the code, which the record keeps")
    parser.add_argument("--reference", type=Path, required=True, help="manifest of the solver's answers")
    parser.add_argument("--out", type=Path, required=True, help="record to write; all numbers go into .npz beside it")
    parser.add_argument("runs", type=Path, nargs="+", help="records of the trainings; their weights are beside them")
    devices.add_options(parser)
    arguments = parser.parse_args()
    keep_heap()
    device = devices.chosen(arguments)
    try:
        found, arrays = record(arguments.spec, arguments.reference, arguments.runs, device)
    except (stores.StoreError, SolveError, FileNotFoundError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]  # none is called allow_pickle
    stores.write_json(arguments.out, found | {"code": arguments.code})


if __name__ == "__main__":
    main()
    end()
