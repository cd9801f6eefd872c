"""The stage `select` chooses the λ of a grid with the lowest validation error, averaged over the tuning seeds.

    python -m stcl.stages.select --out select/diffusion/N128/stcl.json runs/…/train.json …

Training records hold no test error, so the test split cannot influence the choice. The file that is written holds the
decision alone, so tuning again with the same outcome makes nothing stale.
"""

import argparse
import json
from collections import defaultdict
from math import inf, log
from pathlib import Path
from statistics import fmean

from stcl.runtime.stores import write_json


def choose_lambda(records: list[dict]) -> float:
    """The λ with the lowest mean over seeds of the monitored validation error. The smallest of equals is taken.

    Several methods that share one λ count alike, because their errors enter by the geometric mean.
    """
    errors: dict[float, dict[tuple[str, int], float]] = defaultdict(dict)
    for record in records:
        spec = record["spec"]
        errors[spec["lam"]][spec["method"], spec["seed"]] = record["monitored"]
    runs = {frozenset(found) for found in errors.values()}
    if len(runs) > 1:
        raise ValueError(f"every λ needs the same seeds, got {[sorted(s) for s in runs]}; train the missing cells")

    def score(found: dict[tuple[str, int], float]) -> float:
        by_method = defaultdict(list)
        for (method, _), error in found.items():
            by_method[method].append(error)
        return fmean(log(mean) if (mean := fmean(values)) > 0 else -inf for values in by_method.values())

    return min(errors, key=lambda lam: (score(errors[lam]), lam))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.stages.select", description="Choose a λ by validation error.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+", help="training records of the cells that tune λ")
    arguments = parser.parse_args()
    write_json(arguments.out, {"lam": choose_lambda([json.loads(run.read_text()) for run in arguments.runs])})


if __name__ == "__main__":
    main()
