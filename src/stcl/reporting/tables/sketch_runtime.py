"""The table `sketch_runtime` shows minutes of one training against the sketch count q."""

import json
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.timing import training_seconds

CAPTION = (
    "Minutes of one training against the sketch count q on the {grid} x {grid} grid, and the ratio to training on data "
    "alone: measured seconds of an epoch, cells in turn and alone on the machine, times the epochs of the budget."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` is one record of timing. `spec` has the grid, and q of each block in `variants`."""
    timing = json.loads(inputs[0].read_text())
    minutes = {spec["variants"][block]["q"]: s / 60 for (block, _), s in training_seconds([timing]).items()}
    base = minutes.get(0)
    rows, body = [], []
    for q, value in sorted(minutes.items()):
        ratio = value / base if base else None
        rows.append({"q": q, "minutes": value, "ratio": "" if ratio is None else ratio})
        theirs = published["sketch_runtime"].get(q) if published else None
        shown = f"{value:.3g}" + (f" [{theirs}]" if theirs is not None else "")
        body.append([str(q), shown, "—" if ratio is None else f"{ratio:.2f}"])
    caption = CAPTION.format(**spec) + f" Measured on {timing['device']}, {timing['threads']} thread(s)."
    caption += " In brackets the published minutes, of another machine." if published else ""
    return Table(caption, rows, ["q", "Minutes", "Ratio to q = 0"], body)


if __name__ == "__main__":
    command.main("sketch_runtime", build)
