"""The table `forms` shows forms of the sTCL loss side by side, with data alone and with stored tangents."""

from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.runs import read_runs
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import ERRORS, percent, shown_lambda
from stcl.reporting.tables.render import Table
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "Forms of the sTCL loss with the same data, network and budget: test errors in percent, mean ± sample standard "
    "deviation over training seeds. The first rows of each problem are those of the error tables."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`spec["variants"]` has problem and form of each block. Nothing is published to stand beside."""
    rows, body = [], []
    for (block, method), grouped in groupby(read_runs(inputs), lambda run: (run.cell.block, run.cell.method)):
        members = list(grouped)
        problem, n, lam = spec["variants"][block]["problem"], members[0].cell.n_train, shown_lambda(members)
        form = spec["variants"][block]["form"] if method == "stcl" else ""
        entries = {quantity: percent(members, quantity) for quantity in ERRORS}
        rows += [
            {"problem": problem, "n_train": n, "method": method, "form": form, "lambda": lam, "quantity": quantity}
            | entry.columns()
            for quantity, entry in entries.items()
        ]
        name = METHOD_NAMES[method] + (f", {form}" if form else "")
        body.append([problem_name(problem), str(n), name, lam or "—", *(e.text() for e in entries.values())])
    return Table(CAPTION, rows, ["Problem", "N", "Loss", "λ", "Field error", "Jacobian error"], body)


if __name__ == "__main__":
    command.main("forms", build)
