"""The page docs/results.md shows the tables of finished studies, with what they were run on.

    python -m stcl.reporting.report.results --out docs/results.md config/config.yaml config/paper-small.yaml

It reads results/<preset>/tables and, for tables that cannot be finished yet, results/<preset>/preview.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from stcl.reporting.captions import title
from stcl.reporting.report import content
from stcl.reporting.runs import read_runs
from stcl.reporting.tables.by_problem import row
from stcl.reporting.tables.plan import table_plans
from stcl.study.config import parse
from stcl.study.names import problem_name
from stcl.study.plan import Plan

INTRODUCTION = """\
# Results

Tables of the studies that were run, as the workflow wrote them. This page is put together by
`python -m stcl.reporting.report.results`; nothing in it is typed by hand. Captions say what was measured; what the
words mean is in the [README](../README.md) and, with figures, in each study's `report.html`.
"""


def page(configs: list[Path], folder: Path) -> str:
    """The page of all studies, whose results are below `folder`."""
    return "\n".join([INTRODUCTION, *(part for path in configs for part in _study(path, folder))])


def _study(path: Path, folder: Path) -> Iterator[str]:
    plan = Plan(parse(yaml.safe_load(path.read_text())))
    results = folder / plan.results
    config = plan.config.model_dump(mode="json", by_alias=True)
    long = plan.long_blocks.values()  # long runs are not evaluated
    cells = plan.final_cells(block for block in plan.blocks.values() if block not in long)
    runs = [row(run) for run in read_runs([results / "runs" / cell.path for cell in cells])]
    evaluated = [run for run in runs if run["status"] == "done"]
    if not evaluated:
        raise SystemExit(f"error: {results} holds no finished training; run: snakemake --configfile {path}")
    unfinished = Counter(run["status"] for run in runs if run["status"] != "done")
    problems = ", ".join(problem_name(name) for name in config["problems"])
    yield f"## Study `{plan.config.preset}`\n"
    yield f"{content.opening(config)}\n"
    yield f"- Configuration: `{path.as_posix()}`, id `{content.configuration_id(config)}`"
    yield f"- Problems: {problems}"
    yield f"- Training seeds: {', '.join(map(str, plan.config.seeds))}"
    yield f"- Trainings: {len(evaluated)} evaluated" + "".join(f", {n} {status}" for status, n in unfinished.items())
    yield f"- Run on: {content.machine(evaluated)}\n"
    absent = []
    for name in table_plans(plan):
        found = [results / kind / f"{name}.md" for kind in ("tables", "preview")]
        table = next((file for file in found if file.exists()), None)
        if table is None:
            absent.append(name)
            continue
        yield f"### {title(name)}\n"
        if table == found[1]:
            yield "Preview: cells that have not ended are named as such.\n"
        yield table.read_text()
    if absent:
        yield f"Not built: {', '.join(title(name).lower() for name in absent)}.\n"


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
