"""What a study will cost, estimated from its plan alone: GPU hours, disk, and the longest chain of jobs.

    python -m stcl.study.cost --config CONFIG.json --published config/published.yaml --solvers config/solvers.yaml \
        [results/paper/timing/burgers.json …]

Trainings and array sizes are counted. Times are scaled from measured ones: those of the `timing` stage where it has
run, the published ones otherwise.
"""

import argparse
import json
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from pathlib import Path
from typing import Any

import yaml

from stcl import problems
from stcl.core.layout import Layout
from stcl.reporting.tables.render import Table
from stcl.study.cells import SELECTED, Cell
from stcl.study.config import parse
from stcl.study.names import METHOD_NAMES, problem_name
from stcl.study.plan import Block, Plan
from stcl.study.protocol import Network

FLOAT = 4  # bytes
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Rate:
    """Seconds of one update of each method, and what such an update was."""

    seconds: dict[str, float]
    batch: int
    q: dict[str, int]
    nodes: int
    steps: int | None  # of the Krylov solver
    source: str


@dataclass(frozen=True)
class Step:
    """One link of a chain of jobs."""

    name: str
    seconds: float


class CostEstimate:
    """The plan with numbers to it. Seconds are None where a problem's are not known."""

    def __init__(self, plan: Plan, published: dict[str, Any], solvers: dict[str, Any], timings: list[dict]) -> None:
        self.plan, self.published, self.solvers = plan, published, solvers
        self.rates = published_rates(published) | measured_rates(plan, timings)

    # -- training -------------------------------------------------------------------------------------------------

    def updates(self, cell: Cell) -> int:
        training = self.plan.blocks[cell.block].settings.training
        return training.epochs * ceil(cell.n_train / training.batch)

    def training_seconds(self, cell: Cell) -> float | None:
        """An update's time, in proportion to its samples and nodes; its derivative part also to q, and by steps."""
        block = self.plan.blocks[cell.block]
        rate = self.rates.get(block.problem)
        if rate is None or cell.method not in rate.seconds:
            return None
        data = rate.seconds.get("fno", 0.0)
        seconds = rate.seconds[cell.method]
        if cell.method != "fno":
            chosen = getattr(block.settings.methods, cell.method)
            steps = getattr(getattr(chosen, "form", None), "steps", None)
            if steps and rate.steps:
                seconds *= self._solver_seconds(steps) / self._solver_seconds(rate.steps)
            seconds = data + (seconds - data) * chosen.q / rate.q[cell.method]
        size = block.settings.training.batch / rate.batch * nodes(block) / rate.nodes
        return self.updates(cell) * size * seconds

    def _solver_seconds(self, steps: int) -> float:
        """Of a published training with that many Krylov steps: linear between its fewest and its most steps."""
        times = {m: row["seconds"] for m, row in self.published["minres_iterations"].items()}
        low, high = min(times), max(times)
        return times[low] + (steps - low) * (times[high] - times[low]) / (high - low)

    # -- reference solver -----------------------------------------------------------------------------------------

    def data_seconds(self, dataset: str, split: str) -> float | None:
        """Of one core. Candidates that the problem's filter may reject are solved, too."""
        block = self.plan.datasets[dataset]
        problem = problems.load(block.problem, **block.settings.options)
        return self._solve_seconds(block, "response", problem.candidates(self._data(dataset, split)["samples"]))

    def bank_seconds(self, dataset: str, split: str) -> float | None:
        bank = self._bank(dataset, split)
        return self._solve_seconds(self.plan.datasets[dataset], "tangent", bank["samples"] * bank["directions"])

    def _solve_seconds(self, block: Block, kind: str, count: int) -> float | None:
        known = self.solvers.get(block.problem)
        return None if known is None else count * known[kind] * nodes(block) / known["nodes"]

    def _data(self, dataset: str, split: str) -> dict[str, Any]:
        return json.loads(self.plan.data_spec(dataset, split))

    def _bank(self, dataset: str, split: str) -> dict[str, Any]:
        return json.loads(self.plan.bank_spec(dataset, split))

    @cached_property
    def banks(self) -> list[tuple[str, str]]:
        """(dataset, split) of every bank: for the test errors, and where offline DI trains."""
        blocks = self.plan.blocks.values()
        trained = dict.fromkeys(block.dataset for block in blocks if block.settings.methods.offline_di)
        return [(dataset, "test") for dataset in self.plan.datasets] + [(dataset, "train") for dataset in trained]

    # -- disk -----------------------------------------------------------------------------------------------------

    def data_bytes(self, dataset: str, split: str) -> int:
        """Inputs and responses; inputs as the solver takes them, too, where the network sees something else."""
        block = self.plan.datasets[dataset]
        problem = problems.load(block.problem, **block.settings.options)
        shapes = [problem.layout.input_shape, problem.layout.response_shape]
        taken = problem.directions(1, "test").shape[1:]
        shapes += [taken] if taken != problem.layout.input_shape else []
        return FLOAT * self._data(dataset, split)["samples"] * sum(map(prod, shapes))

    def bank_bytes(self, dataset: str, split: str) -> int:
        """Tangents, and the directions that the samples share."""
        bank, shape = self._bank(dataset, split), layout(self.plan.datasets[dataset])
        tangents = bank["samples"] * prod(shape.tangent_shape)
        return FLOAT * bank["directions"] * (tangents + prod(shape.input_shape))

    @cached_property
    def weight_bytes(self) -> dict[str, int]:
        """Of one network, by block."""
        return {name: network_bytes(layout(b), b.settings.network) for name, b in self.plan.blocks.items()}

    # -- the whole ------------------------------------------------------------------------------------------------

    def chain(self, cell: Cell) -> list[Step] | None:
        """What must end one after another before the cell has its weights; None if a time is not known."""
        dataset = self.plan.blocks[cell.block].dataset
        steps = [("data", self.data_seconds(dataset, "train"))]
        if cell.method == "offline_di":
            steps.append(("tangents", self.bank_seconds(dataset, "train")))
        if cell.lam == SELECTED:
            tuned = [(c, self.training_seconds(c)) for c in self.plan.tuning_cells(self.plan.decision(cell))]
            if all(seconds is not None for _, seconds in tuned):
                longest, seconds = max(tuned, key=lambda pair: pair[1])
                steps.append((f"{METHOD_NAMES[longest.method]} for the choice of λ", seconds))
        name = f"{METHOD_NAMES[cell.method]} of {cell.block} with N = {cell.n_train}"
        steps.append((name, self.training_seconds(cell)))
        return [Step(*step) for step in steps] if all(seconds is not None for _, seconds in steps) else None

    def longest_chain(self) -> list[Step]:
        """Of the chains that are known."""
        chains = [chain for cell in self.plan.cells.values() if (chain := self.chain(cell))]
        return max(chains, key=lambda chain: sum(step.seconds for step in chain), default=[])

    def rows(self) -> list[dict[str, Any]]:
        """One for each problem, its ablations included."""
        return [self._row(problem) for problem in self.plan.config.problems]

    def _row(self, problem: str) -> dict[str, Any]:
        cells = [c for c in self.plan.cells.values() if self.plan.blocks[c.block].problem == problem]
        datasets = [name for name, block in self.plan.datasets.items() if block.problem == problem]
        data = [(dataset, split) for dataset in datasets for split in SPLITS]
        banks = [(dataset, split) for dataset, split in self.banks if dataset in datasets]
        solver = [self.data_seconds(*d) for d in data] + [self.bank_seconds(*b) for b in banks]
        return {
            "problem": problem,
            "trainings": len(cells),
            "updates": sum(map(self.updates, cells)),
            "gpu_hours": _hours([self.training_seconds(cell) for cell in cells]),
            "cpu_hours": _hours(solver),
            "data_bytes": sum(self.data_bytes(*d) for d in data),
            "bank_bytes": sum(self.bank_bytes(*b) for b in banks),
            "weight_bytes": sum(self.weight_bytes[cell.block] for cell in cells),
        }


def published_rates(published: dict[str, Any]) -> dict[str, Rate]:
    """From the published wall-clock table."""
    runs = published["wallclock_runs"]
    rates = {}
    for problem, seconds in published["wallclock"].items():
        updates = runs["epochs"][problem] * ceil(runs["n_train"] / runs["batch"])
        rates[problem] = Rate(
            {method: s / updates for method, s in seconds.items()},
            runs["batch"],
            dict.fromkeys(seconds, runs["q"]),
            runs["nodes"][problem],
            runs["steps"].get(problem),
            "published",
        )
    return rates


def measured_rates(plan: Plan, timings: list[dict[str, Any]]) -> dict[str, Rate]:
    """From records of the stage `timing`; those of cells that the study no longer has do not count."""
    known = {_timed(cell): cell for cell in plan.cells.values()}
    rates = {}
    for timing in timings:
        cells = {_timed(Cell.parse(path)): measured for path, measured in timing["cells"].items()}
        if not set(cells) <= set(known):
            continue
        seconds, q = {}, {}
        for key, measured in cells.items():
            cell = known[key]
            block = plan.blocks[cell.block]
            seconds[cell.method] = measured["epoch_seconds"] / ceil(cell.n_train / block.settings.training.batch)
            q[cell.method] = getattr(getattr(block.settings.methods, cell.method), "q", 0)
        form = getattr(block.settings.methods.stcl, "form", None)
        steps, batch = getattr(form, "steps", None), block.settings.training.batch
        rates[block.problem] = Rate(seconds, batch, q, nodes(block), steps, f"measured on {timing['device']}")
    return rates


def _timed(cell: Cell) -> tuple[str, int, str]:
    """A cell without λ and seed, on which its time does not depend."""
    return cell.block, cell.n_train, cell.method


def layout(block: Block) -> Layout:
    return problems.load(block.problem, **block.settings.options).layout


def nodes(block: Block) -> int:
    return prod(layout(block).grid)


def network_bytes(shape: Layout, network: Network) -> int:
    from stcl.operators.build import build_surrogate

    return sum(p.numel() * p.element_size() for p in build_surrogate(shape, network).parameters())


def _hours(seconds: list[float | None]) -> float | None:
    return None if None in seconds else sum(seconds) / 3600


def text(estimate: CostEstimate) -> str:
    """The estimate as people read it."""
    plan, rows = estimate.plan, estimate.rows()
    total = {key: _sum([row[key] for row in rows]) for key in rows[0] if key != "problem"}
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
    table = Table("", rows, header, body).markdown(
        f"Estimated cost of the study `{plan.config.preset}`. Nothing was run."
    )
    return "\n".join([table, _chain_text(estimate.longest_chain()), "", *_notes(estimate)])


def _sum(values: list[float | None]) -> float | None:
    return None if None in values else sum(values)


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
        rate = estimate.rates.get(problem)
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
        "Not counted: evaluation, timing, conditioning, tables, figures"
        + ("; recorded gradient variances, which add two backward passes an update." if plan.sketch_blocks else ".")
    )
    if "" in sources:
        notes.append(
            f"Not known: times of {', '.join(sources[''])}, which the paper does not have. "
            f"`snakemake {plan.results}/timing/<problem>.json` measures an epoch; `snakemake cost` then uses it."
        )
    return [f"- {note}" for note in notes]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.study.cost", description="Estimate what a study costs.")
    parser.add_argument("--config", type=json.loads, required=True, help="the configuration, as JSON")
    parser.add_argument("--published", type=Path, required=True, help="the paper's numbers")
    parser.add_argument("--solvers", type=Path, required=True, help="seconds of the reference solvers")
    parser.add_argument(
        "timings", type=Path, nargs="*", help="records of timing, to be used instead of published times"
    )
    arguments = parser.parse_args()
    published, solvers = (yaml.safe_load(path.read_text()) for path in (arguments.published, arguments.solvers))
    timings = [json.loads(path.read_text()) for path in arguments.timings]
    print(text(CostEstimate(Plan(parse(arguments.config)), published, solvers, timings)))


if __name__ == "__main__":
    main()
