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
