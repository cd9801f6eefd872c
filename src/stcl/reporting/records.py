"""Records outlive the machine on which trainings ran: records/<preset>/<cell> in the repository.

    stcl records results/paper-small

This writes what the study has trained and evaluated there, and reads all its records again. A record is the folder
of a run without its weights: train.json, errors.json, and the history in at most `ROWS` rows, some kilobytes together.
Beside the cells are the ledgers of data and banks, which say what was solved and stored.

A record says by which version it was trained. It has no seconds, because nothing tells how busy the machine was. With
`--times`, what the stage `timing` measured is kept, and what data and banks took.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from stcl.core.evaluated import measured_for
from stcl.reporting.runs import is_evaluated, read_history
from stcl.study.cells import Cell
from stcl.study.plan import Plan
from stcl.study.schema import Methods
from stcl.study.specs.train import TrainSpec

FOLDER = Path("records")
ROWS = 250  # of a stored history
LAST = ("epoch", "learning_rate", "best")  # columns of which a row holds the last value; others are means
TIMES = ("seconds", "check_seconds")  # what was measured by a clock


class RecordError(ValueError):
    """A record that does not fit its study, its own errors or other records."""


def write(
    plan: Plan, results: Path, records: Path = FOLDER, version: str | None = None, times: bool = False
) -> list[Path]:
    """Writes a record of every evaluated run of the study below `results` (results/<preset>), and gives their folders.

    `version` takes the place of the one in train.json: between two releases, a commit says more. Seconds of
    the stage `timing`, of data and of banks are kept with `times` alone, those of trainings never.
    """
    kept, written = records / results.name, []
    for run, reason in _runs(plan, results):
        if reason:
            continue
        record = kept / run.relative_to(results / "runs")
        train = _read(run / "train.json")
        if version is None and "version" not in train:
            raise RecordError(f"{run / 'train.json'} does not say which version made it; give it with --version")
        _write(record / "train.json", train if version is None else train | {"version": version})
        _write(record / "errors.json", _read(run / "errors.json"))
        _write_history(record / "history.csv", thinned(read_history(run / "history.csv")))
        written.append(record)
    beside = ("data/*/*.ledger.json", "banks/*/*.ledger.json", *(("timing/*.json",) if times else ()))
    for pattern in beside:
        for path in sorted(results.glob(pattern)):
            record, content = kept / path.relative_to(results), _read(path)
            if times or not _says_all_of(record, content):
                _write(record, content, times)
    return written


def left_out(plan: Plan, results: Path) -> list[str]:
    """The runs below `results` that `write` leaves out, each with the reason."""
    return [f"{run}: {reason}" for run, reason in _runs(plan, results) if reason]


def _runs(plan: Plan, results: Path) -> Iterator[tuple[Path, str]]:
    """The folders of all runs with errors, each with the reason why it has no record. It is empty for those that do."""
    known = {seedless(cell) for cell in plan.cells.values()}
    for path in sorted(results.glob("runs/*/*/*/*/*/errors.json")):
        run = path.parent
        cell = Cell.parse(run.relative_to(results / "runs").as_posix())
        if seedless(cell) not in known:
            yield run, f"the study {plan.config.preset} has no such cell"
        elif not is_evaluated(run):
            yield run, "its errors do not belong to the training that is there; run snakemake again"
        else:
            yield run, ""


def _says_all_of(record: Path, ledger: dict[str, Any]) -> bool:
    """Whether a recorded ledger is of the same spec and has times, which are not to be lost for one without them."""
    known = _read(record) if record.exists() else {}
    return known.get("spec") == ledger["spec"] and "seconds" in known


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def _write(path: Path, content: dict[str, Any], times: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in content.items() if times or name not in TIMES}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def thinned(history: list[dict[str, float]], rows: int = ROWS) -> list[dict[str, float]]:
    """A history in at most `rows` rows: means over equal numbers of epochs, which the column `epochs` counts."""
    width = -(-len(history) // rows)
    return [_merged(history[i : i + width]) for i in range(0, len(history), width)]


def _merged(rows: list[dict[str, float]]) -> dict[str, float]:
    merged = {name: rows[-1][name] if name in LAST else _mean(row[name] for row in rows) for name in rows[0]}
    return merged | {"epochs": sum(row["epochs"] for row in rows)}


def _mean(values: Iterable[float]) -> float:
    """The mean of those that are numbers."""
    known = [value for value in values if value == value]
    return fmean(known) if known else float("nan")


def _write_history(path: Path, rows: list[dict[str, float]]) -> None:
    columns = [name for name in rows[0] if name not in TIMES]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            short = {name: "" if value != value else f"{value:.6g}" for name, value in row.items()}
            writer.writerow(short)


def check(plan: Plan, records: Path = FOLDER) -> list[Path]:
    """The records of a study, after a look at each: it has the spec of its cell, and was tested on the data of others.

    Records of cells that the study does not have are wrong, too: they belong to settings that it no longer has. More
    seeds than the study has are welcome.
    """
    folder = records / plan.config.preset
    found = folders(folder)
    known_cells = {seedless(cell) for cell in plan.cells.values()}
    data: dict[tuple[str, str], tuple[str, Path]] = {}
    for record in found:
        path = record.relative_to(folder).as_posix()
        cell = Cell.parse(path)
        if seedless(cell) not in known_cells:
            raise RecordError(f"{record}: the study {plan.config.preset} has no cell {path}; remove the record")
        train, errors = (_read(record / name) for name in ("train.json", "errors.json"))
        if not isinstance(train.get("version"), str):
            raise RecordError(f"{record}: it does not say which version made it; write it again with --version")
        _compare_specs(plan, cell, record, train, errors)
        dataset = plan.blocks[cell.block].dataset
        for name, content in _contents(train, errors):
            known, where = data.setdefault((dataset, name), (content, record))
            if known != content:
                raise RecordError(f"{record}: its {name} of {dataset} is {content}, that of {where} is {known}")
    return found


def folders(kept: Path) -> list[Path]:
    """The folders of all cells in `kept` (records/<preset>)."""
    return sorted(path.parent for path in kept.glob("*/*/*/*/*/train.json"))


def seedless(cell: Cell) -> Cell:
    """What all seeds of a cell have in common."""
    return replace(cell, seed=0)


def _compare_specs(plan: Plan, cell: Cell, record: Path, train: dict[str, Any], errors: dict[str, Any]) -> None:
    if not measured_for(train, errors):
        raise RecordError(f"{record}: train.json and errors.json are of different trainings")
    expected, found = plan.train_spec(cell).json_dict(), _completed(train["spec"], record)
    if expected["lam"] is None:  # it was chosen by validation, and the record says which one it was
        expected["lam"] = found["lam"]
    differing = sorted(key for key in expected | found if expected.get(key) != found.get(key))
    if differing:
        raise RecordError(
            f"{record}: made with other settings than the study has now ({', '.join(differing)}); train the cell again "
            f"and write its record, or remove it"
        )


def _completed(spec: dict[str, Any], record: Path) -> dict[str, Any]:
    """The spec of a record in today's words: a key that is newer than the record has its default."""
    try:
        method = Methods.model_validate({spec["method"]: spec["settings"]})
        settings = getattr(method, spec["method"]).model_dump(mode="json", exclude={"lam", "lambda_grid"})
        return TrainSpec.model_validate(spec | {"settings": settings}).json_dict()
    except ValidationError as error:
        raise RecordError(f"{record}: made with settings that there are no more, remove it: {error}") from error


def _contents(train: dict[str, Any], errors: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The hashes of all data that the cell has seen, under names that tell them apart."""
    for name, content in train["contents"].items():
        # The first N samples of a split are hashed with the whole split, so that all N agree.
        yield f"{name} split" if name in ("train", "val") else f"{name} for training", content
    for name, content in errors["contents"].items():
        yield f"test {name}", content
