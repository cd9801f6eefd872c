"""The tables `sketch_resolution` and `gradient_variance` show the effect of the sketch count q on several grids."""

from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from stcl.reporting.runs import Run, read_runs
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import MARKS, Estimate, estimate, percent
from stcl.reporting.tables.render import Table

CAPTIONS = {
    "sketch_resolution": "Test errors in percent against the sketch count q and the resolution, mean ± sample standard "
    "deviation over training seeds; q = 0 is training on data alone.",
    "gradient_variance": "Trace of the covariance of the gradient over the updates of an epoch, before clipping, mean "
    "over epochs from {first_epoch} on, then mean ± sample standard deviation over training seeds: of the sTCL loss "
    "itself (raw), of its weighted part of the objective, and of the whole objective. q = 0 is training on data alone.",
}
QUANTITIES = {
    "sketch_resolution": {"field_error": "field", "jacobian_error": "Jacobian"},
    "gradient_variance": {"raw": "raw", "weighted": "weighted", "total": "total"},
}


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`spec` has table, first_epoch, and grid and q of each block in `variants`."""
    table, variants = spec["table"], spec["variants"]

    def measured(runs: list[Run], quantity: str) -> Estimate:
        if table == "sketch_resolution":
            return percent(runs, quantity)
        return estimate(runs, lambda run: _variance(run, quantity, spec["first_epoch"]))

    entries = {}
    for block, grouped in groupby(read_runs(inputs), lambda run: run.cell.block):
        members = list(grouped)
        for quantity in QUANTITIES[table]:
            entries[variants[block]["grid"], variants[block]["q"], quantity] = measured(members, quantity)

    def text(grid: int, q: int, quantity: str) -> str:
        if q == 0 and quantity in ("raw", "weighted"):
            return "—"
        theirs = published[table].get(grid, {}).get(q, {}).get(quantity) if published else None
        return entries[grid, q, quantity].text(theirs)

    rows = [{"grid": g, "q": q, "quantity": name} | entry.columns() for (g, q, name), entry in entries.items()]
    grids, counts = (sorted({variant[key] for variant in variants.values()}) for key in ("grid", "q"))
    names = QUANTITIES[table]
    header = ["q", *(f"{grid}², {name}" for grid in grids for name in names.values())]
    body = [[str(q), *(text(grid, q, name) for grid in grids for name in names)] for q in counts]
    caption = CAPTIONS[table].format(**spec) + (f" {MARKS}" if published else "")
    return Table(caption, rows, header, body)


def _variance(run: Run, part: str, first_epoch: int) -> float:
    return fmean(row[f"variance_{part}"] for row in run.history() if row["epoch"] >= first_epoch)


if __name__ == "__main__":
    command.main("sketch", build)
