"""The page docs/results.md shows the tables of finished studies, with what they were run on.

    python -m stcl.reporting.report.results --out docs/results.md config/config.yaml config/paper-small.yaml

It reads results/<preset>/tables. A table that is not there is built from the trainings that are there, or whose records
are, and the page says so.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from stcl.reporting import records
from stcl.reporting.captions import title
from stcl.reporting.report import content
from stcl.reporting.runs import read_runs
from stcl.reporting.sources import source
from stcl.reporting.tables import command
from stcl.reporting.tables.by_problem import row
from stcl.reporting.tables.plan import TablePlan, table_plans
from stcl.study.config import parse
from stcl.study.names import problem_name
from stcl.study.plan import Plan

PUBLISHED = Path("config/published.yaml")
INTRODUCTION = """\
# Results

Tables of the studies that were run, as the workflow wrote them. Nothing in this page is typed by hand. It is made by

    python -m stcl.reporting.report.results --out docs/results.md config/config.yaml config/paper-small.yaml

Captions say what was measured. What the words mean is in the [README](../README.md) and, with figures, in each study's
`report.html`.
"""


def page(configs: list[Path], folder: Path) -> str:
    """The page of all studies, whose results and records are below `folder`."""
    return "\n".join([INTRODUCTION, *(part for path in configs for part in _study(path, folder))])


def _study(path: Path, folder: Path) -> Iterator[str]:
    plan = Plan(parse(yaml.safe_load(path.read_text())))
    results, kept = folder / plan.results, folder / records.FOLDER / plan.config.preset
    config = plan.config.model_dump(mode="json", by_alias=True)
    long = plan.long_blocks.values()  # long runs are not evaluated
    cells = plan.final_cells(block for block in plan.blocks.values() if block not in long)
    found = read_runs([source(f"runs/{cell.path}", results, [kept]) for cell in cells])
    runs = [row(run) for run in found]
    evaluated = [run for run in runs if run["status"] == "done"]
    if not evaluated:
        raise SystemExit(f"error: {results} holds no finished training; run: snakemake --configfile {path}")
    recorded = sum(run.is_record for run in found)
    unfinished = Counter(run["status"] for run in runs if run["status"] != "done")
    problems = ", ".join(problem_name(name) for name in config["problems"])
    yield f"## Study `{plan.config.preset}`\n"
    yield f"{content.opening(config)}\n"
    yield f"- Configuration: `{path.as_posix()}`, id `{content.configuration_id(config)}`"
    yield f"- Problems: {problems}"
    yield f"- Training seeds: {', '.join(map(str, plan.config.seeds))}"
    yield f"- Trainings: {len(evaluated)} evaluated" + "".join(f", {n} {status}" for status, n in unfinished.items())
    yield f"- Read from: {_read_from(len(evaluated), recorded, plan)}"
    yield f"- Run on: {content.machine(evaluated)}\n"
    absent = []
    for name, table in table_plans(plan).items():
        file = results / f"tables/{name}.md"
        inputs = [source(argument, results, [kept]) for argument in table.arguments]
        if file.exists():
            yield f"### {title(name)}\n"
            yield file.read_text()
        elif any(run.status == "done" for run in read_runs(inputs[: len(table.cells)])):
            yield f"### {title(name)}\n"
            yield "Preview: cells that have not ended are named as such.\n"
            yield _preview(table, inputs, plan.config.reduced, folder)
        else:
            absent.append(name)
    if absent:
        yield f"Not built: {', '.join(title(name).lower() for name in absent)}.\n"


def _read_from(evaluated: int, recorded: int, plan: Plan) -> str:
    kept = f"`{records.FOLDER / plan.config.preset}`"
    if not recorded:
        return f"`{plan.results}`"
    return kept if recorded == evaluated else f"`{plan.results}`, and {recorded} of them from {kept}"


def _preview(table: TablePlan, inputs: list[Path], reduced: bool, folder: Path) -> str:
    """A table from the trainings that are there."""
    numbers = yaml.safe_load((folder / PUBLISHED).read_text())
    published = None if reduced and not table.published else numbers
    shown = command.built(table.module, table.spec, inputs, published)
    return (shown.said_to_be_reduced() if published is None else shown).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.reporting.report.results", description="Write the page of results."
    )
    parser.add_argument("--out", type=Path, required=True, help="page to write")
    parser.add_argument("configs", type=Path, nargs="+", help="configuration files of the studies, in their order")
    arguments = parser.parse_args()
    arguments.out.write_text(page(arguments.configs, Path()))


if __name__ == "__main__":
    main()
