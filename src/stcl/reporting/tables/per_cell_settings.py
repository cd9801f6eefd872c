"""The table `per_cell_settings` shows what stands behind each cell of the error tables."""

from itertools import groupby
from pathlib import Path
from typing import Any

from stcl.reporting.runs import read_runs
from stcl.reporting.tables import command
from stcl.reporting.tables.render import Table
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "Settings of each cell: the derivative-to-data ratio λ, the grid it was chosen from by validation error, the "
    "directions with stored tangents, and the form of the sTCL loss."
)


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`spec["problems"]` has bank, form and λ grids by method of each problem."""
    rows = []
    runs = [run for run in read_runs(inputs) if run.cell.method != "fno"]
    for (problem, n, method), grouped in groupby(runs, lambda r: (r.cell.block, r.cell.n_train, r.cell.method)):
        members = list(grouped)
        settings = spec["problems"][problem]
        chosen = sorted({run.record["spec"]["lam"] for run in members if run.status == "done"})
        theirs = published and published["per_cell_settings"].get(problem, {}).get(method, {}).get(n)
        rows.append(
            {
                "problem": problem,
                "n_train": n,
                "method": method,
                "lambda": " ".join(f"{lam:g}" for lam in chosen) or members[0].status,
                "grid": " ".join(f"{lam:g}" for lam in settings["grids"].get(method) or []),
                "bank": settings["bank"] if method == "offline_di" else "",
                "form": settings["form"] if method == "stcl" else "stored tangents",
            }
            | ({"published_lambda": "" if theirs is None else f"{theirs:g}"} if published else {})
        )
    header = ["Problem", "N", "Method", "λ", "λ grid", "Bank", "Form"] + (["published λ"] if published else [])
    body = [[problem_name(p), str(n), METHOD_NAMES[m], *map(str, rest)] for p, n, m, *rest in _values(rows)]
    return Table(CAPTION, rows, header, body)


def _values(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[value if value != "" else "—" for value in row.values()] for row in rows]


if __name__ == "__main__":
    command.main("per_cell_settings", build)
