"""This module scales measured seconds of an epoch to whole trainings."""

from typing import Any

from stcl.study.cells import Cell


def training_seconds(timings: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """The seconds of the full budget of each (block, method), from records of the stage `timing`."""
    found = {}
    for timing in timings:
        for path, measured in timing["cells"].items():
            cell = Cell.parse(path)
            found[cell.block, cell.method] = measured["epoch_seconds"] * measured["epochs"]
    return found


def timed_sizes(timings: list[dict[str, Any]]) -> dict[str, int]:
    """The N of the timed cells of each block, in the order of the records."""
    cells = [Cell.parse(path) for timing in timings for path in timing["cells"]]
    return {cell.block: cell.n_train for cell in cells}
