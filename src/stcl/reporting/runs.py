"""This module reads what a training and its evaluation left, or that they left nothing."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stcl.core.evaluated import measured_for
from stcl.reporting import endings
from stcl.study.cells import Cell


@dataclass(frozen=True)
class Run:
    """A cell with what its folder holds. Record and errors are empty unless `status` is "done"."""

    folder: Path
    cell: Cell
    status: str  # "done", "failed" (the log ends with an error) or "missing" (not run, running, stopped, not evaluated)
    record: dict[str, Any]
    errors: dict[str, Any]

    @property
    def epochs(self) -> int:
        """The number of epochs that were run. A record that does not say it is of a training that had all of them."""
        return self.record.get("epochs", self.record["spec"]["training"]["epochs"])

    @property
    def ended_early(self) -> bool:
        """Whether the training ended before its budget, because no better checkpoint came any more."""
        return self.record.get("ended") == "early"

    @property
    def is_record(self) -> bool:
        """Whether the folder is that of a record, which has neither weights nor times."""
        return self.folder.parents[5].name == "records"

    def history(self) -> list[dict[str, float]]:
        """The history of the training, a row for every epoch, or for every few of them if it is a record."""
        return read_history(self.folder / "history.csv")


def read_history(path: Path) -> list[dict[str, float]]:
    """The rows of a history.csv. What was not recorded in an epoch is not a number.

    A row ends with the epoch `epoch` and is a mean over `epochs` epochs, which is one unless the history is thinned.
    """
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        return [{"epochs": 1.0} | {name: float(value or "nan") for name, value in row.items()} for row in rows]


def epochs_between(row: dict[str, float], first: float, last: float) -> float:
    """How many of the epochs that a row of a history stands for are between two epochs, both included."""
    return max(0.0, min(row["epoch"], last) - max(row["epoch"] - row["epochs"] + 1, first) + 1)


def read_runs(folders: list[Path]) -> list[Run]:
    """The runs of the given folders `…/runs/<path of a cell>`, whether or not they are there."""
    return [_read(folder) for folder in folders]


def runs_among(inputs: list[Path]) -> list[Run]:
    """The runs among the inputs of a table. The other inputs are JSON files."""
    return read_runs([path for path in inputs if path.suffix != ".json"])


def records_among(inputs: list[Path]) -> dict[Path, dict[str, Any]]:
    """The JSON files among the inputs of a table that are there, with what they hold."""
    return {path: json.loads(path.read_text()) for path in inputs if path.suffix == ".json" and path.exists()}


def is_evaluated(folder: Path) -> bool:
    """Whether the folder has a training and the errors that were measured for it, not for an earlier one."""
    return _evaluated(folder) is not None


def _evaluated(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The record of a training and its errors."""
    record, errors = (_content(folder / name) for name in ("train.json", "errors.json"))
    if record is None or errors is None or not measured_for(record, errors):
        return None
    return record, errors


def _read(folder: Path) -> Run:
    cell = Cell.parse("/".join(folder.parts[-5:]))
    results = folder.parents[5]
    found = _evaluated(folder)
    if found is not None:
        return Run(folder, cell, "done", *found)
    # An evaluation has a log of the cell, or one of all cells of the block.
    logs = [f"train/{cell.path}", f"evaluate/{cell.path}", f"evaluate/{cell.block}"]
    failed = any(endings.failed(endings.last_lines(results / f"logs/{log}.log")) for log in logs)
    return Run(folder, cell, "failed" if failed else "missing", {}, {})


def _content(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None
