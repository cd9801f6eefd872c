"""The stage `select` chooses the λ of a grid with the lowest validation error, averaged over the tuning seeds.

    python -m stcl.stages.select --out select/diffusion/N128/stcl.json runs/…/train.json …

Training records hold no test error, so the test split cannot influence the choice. A λ with which a training diverged
is not chosen. The file that is written holds the decision, what diverged, and nothing else, so tuning again with the
same outcome makes nothing stale.
"""

import argparse
import json
from collections import defaultdict
from math import inf, log
from pathlib import Path
from statistics import fmean
from typing import Any

from stcl.runtime.stores import write_json


def choose_lambda(records: list[dict]) -> float:
    """The λ with the lowest mean over seeds of the monitored validation error. The smallest of equals is taken.

    Several methods that share one λ count alike, because their errors enter by the geometric mean. The error of a
    training that diverged is infinite, so its λ is left out. It is an error if this leaves none.
    """
    errors: dict[float, dict[tuple[str, int], float]] = defaultdict(dict)
    for record in records:
        spec = record["spec"]
        errors[spec["lam"]][spec["method"], spec["seed"]] = record["monitored"]
    runs = {frozenset(found) for found in errors.values()}
    if len(runs) > 1:
        raise ValueError(f"every λ needs the same seeds, got {[sorted(s) for s in runs]}; train the missing cells")
    left_out = {run["lam"] for run in diverged(records)}
    if left_out == set(errors):
        raise ValueError(
            f"every λ of the grid diverged: {'; '.join(map(_told, diverged(records)))}. Lower the learning rate, or "
            f"take smaller values into lambda_grid"
        )

    def score(found: dict[tuple[str, int], float]) -> float:
        by_method = defaultdict(list)
        for (method, _), error in found.items():
            by_method[method].append(error)
        return fmean(log(mean) if (mean := fmean(values)) > 0 else -inf for values in by_method.values())

    return min(errors.keys() - left_out, key=lambda lam: (score(errors[lam]), lam))


def diverged(records: list[dict]) -> list[dict[str, Any]]:
    """λ, method, seed and epoch of the trainings that diverged, in the order of the records."""
    return [
        {name: record["spec"][name] for name in ("lam", "method", "seed")} | {"epoch": record["diverged"]}
        for record in records
        if record.get("ended") == "diverged"
    ]


def _told(run: dict[str, Any]) -> str:
    return f"λ = {run['lam']:g}, {run['method']}, seed {run['seed']}, in epoch {run['epoch']}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.stages.select", description="Choose a λ by validation error.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+", help="training records of the cells that tune λ")
    arguments = parser.parse_args()
    records = [json.loads(run.read_text()) for run in arguments.runs]
    left_out = diverged(records)
    for run in left_out:
        print(f"diverged: {_told(run)}")
    try:
        lam = choose_lambda(records)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    print(f"chosen: λ = {lam:g}")
    write_json(arguments.out, {"lam": lam} | ({"diverged": left_out} if left_out else {}))


if __name__ == "__main__":
    main()
