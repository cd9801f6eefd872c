"""This module scales measured seconds of an epoch to whole trainings."""

from statistics import fmean
from typing import Any

from stcl.study.cells import Cell


def training_seconds(
    timings: list[dict[str, Any]], trainings: dict[Cell, dict[str, Any]] | None = None
) -> dict[tuple[str, str], float]:
    """The seconds of a training of each (block, method), from records of the stage `timing`.

    They are those of the full budget. Where records of `trainings` are given, they are those of the epochs that were
    run, as a mean over seeds.
    """
    found = {}
    for timing in timings:
        for path, measured in timing["cells"].items():
            cell = Cell.parse(path)
            run = [record["epochs"] for one, record in (trainings or {}).items() if timed(one) == timed(cell)]
            found[cell.block, cell.method] = measured["epoch_seconds"] * (fmean(run) if run else measured["epochs"])
    return found


def timed(cell: Cell) -> tuple[str, int, str]:
    """What the time of a cell depends on. Cells are timed with one λ and one seed."""
    return cell.block, cell.n_train, cell.method


def timed_sizes(timings: list[dict[str, Any]]) -> dict[str, int]:
    """The N of the timed cells of each block, in the order of the records."""
    cells = [Cell.parse(path) for timing in timings for path in timing["cells"]]
    return {cell.block: cell.n_train for cell in cells}
