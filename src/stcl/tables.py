"""Stage `tables`: errors of all cells of a problem in one file, and means over seeds of all problems in a table.

    python -m stcl.tables cells --out tables/by_problem/diffusion.csv runs/…/errors.json …
    python -m stcl.tables errors --quantity field_error --out tables/field_error.csv tables/by_problem/*.csv

The second writes the tidy CSV (percent), and beside it Markdown and LaTeX with a column per method.
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

METHODS = {"fno": "FNO", "stcl": "sTCL", "offline_di": "Offline DI"}
PROBLEMS = {
    "helmholtz": "Helmholtz",
    "diffusion": "Nonlinear diffusion",
    "burgers": "Burgers",
    "allen_cahn": "Allen-Cahn",
    "navier_stokes": "Navier-Stokes",
}
CAPTIONS = {
    "field_error": "Relative error of the response on the test split, in percent: mean over samples, then mean ± "
    "sample standard deviation over training seeds. Best-validation checkpoint.",
    "jacobian_error": "Relative error of Jacobian-vector products on the test split, in percent: mean over samples and "
    "directions, then mean ± sample standard deviation over training seeds. Best-validation checkpoint.",
}
REDUCED = "Reduced sizes and budgets: these numbers are not comparable with the paper's."

CELL_COLUMNS = ("problem", "n_train", "method", "lam", "seed", "best_epoch", "field_error", "jacobian_error")
TIDY_COLUMNS = ("problem", "n_train", "method", "mean", "std", "n_seeds")


def write_cells(errors: list[Path], out: Path) -> None:
    """One row per cell; errors are fractions, as measured."""
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, CELL_COLUMNS)
        writer.writeheader()
        for path in errors:
            record = json.loads(path.read_text())
            row = record["spec"] | record
            writer.writerow({column: row[column] for column in CELL_COLUMNS})


def aggregate(cells: list[dict[str, str]], quantity: str) -> list[dict]:
    """Mean and sample standard deviation over seeds, in percent; the deviation of a single seed is left empty."""
    groups: dict[tuple, list[float]] = defaultdict(list)
    for cell in cells:
        groups[cell["problem"], int(cell["n_train"]), cell["method"]].append(100 * float(cell[quantity]))
    return [
        {
            "problem": problem,
            "n_train": n,
            "method": method,
            "mean": fmean(values),
            "std": stdev(values) if len(values) > 1 else "",
            "n_seeds": len(values),
        }
        for (problem, n, method), values in groups.items()
    ]


def write_errors(tables: list[Path], quantity: str, reduced: bool, out: Path) -> None:
    """The tidy table as CSV, and the same as Markdown and LaTeX."""
    cells = [row for path in tables for row in csv.DictReader(path.open(newline=""))]
    rows = aggregate(cells, quantity)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, TIDY_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    caption = CAPTIONS[quantity] + (f" {REDUCED}" if reduced else "")
    header, body = _wide(rows)
    out.with_suffix(".md").write_text(_markdown(caption, header, body))
    out.with_suffix(".tex").write_text(_latex(caption, quantity, header, body))


def _wide(rows: list[dict]) -> tuple[list[str], list[list[str]]]:
    """A line per (problem, N), a column per method."""
    methods = [m for m in METHODS if any(row["method"] == m for row in rows)]
    values = {(row["problem"], row["n_train"], row["method"]): _entry(row) for row in rows}
    lines = dict.fromkeys((row["problem"], row["n_train"]) for row in rows)
    body = [[PROBLEMS.get(p, p), str(n), *(values.get((p, n, m), "—") for m in methods)] for p, n in lines]
    return ["Problem", "N", *(METHODS[m] for m in methods)], body


def _entry(row: dict) -> str:
    digits = 3 if row["mean"] < 1 else 2
    mean = f"{row['mean']:.{digits}f}"
    return f"{mean} ± {row['std']:.{digits}f}" if row["std"] != "" else mean


def _markdown(caption: str, header: list[str], body: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]

    def line(cells: list[str]) -> str:
        left = [f"{cells[0]:<{widths[0]}}"]
        return "| " + " | ".join(left + [f"{c:>{w}}" for c, w in zip(cells[1:], widths[1:], strict=True)]) + " |"

    rule = "|" + "|".join([":" + "-" * (widths[0] + 1), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
    return "\n".join([caption, "", line(header), rule, *map(line, body)]) + "\n"


def _latex(caption: str, label: str, header: list[str], body: list[list[str]]) -> str:
    def symbols(text: str) -> str:
        return text.replace("±", r"$\pm$").replace("—", "--").replace("%", r"\%")

    def line(cells: list[str]) -> str:
        return " & ".join(map(symbols, cells)) + r" \\"

    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering\small",
            rf"\caption{{{symbols(caption)}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            line(header),
            r"\midrule",
            *map(line, body),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.tables", description="Tables from the errors of cells.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    cells = kinds.add_parser("cells", help="one row per cell of a problem")
    cells.add_argument("--out", type=Path, required=True)
    cells.add_argument("errors", type=Path, nargs="+", help="errors.json of every cell")
    errors = kinds.add_parser("errors", help="means over seeds of all problems")
    errors.add_argument("--quantity", choices=sorted(CAPTIONS), required=True)
    errors.add_argument("--reduced", action="store_true", help="say in the caption that sizes are not the paper's")
    errors.add_argument("--out", type=Path, required=True, help="CSV; Markdown and LaTeX go beside it")
    errors.add_argument("tables", type=Path, nargs="+", help="cells of every problem")
    arguments = parser.parse_args()
    if arguments.kind == "cells":
        write_cells(arguments.errors, arguments.out)
    else:
        write_errors(arguments.tables, arguments.quantity, arguments.reduced, arguments.out)


if __name__ == "__main__":
    main()
