"""This module prints what a study will cost.

    python -m stcl.reporting.cost --config CONFIG.json --published config/published.yaml \
        --solvers config/solvers.yaml [results/paper/timing/burgers.json …]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from stcl.reporting.tables.render import Table
from stcl.study.config import parse
from stcl.study.cost import CostEstimate, Step
from stcl.study.names import problem_name
from stcl.study.plan import Plan


def text(estimate: CostEstimate) -> str:
    """The estimate as people read it."""
    plan, rows = estimate.plan, estimate.rows()
    total: dict[str, Any] = {key: _sum([row[key] for row in rows]) for key in rows[0] if key != "problem"}
    total["problem"] = "Total"
    header = [
        "",
        "Trainings",
        "Updates, 10⁶",
        "GPU hours",
        "Solver, core hours",
        "Data, GB",
        "Tangents, GB",
        "Weights, GB",
    ]
    body = [_line(row) for row in (*rows, total)]
    caption = f"Estimated cost of the study `{plan.config.preset}`. Nothing was run."
    table = Table(caption, rows, header, body)
    return "\n".join([table.markdown(), _chain_text(estimate.longest_chain()), "", *_notes(estimate)])


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _line(row: dict[str, Any]) -> list[str]:
    def number(value: float | None) -> str:
        return "not known" if value is None else f"{value:.3g}"

    values = (row["updates"] / 1e6, row["gpu_hours"], row["cpu_hours"])
    sizes = (row[f"{kind}_bytes"] / 1e9 for kind in ("data", "bank", "weight"))
    name = row["problem"] if row["problem"] == "Total" else problem_name(row["problem"])
    return [name, str(row["trainings"]), *map(number, values), *map(number, sizes)]


def _chain_text(chain: list[Step]) -> str:
    if not chain:
        return "Longest chain of jobs: not known."
    steps = " → ".join(f"{step.name} {_duration(step.seconds)}" for step in chain)
    return f"Longest chain of jobs: {_duration(sum(step.seconds for step in chain))} = {steps}."


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _notes(estimate: CostEstimate) -> list[str]:
    plan = estimate.plan
    sources: dict[str, list[str]] = {}
    for problem in plan.config.problems:
        rate = estimate.rate(problem)
        sources.setdefault(rate.source if rate else "", []).append(problem_name(problem))
    notes = [f"Seconds of an update, {source}: {', '.join(names)}." for source, names in sources.items() if source]
    if "published" in sources:
        notes.append("Published times are of the authors' program on one RTX PRO 6000 Blackwell at N = 512.")
    notes.append(
        "They are scaled in proportion to samples per update and grid points; their derivative part also to the "
        "directions per update q, and by the Krylov steps as published. Other networks than the timed one are not "
        "accounted for."
    )
    notes.append("Solver times are those of config/solvers.yaml, in proportion to grid points, on one core.")
    notes.append(
        "Disk is the exact size of the arrays. The folder work/ can hold four times the weights in training states, "
        "which are safe to delete when trainings have ended."
    )
    notes.append(
        "Not counted: evaluation, inverse problems, timing, conditioning, tables, figures"
        + ("; recorded gradient variances, which add two backward passes an update." if plan.sketch_blocks else ".")
    )
    if any(block.settings.training.finish_after is not None for block in plan.blocks.values()):
        notes.append("Trainings that may end early (`training.finish_after`) are counted with all their epochs.")
    if estimate.outdated:
        names = ", ".join(problem_name(name) for name in estimate.outdated)
        notes.append(
            f"Not used: measured times of {names}, which are of other settings than the study has now. "
            f"`snakemake {plan.results}/timing/<problem>.json` measures them again."
        )
    if "" in sources:
        notes.append(
            f"Not known: times of {', '.join(sources[''])}, which the paper does not have. "
            f"`snakemake {plan.results}/timing/<problem>.json` measures an epoch; `snakemake cost` then uses it."
        )
    return [f"- {note}" for note in notes]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.reporting.cost", description="Estimate what a study costs.")
    parser.add_argument("--config", type=json.loads, required=True, help="the configuration, as JSON")
    parser.add_argument("--published", type=Path, required=True, help="the paper's numbers")
    parser.add_argument("--solvers", type=Path, required=True, help="seconds of the reference solvers")
    parser.add_argument(
        "timings", type=Path, nargs="*", help="records of timing, <problem>.json, to be used instead of published times"
    )
    arguments = parser.parse_args()
    published, solvers = (yaml.safe_load(path.read_text()) for path in (arguments.published, arguments.solvers))
    timings = {path.stem: json.loads(path.read_text()) for path in arguments.timings}
    print(text(CostEstimate(Plan(parse(arguments.config)), published, solvers, timings)))


if __name__ == "__main__":
    main()
