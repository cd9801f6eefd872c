"""This module writes every cell of a problem to one tidy file, a row a training.

python -m stcl.reporting.tables.by_problem --out tables/by_problem/diffusion.csv runs/…/seed0 …
"""

import argparse
import csv
from pathlib import Path
from typing import Any

from stcl.reporting.runs import Run, read_runs

COLUMNS = (
    "block",
    "n_train",
    "method",
    "seed",
    "status",
    "lam",
    "epochs",
    "ended",
    "best_epoch",
    "val_mse",
    "val_relative",
    "field_error",
    "jacobian_error",
    "seconds",
    "device",
    "torch",
    "code",
    "data",
    "bank",
)


def row(run: Run) -> dict[str, Any]:
    """The row of a run.

    Errors are fractions, as measured. Epochs are those that were run. Seconds are as they passed, whatever else the
    machine did. The columns data and bank are the hashes of what was trained on.
    """
    cell = run.cell
    found: dict[str, Any] = {"block": cell.block, "n_train": cell.n_train, "method": cell.method, "seed": cell.seed}
    found["status"] = run.status
    if run.status == "done":
        spec, contents = run.record["spec"], run.record["contents"]
        found |= spec | run.record | run.errors | {"epochs": run.epochs}
        found |= {"data": contents["train"], "bank": contents.get("bank", "")}
    return {column: found.get(column, "") for column in COLUMNS}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.reporting.tables.by_problem", description="All cells of a problem."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    arguments = parser.parse_args()
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(row(run) for run in read_runs(arguments.runs))


if __name__ == "__main__":
    main()
