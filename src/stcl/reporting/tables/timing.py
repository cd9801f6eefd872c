"""Seconds of whole trainings, from measured seconds of an epoch."""

from typing import Any


def training_seconds(timings: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Seconds of the full budget by (block, method), from records of the stage `timing`."""
    found = {}
    for timing in timings:
        for path, cell in timing["cells"].items():
            block, _, method, *_ = path.split("/")
            found[block, method] = cell["epoch_seconds"] * cell["epochs"]
    return found


def timed_sizes(timings: list[dict[str, Any]]) -> dict[str, int]:
    """N of the timed cells by block, in the order of the records."""
    paths = [path.split("/") for timing in timings for path in timing["cells"]]
    return {block: int(size.removeprefix("N")) for block, size, *_ in paths}
