"""Stage `select`: the λ of a grid with the lowest validation error, averaged over the tuning seeds.

    python -m stcl.select --out select/diffusion/N128/stcl.json runs/…/train.json …

Training records hold no test error, so the test split cannot influence the choice. The file holds the decision alone:
tuning again with the same outcome makes nothing stale.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from stcl.stores import write_json


def choose(records: list[dict]) -> float:
    """λ with the lowest mean of the monitored validation error; of equals, the smallest."""
    errors: dict[float, dict[int, float]] = defaultdict(dict)
    for record in records:
        errors[record["spec"]["lam"]][record["spec"]["seed"]] = record["monitored"]
    seeds = {frozenset(found) for found in errors.values()}
    if len(seeds) > 1:
        raise ValueError(f"every λ needs the same seeds, got {[sorted(s) for s in seeds]}; train the missing cells")
    return min(errors, key=lambda lam: (fmean(errors[lam].values()), lam))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.select", description="Choose a λ by validation error.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+", help="records of the tuning cells")
    arguments = parser.parse_args()
    write_json(arguments.out, {"lam": choose([json.loads(run.read_text()) for run in arguments.runs])})


if __name__ == "__main__":
    main()
