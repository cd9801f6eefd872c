"""Records outlive the machine on which trainings ran: records/<preset>/<cell> in the repository.

    stcl records results/paper-small

This writes what has been trained and evaluated there, and reads all records of the study again. A record is the folder
of a run without its weights: train.json, errors.json, and the history in at most `ROWS` rows, some kilobytes together.
"""

import csv
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from stcl.reporting.runs import read_history
from stcl.study.cells import Cell
from stcl.study.plan import Plan

FOLDER = Path("records")
ROWS = 250  # of a stored history
LAST = ("epoch", "learning_rate", "best", "seconds")  # columns of which a row holds the last value; others are means


class RecordError(ValueError):
    """A record that does not fit its study, its own errors or other records."""


def write(results: Path, records: Path = FOLDER) -> list[Path]:
    """Writes a record of every evaluated run below `results` (results/<preset>), and gives their folders."""
    written = []
    for errors in sorted(results.glob("runs/*/*/*/*/*/errors.json")):
        run = errors.parent
        if not (run / "train.json").exists():
            continue
        record = records / results.name / run.relative_to(results / "runs")
        record.mkdir(parents=True, exist_ok=True)
        for name in ("train.json", "errors.json"):
            shutil.copyfile(run / name, record / name)
        _write_history(record / "history.csv", thinned(read_history(run / "history.csv")))
        written.append(record)
    return written


def thinned(history: list[dict[str, float]], rows: int = ROWS) -> list[dict[str, float]]:
    """A history in at most `rows` rows: means over equal numbers of epochs, which the column `epochs` counts."""
    width = -(-len(history) // rows)
    return [_merged(history[i : i + width]) for i in range(0, len(history), width)]


def _merged(rows: list[dict[str, float]]) -> dict[str, float]:
    merged = {name: rows[-1][name] if name in LAST else _mean(row[name] for row in rows) for name in rows[0]}
    return merged | {"epochs": len(rows)}


def _mean(values: Iterable[float]) -> float:
    """The mean of those that are numbers."""
    known = [value for value in values if value == value]
    return fmean(known) if known else float("nan")


def _write_history(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            short = {name: "" if value != value else f"{value:.6g}" for name, value in row.items()}
            writer.writerow(short)


def check(plan: Plan, records: Path = FOLDER) -> list[Path]:
    """The records of a study, after a look at each: it has the spec of its cell, and was tested on the data of others.

    Records of cells that the study does not have are wrong, too: they belong to settings that it no longer has.
    """
    folder = records / plan.config.preset
    found = sorted(path.parent for path in folder.glob("*/*/*/*/*/train.json"))
    data: dict[tuple[str, str], tuple[str, Path]] = {}
    for record in found:
        path = record.relative_to(folder).as_posix()
        cell = plan.cells.get(path)
        if cell is None:
            raise RecordError(f"{record}: the study {plan.config.preset} has no cell {path}; remove the record")
        train, errors = (json.loads((record / name).read_text()) for name in ("train.json", "errors.json"))
        _compare_specs(plan, cell, record, train, errors)
        dataset = plan.blocks[cell.block].dataset
        for name, content in _contents(train, errors):
            known, where = data.setdefault((dataset, name), (content, record))
            if known != content:
                raise RecordError(f"{record}: its {name} of {dataset} is {content}, that of {where} is {known}")
    return found


def _compare_specs(plan: Plan, cell: Cell, record: Path, train: dict[str, Any], errors: dict[str, Any]) -> None:
    if train["spec"] != errors["spec"]:
        raise RecordError(f"{record}: train.json and errors.json are of different trainings")
    expected = plan.train_spec(cell).json_dict()
    if expected["lam"] is None:  # it was chosen by validation, and the record says which one it was
        expected["lam"] = train["spec"]["lam"]
    differing = sorted(key for key in expected | train["spec"] if expected.get(key) != train["spec"].get(key))
    if differing:
        raise RecordError(
            f"{record}: made with other settings than the study has now ({', '.join(differing)}); train the cell again "
            f"and write its record, or remove it"
        )


def _contents(train: dict[str, Any], errors: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The hashes of all data that the cell has seen, under names that tell them apart."""
    for name, content in train["contents"].items():
        # The first N samples of a split are hashed with the whole split, so that all N agree.
        yield f"{name} split" if name in ("train", "val") else f"{name} for training", content
    for name, content in errors["contents"].items():
        yield f"test {name}", content
