"""All tables share this command line. It takes a spec, an output, and the files a table is made from."""

import argparse
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from stcl.reporting.runs import runs_among
from stcl.reporting.tables.render import Table
from stcl.study.names import problem_name

Build = Callable[[dict[str, Any], list[Path], dict[str, Any] | None], Table]


def main(name: str, build: Build) -> None:
    """Runs `build(spec, inputs, published)` and writes its table. `published` is None unless sizes are the paper's.

    The spec of a study with variants has the problem of each of them in `variant_of`. What they are, and which problems
    are in files of the user, is in `note`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m stcl.reporting.tables.{name}", description=build.__doc__)
    parser.add_argument("--spec", type=json.loads, required=True, help="what the table holds, as JSON")
    parser.add_argument("--published", type=Path, help="the paper's numbers, to stand beside ours")
    parser.add_argument("--out", type=Path, required=True, help="CSV; Markdown, LaTeX and JSON go beside it")
    parser.add_argument("inputs", type=Path, nargs="+", help="folders of runs, records of measurements")
    arguments = parser.parse_args()
    published = yaml.safe_load(arguments.published.read_text()) if arguments.published else None
    table = finished(name, build, arguments.spec, arguments.inputs, published)
    table.write(arguments.out, reduced=published is None)


def built(module: str, spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """The table of a module of this folder, for pages that show tables which are not written as files."""
    build = importlib.import_module(f"stcl.reporting.tables.{module}").build
    return finished(module, build, spec, inputs, published)


def finished(
    name: str, build: Build, spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None
) -> Table:
    """The table that `build` makes, with all that its caption must say. `name` is that of its module."""
    quantity = spec.get("table", name)
    table = build(spec, inputs, with_variants(published, quantity, spec))
    table = with_notes(table, quantity, spec, published)
    return replace(table, caption=" ".join([table.caption, *_records_note(inputs)]))


def _records_note(inputs: list[Path]) -> list[str]:
    """What the caption says if some trainings are not among the results of this folder but records."""
    runs = [run for run in runs_among(inputs) if run.status == "done"]
    kept = [run.record["version"] for run in runs if run.is_record]
    if not kept:
        return []
    versions = " and ".join(dict.fromkeys(kept))
    return [f"{len(kept)} of {len(runs)} trainings are read from records, made by version {versions}."]


def with_variants(published: dict[str, Any] | None, quantity: str, spec: dict[str, Any]) -> dict[str, Any] | None:
    """The published numbers, in which a variant without numbers of its own has those of its problem."""
    if published is None or quantity not in published:
        return published
    numbers = published[quantity]
    shared = {name: numbers[p] for name, p in spec.get("variant_of", {}).items() if p in numbers}
    return published | {quantity: shared | numbers}


def numbers_made_for(published: dict[str, Any] | None, table: str, ours: dict[str, Any]) -> dict[Any, Any]:
    """The published numbers of a table of one problem, N and maybe grid, if these are `ours`. Else there are none.

    The problem is what is loaded, so that a variant has the numbers of its problem.
    """
    return published[table] if published is not None and published["made_for"][table] == ours else {}


def with_notes(table: Table, quantity: str, spec: dict[str, Any], published: dict[str, Any] | None) -> Table:
    """The table with what its caption must say about variants, and about settings behind the published numbers."""
    notes = [spec["note"]] if "note" in spec else []
    if published is not None and quantity in published:
        variant_of = spec.get("variant_of", {})
        shown = {variant_of.get(row["problem"], row["problem"]) for row in table.rows if "problem" in row}
        notes += [
            f"The published numbers of {problem_name(problem)} were made with {how}."
            for problem, how in published.get("made_with", {}).items()
            if problem in shown
        ]
    return replace(table, caption=" ".join([table.caption, *notes]))
