"""The table `minres_iterations` shows errors and cost against the Krylov steps m behind an sTCL target."""

from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.runs import records_among, runs_among
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import ERRORS, MARKS, percent
from stcl.reporting.tables.render import Table
from stcl.reporting.tables.timing import training_seconds
from stcl.study.names import problem_name

CAPTION = (
    "Effect of the number of MINRES steps m with which the tangent target is solved for, for {problem} with N = "
    "{n_train}: test errors in percent, mean ± sample standard deviation over training seeds, and the seconds of one "
    "training (measured seconds of an epoch, alone on the machine, times the epochs of the budget)."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are the runs and one record of timing.

    `spec` has the problem, what is loaded for it, n_train, and the m of each block in `variants`.
    """
    ours = {"problem": spec["loaded"], "n_train": spec["n_train"]}
    numbers = command.numbers_made_for(published, "minres_iterations", ours)
    seconds = training_seconds(list(records_among(inputs).values()))
    rows, body = [], []
    for block, grouped in groupby(runs_among(inputs), lambda run: run.cell.block):
        members = list(grouped)
        m = spec["variants"][block]["steps"]
        theirs = numbers.get(m, {})
        entries = {quantity: percent(members, quantity) for quantity in ERRORS}
        time = seconds.get((block, members[0].cell.method))
        rows += [
            {"m": m, "quantity": quantity} | entry.columns() | {"seconds": "" if time is None else time}
            for quantity, entry in entries.items()
        ]
        shown = "missing" if time is None else f"{time:.3g}" + (f" [{theirs['seconds']}]" if theirs else "")
        body.append([str(m), *(entry.text(theirs.get(quantity)) for quantity, entry in entries.items()), shown])
    caption = CAPTION.format(problem=problem_name(spec["problem"]), n_train=spec["n_train"])
    caption += f" {MARKS} Published seconds are of another machine." if numbers else ""
    return Table(caption, rows, ["m", "Field error", "Jacobian error", "Seconds"], body)


if __name__ == "__main__":
    command.main("minres_iterations", build)
