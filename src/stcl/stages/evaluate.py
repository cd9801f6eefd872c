"""The stage `evaluate` measures the field error and the Jacobian error of a trained cell on the test split.

    python -m stcl.stages.evaluate --run runs/…/train.json --data data/test.json --bank banks/test.json \
        --out runs/…/errors.json

The errors of every sample and direction are kept in errors.npz, so that tables can be aggregated anew without another
training.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from stcl import problems
from stcl.operators.build import build_surrogate
from stcl.runtime import checkpoint, devices, stores
from stcl.runtime.allocator import keep_heap
from stcl.stages.errors import field_errors, jacobian_errors
from stcl.study.specs.train import TrainSpec


def evaluate(run: Path, data: Path, bank: Path, out: Path, device: torch.device) -> None:
    """Writes the mean errors to `out` and all of them to errors.npz beside it."""
    record = json.loads(run.read_text())
    spec = TrainSpec.model_validate(record["spec"])
    problem = problems.load(spec.problem, **spec.options)
    surrogate = build_surrogate(problem.layout, spec.network)
    surrogate.load_state_dict(checkpoint.load(run.with_name("weights.pt")))
    surrogate.to(device)
    arrays = {name: torch.from_numpy(v).to(device) for name, v in (stores.read(data) | stores.read(bank)).items()}
    field = field_errors(surrogate, arrays["a"], arrays["u"]).cpu().numpy()
    jacobian = jacobian_errors(surrogate, arrays["a"], arrays["v"], arrays["w"]).cpu().numpy()
    np.savez(out.with_name("errors.npz"), field=field, jacobian=jacobian)
    stores.write_json(
        out,
        {
            "spec": record["spec"],
            "field_error": float(field.mean(dtype=np.float64)),
            "jacobian_error": float(jacobian.mean(dtype=np.float64)),
            "best_epoch": record["best_epoch"],
            "contents": {
                name: stores.read_manifest(path)["content"] for name, path in (("data", data), ("bank", bank))
            },
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.evaluate", description="Measure the test errors of one trained cell."
    )
    parser.add_argument("--run", type=Path, required=True, help="record of the training; its weights are beside it")
    parser.add_argument("--data", type=Path, required=True, help="manifest of the test split")
    parser.add_argument("--bank", type=Path, required=True, help="manifest of the test bank")
    parser.add_argument(
        "--out", type=Path, required=True, help="file of mean errors to write; errors.npz is written beside it"
    )
    devices.add_options(parser)
    arguments = parser.parse_args()
    keep_heap()
    device = devices.chosen(arguments)
    try:
        evaluate(arguments.run, arguments.data, arguments.bank, arguments.out, device)
    except (stores.StoreError, FileNotFoundError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
