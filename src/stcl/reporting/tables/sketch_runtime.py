"""The table `sketch_runtime` shows minutes of one training against the sketch count q."""

import json
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.timing import training_seconds
from stcl.study.names import problem_name

CAPTION = (
    "Minutes of one training against the sketch count q, for {shown} with N = {n_train} on the {grid} x {grid} grid, "
    "and the ratio to training on data alone: measured seconds of an epoch, cells in turn and alone on the machine, "
    "times the epochs of the budget."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` is one record of timing.

    `spec` has the problem, what is loaded for it, n_train, the grid, and q of each block in `variants`.
    """
    ours = {"problem": spec["loaded"], "n_train": spec["n_train"], "grid": spec["grid"]}
    numbers = command.numbers_made_for(published, "sketch_runtime", ours)
    timing = json.loads(inputs[0].read_text())
    minutes = {spec["variants"][block]["q"]: s / 60 for (block, _), s in training_seconds([timing]).items()}
    base = minutes.get(0)
    rows, body = [], []
    for q, value in sorted(minutes.items()):
        ratio = value / base if base else None
        rows.append({"q": q, "minutes": value, "ratio": "" if ratio is None else ratio})
        theirs = numbers.get(q)
        shown = f"{value:.3g}" + (f" [{theirs}]" if theirs is not None else "")
        body.append([str(q), shown, "—" if ratio is None else f"{ratio:.2f}"])
    caption = CAPTION.format(**spec, shown=problem_name(spec["problem"]))
    caption += f" Measured on {timing['device']}, {timing['threads']} thread(s)."
    caption += " In brackets the published minutes, of another machine." if numbers else ""
    return Table(caption, rows, ["q", "Minutes", "Ratio to q = 0"], body)


if __name__ == "__main__":
    command.main("sketch_runtime", build)
