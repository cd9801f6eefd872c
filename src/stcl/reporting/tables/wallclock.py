"""The table `wallclock` shows what a training costs, and what the labels cost that offline DI trains on."""

import json
from math import ceil, inf
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.timing import timed_sizes, training_seconds
from stcl.study.cells import Cell
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "Seconds of one training (measured seconds of an epoch, methods in turn and alone on the machine, times the epochs)"
    " and what the stored tangents of offline DI cost beside it: seconds, bytes, factorisations and linear solves or "
    "time marches of the bank, in proportion to the N training samples. Break-even: trainings that must share one bank "
    "before offline DI, labels included, has cost less than sTCL."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are records of timing, one for each problem in the order of the rows, and ledgers of train banks.

    A ledger is that of the problem after which its folder is named. Variants have the same problem in their specs.
    Records of trainings that may have ended early are inputs, too. What is not there was not measured.
    """
    read = {path: json.loads(path.read_text()) for path in inputs if path.exists()}
    trainings = {Cell.parse("/".join(p.parts[-6:-1])): record for p, record in read.items() if p.name == "train.json"}
    records = {path: record for path, record in read.items() if path.name != "train.json"}
    timings = [record for record in records.values() if "cells" in record]
    banks = {path.parent.name: record for path, record in records.items() if "cells" not in record}
    seconds = training_seconds(timings, trainings)
    rows, body = [], []
    unmeasured = {path.stem: None for path in inputs if path.parent.name == "timing" and path not in read}
    for problem, n in (timed_sizes(timings) | unmeasured).items():
        times = {method: seconds.get((problem, method)) for method in METHOD_NAMES}
        labels = bank_cost(banks[problem], n) if problem in banks and n else {}
        row = {"problem": problem, "n_train": _blank(n)} | {f"{m}_seconds": _blank(times[m]) for m in METHOD_NAMES}
        row |= {f"label_{name}": _blank(labels.get(name)) for name in COSTS}
        paid_off = break_even(times["stcl"], times["offline_di"], labels.get("seconds"))
        row["break_even"] = _blank(paid_off)
        rows.append(row)
        theirs = published["wallclock"].get(problem, {}) if published else {}
        measured = {m: "missing" if n is None else _seconds(times[m]) for m in METHOD_NAMES}
        shown = [measured[m] + (f" [{theirs[m]}]" if m in theirs else "") for m in METHOD_NAMES]
        body.append(
            [
                problem_name(problem),
                "—" if n is None else str(n),
                *shown,
                _seconds(labels.get("seconds")),
                f"{labels['bytes'] / 1e9:.3g}" if labels else "—",
                f"{labels['factorisations']:.0f}" if labels else "—",
                f"{labels['solves']:.0f}" if labels else "—",
                _trainings(paid_off),
            ]
        )
    header = ["Problem", "N", *METHOD_NAMES.values()]
    header += ["Labels, s", "Labels, GB", "Factorisations", "Solves", "Break-even"]
    devices = sorted({f"{timing['device']}, {timing['threads']} thread(s)" for timing in timings})
    caption = CAPTION + (f" Measured on {'; '.join(devices)}." if devices else " Nothing has been measured.")
    caption += " In brackets the published seconds, of another machine." if published else ""
    caption += early_note(list(trainings.values()), published is not None)
    return Table(caption, rows, header, body)


def early_note(trainings: list[dict[str, Any]], published: bool) -> str:
    """What the caption says if some trainings have ended early."""
    early = [record for record in trainings if record["ended"] == "early"]
    if not early:
        return ""
    epochs = [record["epochs"] for record in early]
    after = f"{min(epochs)}" if min(epochs) == max(epochs) else f"{min(epochs)} to {max(epochs)}"
    note = (
        f" {len(early)} of {len(trainings)} trainings behind these rows ended early, after {after} epochs, because no "
        "better checkpoint came at the lowest learning rate. The epochs that were run count here, as a mean over "
        "seeds, and not those of the budget."
    )
    return note + (" The published trainings went through their budgets." if published else "")


COSTS = ("seconds", "bytes", "factorisations", "solves")


def bank_cost(ledger: dict[str, Any], n_train: int) -> dict[str, float]:
    """The share of a bank's cost that its first `n_train` samples have."""
    share = n_train / ledger["spec"]["samples"]
    known = [name for name in COSTS if name != "seconds" or name in ledger]  # a record has no seconds
    return {name: share * ledger.get(name, 0) for name in known}


def break_even(stcl: float | None, offline_di: float | None, labels: float | None) -> float | None:
    """The k with k · stcl = labels + k · offline_di. It is infinite if offline DI is not faster per training."""
    if stcl is None or offline_di is None or labels is None:
        return None
    return labels / (stcl - offline_di) if stcl > offline_di else inf


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def _seconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _trainings(value: float | None) -> str:
    if value is None:
        return "—"
    return "never" if value == inf else str(max(1, ceil(value)))


if __name__ == "__main__":
    command.main("wallclock", build)
