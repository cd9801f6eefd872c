"""The tables `sketch_resolution` and `gradient_variance` show the effect of the sketch count q on several grids."""

from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.runs import Run, read_runs
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import MARKS, Estimate, estimate, percent
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.variance_share import mean_variance, rule_for_q, variance_share
from stcl.study.names import problem_name

CAPTIONS = {
    "sketch_resolution": "Test errors in percent against the sketch count q and the resolution, for {shown} with N = "
    "{n_train}, mean ± sample standard deviation over training seeds; q = 0 is training on data alone.",
    "gradient_variance": "Trace of the covariance of the gradient over the updates of an epoch, before clipping, for "
    "{shown} with N = {n_train}, mean over epochs from {first_epoch} on, then mean ± sample standard deviation over "
    "training seeds: of the sTCL loss itself (raw), of its weighted part of the objective, and of the whole objective. "
    "q = 0 is training on data alone.",
}
EARLY = (
    "Some trainings ended early, because no better checkpoint came at the lowest learning rate. Each epoch that they "
    "left out counts with the mean of those that they waited."
)
QUANTITIES = {
    "sketch_resolution": {"field_error": "field", "jacobian_error": "Jacobian"},
    "gradient_variance": {"raw": "raw", "weighted": "weighted", "total": "total"},
}


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`spec` has table, problem, what is loaded for it, n_train, first_epoch, and grid and q of each block."""
    table, variants = spec["table"], spec["variants"]

    def measured(runs: list[Run], quantity: str) -> Estimate:
        if table == "sketch_resolution":
            return percent(runs, quantity)
        return estimate(runs, lambda run: mean_variance(run, quantity, spec["first_epoch"]))

    entries = {}
    runs = read_runs(inputs)
    for block, grouped in groupby(runs, lambda run: run.cell.block):
        members = list(grouped)
        for quantity in QUANTITIES[table]:
            entries[variants[block]["grid"], variants[block]["q"], quantity] = measured(members, quantity)
    theirs = command.numbers_made_for(published, table, {"problem": spec["loaded"], "n_train": spec["n_train"]})

    def text(grid: int, q: int, quantity: str) -> str:
        if q == 0 and quantity in ("raw", "weighted"):
            return "—"
        return entries[grid, q, quantity].text(theirs.get(grid, {}).get(q, {}).get(quantity))

    rows = [{"grid": g, "q": q, "quantity": name} | entry.columns() for (g, q, name), entry in entries.items()]
    grids, counts = (sorted({variant[key] for variant in variants.values()}) for key in ("grid", "q"))
    shown = {(grid, q): [text(grid, q, name) for name in QUANTITIES[table]] for grid in grids for q in counts}
    names = list(QUANTITIES[table].values())
    caption = CAPTIONS[table].format(**spec, shown=problem_name(spec["problem"])) + (f" {MARKS}" if theirs else "")
    if table == "gradient_variance":
        if any(run.ended_early for run in runs):
            caption += f" {EARLY}"
        names.append("share")
        means = {key: entry.mean for key, entry in entries.items()}
        shares = _shares(means)
        known = _shares(
            {(g, q, n): v[0] for g, by_q in theirs.items() for q, by in by_q.items() for n, v in by.items()}
        )
        for grid, q in dict.fromkeys((grid, q) for grid, q, _ in entries):
            share = shares.get((grid, q))
            shown[grid, q].append(_share_text(share, known.get((grid, q))))
            counted = entries[grid, q, "total"].columns() | {"mean": "" if share is None else share, "std": ""}
            rows.append({"grid": grid, "q": q, "quantity": "share"} | counted)
        caption += f" {rule_for_q(shares, list(known.values()))}"
    header = ["q", *(f"{grid}², {name}" for grid in grids for name in names)]
    body = [[str(q), *(text for grid in grids for text in shown[grid, q])] for q in counts]
    return Table(caption, rows, header, body)


def _shares(means: dict[tuple[int, int, str], float | None]) -> dict[tuple[int, int], float]:
    """The share of each (grid, q) that has one. Data alone has no sTCL term."""
    found = {(g, q): variance_share(means[g, q, "weighted"], means[g, q, "total"]) for g, q, _ in means if q > 0}
    return {place: share for place, share in found.items() if share is not None}


def _share_text(share: float | None, theirs: float | None) -> str:
    if share is None:
        return "—"
    return f"{share:.1f}" + (f" [{theirs:.1f}]" if theirs is not None else "")


if __name__ == "__main__":
    command.main("sketch", build)
