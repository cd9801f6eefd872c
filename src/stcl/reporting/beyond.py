"""The page docs/beyond.md shows what sTCL gains beyond the labels, from records/ alone.

    python -m stcl.reporting.beyond

What stands above the mark in the page is written by hand. All below it is written here: for each recorded study the
table `beyond`, a sentence on what is the better deal, and the figure if times were recorded.
"""

import csv
import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import yaml

from stcl.reporting import records
from stcl.reporting.figures import beyond as figure
from stcl.reporting.figures.style import plt
from stcl.reporting.sources import source
from stcl.reporting.tables import command
from stcl.reporting.tables.beyond import Row, read, same_time
from stcl.reporting.tables.estimate import ERRORS
from stcl.reporting.tables.plan import TablePlan, table_plans
from stcl.study.cells import Cell
from stcl.study.config import parse
from stcl.study.names import METHOD_NAMES, problem_name
from stcl.study.plan import Plan

PAGE = Path("docs/beyond.md")
PICTURE = Path("docs/beyond.png")
MARK = "<!-- all below is written by `make docs` from records/ -->"
STUDIES = (Path("config/beyond.yaml"), Path("config/paper-small.yaml"), Path("config/paper.yaml"))
DPI = 110


@dataclass(frozen=True)
class Study:
    """The recorded part of the comparison of one study."""

    config: Path
    plan: Plan
    table: TablePlan
    inputs: list[Path]

    @property
    def rows(self) -> list[Row]:
        return read(self.table.spec, self.inputs)


def page(text: str, root: Path) -> str:
    """The page with all that is generated written anew. `root` is the folder of the project."""
    return f"{text.partition(MARK)[0]}{MARK}\n\n{generated(root)}"


def generated(root: Path) -> str:
    """All of the page that is not written by hand."""
    found = recorded(root)
    if not found:
        return "There are no records yet.\n"
    parts = []
    if rows_with_times(found):
        parts.append(f"![Errors against all seconds]({PICTURE.name})\n")
    return "\n".join([*parts, *(part for study in found for part in _section(study))])


def recorded(root: Path) -> list[Study]:
    """What is in the records of the studies: the problems of which a loss beyond the problem's own is recorded."""
    found = []
    for config in STUDIES:
        plan = Plan(parse(yaml.safe_load((root / config).read_text())))
        kept = root / records.FOLDER / plan.config.preset
        seeds: dict[Cell, list[int]] = {}
        for folder in records.folders(kept):
            cell = Cell.parse(folder.relative_to(kept).as_posix())
            seeds.setdefault(records.seedless(cell), []).append(cell.seed)
        cells = []
        for problem in plan.beyond:
            compared = {records.seedless(cell): loss for cell, loss in plan.beyond_cells(problem).items()}
            if any(loss and cell in seeds for cell, loss in compared.items()):
                cells += [replace(cell, seed=seed) for cell in compared for seed in sorted(seeds.get(cell, [0]))]
        if cells:
            table = table_plans(plan)["beyond"]
            arguments = [*(f"runs/{cell.path}" for cell in cells), *table.records]
            inputs = [source(argument, root / "nowhere", [kept]) for argument in arguments]
            found.append(Study(config, plan, table, inputs))
    return found


def _section(study: Study) -> Iterator[str]:
    target = f"{study.plan.results}/tables/beyond.md"
    table = command.built("beyond", study.table.spec, study.inputs, {})
    if study.plan.config.reduced:
        table = table.said_to_be_reduced()
    body = [["not run" if text == "missing" else text for text in line] for line in table.body]
    yield f"## `{study.config}`\n"
    yield f"`snakemake {target} --configfile {study.config}` runs all that is behind it.\n"
    yield replace(table, body=body).markdown()
    rows = study.rows
    for row in rows:
        if row.loss:
            yield f"- {deal(rows, row)}"
    yield ""


# -- what is the better deal ------------------------------------------------------------------------------------------


def deal(rows: list[Row], row: Row) -> str:
    """What a loss of sTCL is worth beside offline DI with the same N, and beside what its time would buy."""
    words = f"{problem_name(row.problem)}, N = {row.cell.n_train}, {row.name}"
    labels = next(r for r in rows if (r.problem, r.cell.method) == (row.problem, "offline_di"))
    ours, theirs = _means(row), _means(labels)
    if not (ours and theirs):
        return f"{words}: not run, or nothing to compare it with."
    field, jacobian = (own / other for own, other in zip(ours, theirs, strict=True))
    text = f"{words}: {field:.2f} / {jacobian:.2f} times the field / Jacobian error of offline DI with the same N."
    for method, size in same_time(rows, row).items():
        control = [r for r in rows if (r.problem, r.cell.method) == (row.problem, method)]
        text += f" Its seconds would buy {METHOD_NAMES[method]} N = {size:.0f}, {_more_labels(control, ours, size)}."
    return text


def _more_labels(control: list[Row], ours: list[float], size: float) -> str:
    """Whether a method with `size` samples would be the better deal."""
    errors = _at_size(control, size)
    if not errors:
        trained = [(row.cell.n_train, means) for row in control if (means := _means(row))]
        if not trained or size < trained[-1][0]:
            return "which is outside of what was trained"
        largest, (field, jacobian) = trained[-1]
        return (
            f"which is more than the largest that was trained, {largest}, with errors of {field:.2f} / {jacobian:.2f} %"
        )
    lower = sum(theirs < own for theirs, own in zip(errors, ours, strict=True))
    verdict = ("more labels are the worse deal", "neither is better in both", "more labels are the better deal")[lower]
    return f"with errors of about {errors[0]:.2f} / {errors[1]:.2f} %: {verdict}"


def _at_size(control: list[Row], size: float) -> list[float]:
    """Both errors of a method at an N between trained ones, linear in logarithms. They are unknown outside."""
    known = [(row.cell.n_train, means) for row in control if (means := _means(row))]
    for (small, high), (large, low) in pairwise(known):
        if small <= size <= large:
            share = log(size / small) / log(large / small)
            return [exp((1 - share) * log(a) + share * log(b)) for a, b in zip(high, low, strict=True)]
    return []


def _means(row: Row) -> list[float]:
    """Both errors of a row, or nothing if one of them is not known."""
    known = [mean for quantity in ERRORS if (mean := row.errors[quantity].mean) is not None]
    return known if len(known) == len(ERRORS) else []


# -- the picture ------------------------------------------------------------------------------------------------------


def rows_with_times(found: list[Study]) -> list[dict[str, Any]]:
    """The tidy rows that have a place in the figure, of the first study that has such rows."""
    for study in found:
        table = command.built("beyond", study.table.spec, study.inputs, {})
        rows = [row for row in table.rows if row["seconds"] != "" and row["mean"] != ""]
        if rows:
            return rows
    return []


def content(rows: list[dict[str, Any]]) -> str:
    """An id of what the picture shows, which it carries with it."""
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "beyond.csv"
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        drawn = figure.draw({}, [table])
    drawn.savefig(out, dpi=DPI, metadata={"Software": None, "Description": content(rows)})
    plt.close(drawn)


def write(root: Path) -> None:
    """Writes the page and, if there are times, its picture."""
    (root / PAGE).write_text(page((root / PAGE).read_text(), root))
    rows = rows_with_times(recorded(root))
    if rows:
        draw(rows, root / PICTURE)


if __name__ == "__main__":
    write(Path())
