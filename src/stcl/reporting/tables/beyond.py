"""The table `beyond` sets sTCL without labels beside what more labelled samples would do in the same time."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from statistics import fmean, linear_regression
from typing import Any

from stcl.reporting.costs import Cost, store_cost
from stcl.reporting.runs import Run, records_among, runs_among
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import ERRORS, Estimate, percent, shown_lambda
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.timing import timed
from stcl.study.cells import Cell
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "Beyond the labels: the problem's three methods and other losses of sTCL with N labelled samples, then data alone "
    "and stored tangents with more of them. Test errors in percent, mean ± sample standard deviation over training "
    "seeds. Seconds: the labels, and then one training (measured seconds of an epoch, all in turn and alone on the "
    "machine, times the epochs that were run). Labels are the responses of training and validation samples and, for "
    "offline DI, the stored tangents. Solves: one for each response and one, linearised, for each stored tangent. "
    "Storage: training and validation pairs and stored tangents. Targets: tangents and corrected values that were "
    "solved for while training and thrown away; their time is part of the training's. Same time: the N at which FNO / "
    "offline DI would take as many seconds, linear in N through those that were timed."
)
HEADER = ["Problem", "Method", "N", "λ", "Field error", "Jacobian error", "Seconds", "of them labels"]
HEADER += ["Solves", "Storage, GB", "Targets", "Same time"]
CONTROLS = ("fno", "offline_di")  # what more labelled samples are given to


@dataclass(frozen=True, eq=False)
class Row:
    """What is known of the runs of one block, N and method. A cost that was not measured is not a number."""

    problem: str
    cell: Cell
    loss: str  # the name of a loss of sTCL, empty for the problem's own methods
    errors: dict[str, Estimate]
    labels: Cost
    training: float  # seconds
    targets: float
    lam: str

    @property
    def seconds(self) -> float:
        return self.labels.seconds + self.training

    @property
    def name(self) -> str:
        """The method in words, with the name of its loss."""
        return METHOD_NAMES[self.cell.method] + (f", {self.loss.replace('_', ' ')}" if self.loss else "")


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """The table has a line for each block, N and method. Nothing is published to stand beside."""
    rows = read(spec, inputs)
    sizes = {row: same_time(rows, row) for row in rows if row.cell.method == "stcl"}
    tidy = [_tidy(row, quantity, sizes.get(row, {})) for row in rows for quantity in ERRORS]
    return Table(CAPTION, tidy, HEADER, [_shown(row, sizes.get(row, {})) for row in rows])


def read(spec: dict[str, Any], inputs: list[Path]) -> list[Row]:
    """`inputs` are runs, records of timing, and ledgers of data and train banks.

    `spec["problems"]` has the dataset of each problem, and `spec["cells"]` the problem and loss of each path without
    its seed.
    """
    records = records_among(inputs)
    seconds = _epoch_seconds(record for record in records.values() if "cells" in record)
    ledgers = {
        (path.parts[-3], path.parts[-2], path.name.partition(".")[0]): record
        for path, record in records.items()
        if "cells" not in record
    }
    found = []
    for key, grouped in groupby(runs_among(inputs), _without_seed):
        runs, (problem, loss) = list(grouped), spec["cells"][key]
        found.append(_row(runs, problem, loss, spec["problems"][problem], ledgers, seconds))
    return found


def _without_seed(run: Run) -> str:
    return run.cell.path.rpartition("/")[0]


def _epoch_seconds(timings: Iterable[dict[str, Any]]) -> dict[Any, float]:
    cells = [(Cell.parse(path), measured) for timing in timings for path, measured in timing["cells"].items()]
    return {timed(cell): measured["epoch_seconds"] for cell, measured in cells}


def _row(runs: list[Run], problem: str, loss: str, dataset: str, ledgers: dict[Any, Any], seconds: Any) -> Row:
    cell, done = runs[0].cell, [run for run in runs if run.status == "done"]
    epochs = fmean(run.epochs for run in done) if done else nan
    targets = [sum(run.record.get("ledger", {}).get(name, 0) for name in ("targets", "corrections")) for run in done]
    return Row(
        problem,
        cell,
        loss,
        {quantity: percent(runs, quantity) for quantity in ERRORS},
        label_cost(ledgers, dataset, cell),
        epochs * seconds.get(timed(cell), nan),
        fmean(targets) if targets else nan,
        shown_lambda(runs),
    )


def label_cost(ledgers: dict[tuple[str, str, str], dict[str, Any]], dataset: str, cell: Cell) -> Cost:
    """What the labelled samples of a cell cost: N training pairs, all validation pairs, tangents for offline DI."""
    needed: list[tuple[str, str, int | None]] = [("data", "train", cell.n_train), ("data", "val", None)]
    if cell.method == "offline_di":
        needed.append(("banks", "train", cell.n_train))
    total = Cost(0, 0, 0)
    for kind, split, samples in needed:
        ledger = ledgers.get((kind, dataset, split))
        total += store_cost(ledger, samples) if ledger else Cost(nan, nan, nan)
    return total


def same_time(rows: list[Row], row: Row) -> dict[str, float]:
    """The N at which data alone and stored tangents would take the seconds of a row of the same problem.

    Their seconds are taken to be linear in N, as labels and updates are. Without two timed N there is no such number.
    """
    found = {}
    for method in CONTROLS:
        control = [r for r in rows if (r.problem, r.cell.method) == (row.problem, method) and r.seconds > 0]
        if len(control) > 1 and row.seconds > 0:
            slope, start = linear_regression([r.cell.n_train for r in control], [r.seconds for r in control])
            found[method] = max(0.0, (row.seconds - start) / slope)
    return found


def _tidy(row: Row, quantity: str, sizes: dict[str, float]) -> dict[str, Any]:
    return {
        "problem": row.problem,
        "method": row.cell.method,
        "loss": row.loss,
        "n_train": row.cell.n_train,
        "lambda": row.lam,
        "quantity": quantity,
        **row.errors[quantity].columns(),
        "seconds": _blank(row.seconds),
        "label_seconds": _blank(row.labels.seconds),
        "solves": _blank(row.labels.solves),
        "gigabytes": _blank(row.labels.gigabytes),
        "targets": _blank(row.targets),
        **{f"{method}_size": sizes.get(method, "") for method in CONTROLS},
    }


def _shown(row: Row, sizes: dict[str, float]) -> list[str]:
    return [
        problem_name(row.problem),
        row.name,
        str(row.cell.n_train),
        row.lam or "—",
        *(estimate.text() for estimate in row.errors.values()),
        _text(row.seconds, ".3g"),
        _text(row.labels.seconds, ".3g"),
        _text(row.labels.solves, ".0f"),
        _text(row.labels.gigabytes, ".3g"),
        _text(row.targets, ".0f"),
        " / ".join(_text(sizes.get(method, nan), ".0f") for method in CONTROLS) if sizes else "—",
    ]


def _blank(value: float) -> float | str:
    return "" if isnan(value) else value


def _text(value: float, how: str) -> str:
    if isnan(value):
        return "—"
    return f"{value:.0f}" if value >= 1000 else f"{value:{how}}"


if __name__ == "__main__":
    command.main("beyond", build)
