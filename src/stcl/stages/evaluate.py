"""The stage `evaluate` measures the field error and the Jacobian error of trained cells on the test split.

    python -m stcl.stages.evaluate --data data/test.json --bank banks/test.json runs/…/train.json [runs/…/train.json …]

The mean errors of a cell go into errors.json beside its record, with the standard errors that the draw of the test
inputs leaves in these means. The errors of every sample and direction are kept in errors.npz, so that tables can be
aggregated anew without another training. The cells of one command share the test split, which is read once.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stcl import problems
from stcl.operators.build import trained_surrogate
from stcl.runtime import checkpoint, devices, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.ending import end
from stcl.stages.errors import field_errors, jacobian_errors
from stcl.study.specs.train import TrainSpec


@dataclass(frozen=True)
class HeldOut:
    """The test data and its bank on the device, and the content hashes that the errors name."""

    arrays: dict[str, Tensor]
    contents: dict[str, str]

    @classmethod
    def read(cls, data: Path, bank: Path, device: torch.device) -> "HeldOut":
        arrays = stores.read(data) | stores.read(bank)
        manifests = {"data": data, "bank": bank}
        return cls(
            {name: torch.from_numpy(values).to(device) for name, values in arrays.items()},
            {name: stores.read_manifest(path)["content"] for name, path in manifests.items()},
        )


def evaluate(run: Path, test: HeldOut, device: torch.device) -> None:
    """Writes errors.json with the mean errors, and errors.npz with all of them, beside the record `run`."""
    record = json.loads(run.read_text())
    spec = TrainSpec.model_validate(record["spec"])
    problem = problems.load(spec.problem, **spec.options)
    weights = checkpoint.load_weights(run.with_name("weights.pt"), record)
    surrogate = trained_surrogate(problem.layout, spec.network, weights).to(device)
    a, u, v, w = (test.arrays[name] for name in "auvw")
    field = field_errors(surrogate, a, u).cpu().numpy()
    jacobian = jacobian_errors(surrogate, a, v, w).cpu().numpy()
    np.savez(run.with_name("errors.npz"), field=field, jacobian=jacobian)
    stores.write_json(
        run.with_name("errors.json"),
        {
            "spec": record["spec"],
            "field_error": float(field.mean(dtype=np.float64)),
            "jacobian_error": float(jacobian.mean(dtype=np.float64)),
            "standard_errors": {"field_error": standard_error(field), "jacobian_error": standard_error(jacobian)},
            "best_epoch": record["best_epoch"],
            "weights": record.get("weights"),
            "contents": test.contents,
        },
    )


def standard_error(errors: np.ndarray) -> float | None:
    """The standard error of the mean of `errors`, (samples,) or (samples, directions), as inputs are drawn anew.

    The directions of one input are not independent of each other, so each input counts once, with its mean. A single
    input has no standard error.
    """
    means = errors.reshape(len(errors), -1).mean(axis=1, dtype=np.float64)
    return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.evaluate", description="Measure the test errors of trained cells of one dataset."
    )
    parser.add_argument("--data", type=Path, required=True, help="manifest of the test split")
    parser.add_argument("--bank", type=Path, required=True, help="manifest of the test bank")
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        help="records of the trainings; their weights are beside them, and their errors are written there",
    )
    devices.add_options(parser)
    arguments = parser.parse_args()
    keep_heap()
    device = devices.chosen(arguments)
    try:
        test = HeldOut.read(arguments.data, arguments.bank, device)
        for run in arguments.runs:
            evaluate(run, test, device)
    except (stores.StoreError, FileNotFoundError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
    end()
