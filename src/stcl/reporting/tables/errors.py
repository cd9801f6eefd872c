"""The tables `field_error` and `jacobian_error` show test errors of every problem, training size and method."""

from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.runs import Run, read_runs
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import MARKS, percent
from stcl.reporting.tables.render import Table
from stcl.study.names import METHOD_NAMES, problem_name

CAPTIONS = {
    "field_error": "Relative error of the response on the test split, in percent: mean over samples, then mean ± "
    "sample standard deviation over training seeds. Checkpoint with the lowest validation error. Lower is better.",
    "jacobian_error": "Relative error of Jacobian-vector products on the test split, in percent: mean over samples and "
    "directions, then mean ± sample standard deviation over training seeds. Checkpoint with the lowest validation "
    "error. Lower is better.",
}


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """The table holds test errors in percent, and `spec["table"]` says which."""
    quantity = spec["table"]
    entries = {key: percent(list(runs), quantity) for key, runs in groupby(read_runs(inputs), _key)}
    rows = [
        {"problem": problem, "n_train": n, "method": method} | entry.columns()
        for (problem, n, method), entry in entries.items()
    ]
    methods = [m for m in METHOD_NAMES if any(row["method"] == m for row in rows)]

    def text(problem: str, n: int, method: str) -> str:
        if (problem, n, method) not in entries:
            return "—"
        theirs = published[quantity].get(problem, {}).get(n, {}).get(method) if published else None
        return entries[problem, n, method].text(theirs)

    lines = dict.fromkeys((problem, n) for problem, n, _ in entries)
    body = [[problem_name(p), str(n), *(text(p, n, m) for m in methods)] for p, n in lines]
    caption = CAPTIONS[quantity] + (f" {MARKS}" if published else "")
    return Table(caption, rows, ["Problem", "N", *(METHOD_NAMES[m] for m in methods)], body)


def _key(run: Run) -> tuple[str, int, str]:
    return run.cell.block, run.cell.n_train, run.cell.method


if __name__ == "__main__":
    command.main("errors", build)
