"""This module estimates from its plan alone what a study will cost: GPU hours, disk, and the longest chain of jobs.

Trainings and array sizes are counted. Times are scaled from measured ones: those of the `timing` stage where it has
run, the published ones otherwise. The module stcl.reporting.cost prints the estimate.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Any

from stcl import problems
from stcl.core.layout import Layout
from stcl.core.settings import Settings
from stcl.losses.settings import Krylov, KrylovTarget, OfflineDi, SolvedTarget, SpaceTime, Stcl, Stokes
from stcl.operators.settings import Network
from stcl.problems.base import Split
from stcl.study.blocks import Block
from stcl.study.cells import SELECTED, Cell
from stcl.study.names import METHOD_NAMES
from stcl.study.plan import SPLITS, Plan

FLOAT = 4  # bytes of a stored number


@dataclass(frozen=True)
class Rate:
    """The seconds of one update of each method, and what such an update was."""

    seconds: dict[str, float]
    batch: int
    q: dict[str, int]
    nodes: int
    steps: int | None  # number of steps that the Krylov solver took; None if the form has no solver
    source: str
    batches: dict[str, tuple[float, float]]  # what _batches gives, where it is not (1, 0)


@dataclass(frozen=True)
class Step:
    """One job in a chain of jobs that wait for each other."""

    name: str
    seconds: float


class CostEstimate:
    """What a plan will cost, in numbers. Seconds are None for a problem whose times are not known."""

    def __init__(
        self, plan: Plan, published: dict[str, Any], solvers: dict[str, Any], timings: dict[str, dict[str, Any]]
    ) -> None:
        """`timings` has the records of the stage `timing`, under the names of their problems.

        A record says what was timed. One of other settings than the study has now does not count.
        """
        self.plan, self.published, self.solvers = plan, published, solvers
        known = {name: record for name, record in timings.items() if name in plan.config.problems}
        self.outdated = [name for name, r in known.items() if r.get("spec") != plan.timing_spec(name).json_dict()]
        current = {name: record for name, record in known.items() if name not in self.outdated}
        self.rates = published_rates(published) | measured_rates(plan, current)

    # -- training -------------------------------------------------------------------------------------------------

    def updates(self, cell: Cell) -> int:
        training = self.plan.blocks[cell.block].settings.training
        return training.epochs * ceil(cell.n_train / training.batch)

    def training_seconds(self, cell: Cell) -> float | None:
        """The seconds of a training.

        The time of an update is scaled with its samples and nodes, and its derivative part also with q, with the steps
        of the solver and with the batches of inputs at which tangents are judged. A batch without labels is a pass of
        the network more.
        """
        block = self.plan.blocks[cell.block]
        rate = self.rate(block.key)
        if rate is None or cell.method not in rate.seconds:
            return None
        data = rate.seconds.get("fno", 0.0)
        seconds = rate.seconds[cell.method]
        if cell.method != "fno":
            chosen = getattr(block.settings.methods, cell.method)
            steps = steps_of(chosen)
            if steps and rate.steps:
                seconds *= self._solver_seconds(steps) / self._solver_seconds(rate.steps)
            judged, more = _batches(chosen, block)
            known, before = rate.batches.get(cell.method, (1.0, 0.0))
            derivative = (seconds - data * (1 + before)) / known * chosen.q / rate.q[cell.method]
            seconds = data * (1 + more) + derivative * judged
        size = block.settings.training.batch / rate.batch * nodes(block) / rate.nodes
        return self.updates(cell) * size * seconds

    def rate(self, name: str) -> Rate | None:
        """The rate of a problem. A variant that was not timed is taken to be as fast as its problem."""
        return self.rates.get(name, self.rates.get(self.plan.config.loaded(name)))

    def _solver_seconds(self, steps: int) -> float:
        """The seconds of a published training with this many Krylov steps, linear between the fewest and the most."""
        times = {m: row["seconds"] for m, row in self.published["minres_iterations"].items()}
        low, high = min(times), max(times)
        return times[low] + (steps - low) * (times[high] - times[low]) / (high - low)

    # -- reference solver -----------------------------------------------------------------------------------------

    def data_seconds(self, dataset: str, split: Split) -> float | None:
        """The seconds of one core for a dataset. Candidates that the problem's filter may reject are solved, too."""
        block = self.plan.datasets[dataset]
        problem = problems.load(block.problem, **block.settings.options)
        return self._solve_seconds(block, "response", problem.candidates(self.plan.data_spec(dataset, split).samples))

    def bank_seconds(self, dataset: str, split: Split) -> float | None:
        bank = self.plan.bank_spec(dataset, split)
        return self._solve_seconds(self.plan.datasets[dataset], "tangent", bank.samples * bank.directions)

    def _solve_seconds(self, block: Block, kind: str, count: int) -> float | None:
        known = self.solvers.get(block.key, self.solvers.get(block.problem))
        return None if known is None else count * known[kind] * nodes(block) / known["nodes"]

    # -- disk -----------------------------------------------------------------------------------------------------

    def data_bytes(self, dataset: str, split: Split) -> int:
        """The bytes of inputs and responses. Where the network sees other inputs than the solver, both are stored.

        Those of the solver have twice as many bytes a number.
        """
        block = self.plan.datasets[dataset]
        problem = problems.load(block.problem, **block.settings.options)
        seen, taken = problem.layout.input_shape, problem.directions(1, "test").shape[1:]
        numbers = prod(seen) + prod(problem.layout.response_shape) + (2 * prod(taken) if taken != seen else 0)
        return FLOAT * self.plan.data_spec(dataset, split).samples * numbers

    def bank_bytes(self, dataset: str, split: Split) -> int:
        """The bytes of tangents, and of the directions that the samples share."""
        bank, shape = self.plan.bank_spec(dataset, split), layout(self.plan.datasets[dataset])
        tangents = bank.samples * prod(shape.tangent_shape)
        return FLOAT * bank.directions * (tangents + prod(shape.input_shape))

    @cached_property
    def weight_bytes(self) -> dict[str, int]:
        """The bytes of one network of each block, under the block's name."""
        return {name: network_bytes(block) for name, block in self.plan.blocks.items()}

    # -- the whole ------------------------------------------------------------------------------------------------

    def chain(self, cell: Cell) -> list[Step] | None:
        """The jobs that must end, one after another, before the cell has its weights. None if a time is not known."""
        dataset = self.plan.blocks[cell.block].dataset
        steps: list[tuple[str, float | None]] = [("data", self.data_seconds(dataset, "train"))]
        if cell.method == "offline_di":
            steps.append(("tangents", self.bank_seconds(dataset, "train")))
        if cell.lam == SELECTED:
            tuned = {c: self.training_seconds(c) for c in self.plan.tuning_cells(self.plan.decision(cell))}
            known = {c: seconds for c, seconds in tuned.items() if seconds is not None}
            if len(known) == len(tuned):
                longest = max(known, key=lambda c: known[c])
                steps.append((f"{METHOD_NAMES[longest.method]} for the choice of λ", known[longest]))
        name = f"{METHOD_NAMES[cell.method]} of {cell.block} with N = {cell.n_train}"
        steps.append((name, self.training_seconds(cell)))
        chain = [Step(name, seconds) for name, seconds in steps if seconds is not None]
        return chain if len(chain) == len(steps) else None

    def longest_chain(self) -> list[Step]:
        """The longest of the chains that are known."""
        chains = [chain for cell in self.plan.cells.values() if (chain := self.chain(cell))]
        return max(chains, key=lambda chain: sum(step.seconds for step in chain), default=[])

    def rows(self) -> list[dict[str, Any]]:
        """One row for each problem and each variant, its ablations included."""
        return [self._row(problem) for problem in self.plan.config.problems]

    def _row(self, problem: str) -> dict[str, Any]:
        cells = [c for c in self.plan.cells.values() if self.plan.blocks[c.block].key == problem]
        datasets = [name for name, block in self.plan.datasets.items() if block.key == problem]
        data = [(dataset, split) for dataset in datasets for split in SPLITS]
        banks = [(dataset, split) for dataset, split in self.plan.banks if dataset in datasets]
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
    """The rates from the published wall-clock table, one for each problem."""
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
            {},
        )
    return rates


def measured_rates(plan: Plan, timings: dict[str, dict[str, Any]]) -> dict[str, Rate]:
    """The rates from records of the stage `timing`, which are of the present settings, one for each problem."""
    rates = {}
    for problem, timing in timings.items():
        block = plan.blocks[problem]
        seconds, q, batches = {}, {}, {}
        for path, measured in timing["cells"].items():
            cell = Cell.parse(path)
            seconds[cell.method] = measured["epoch_seconds"] / ceil(cell.n_train / block.settings.training.batch)
            chosen = getattr(block.settings.methods, cell.method)
            q[cell.method] = chosen.q if isinstance(chosen, OfflineDi | Stcl) else 0
            batches[cell.method] = _batches(chosen, block)
        steps, batch = steps_of(block.settings.methods.stcl), block.settings.training.batch
        rates[problem] = Rate(seconds, batch, q, nodes(block), steps, f"measured on {timing['device']}", batches)
    return rates


def _batches(chosen: Settings, block: Block) -> tuple[float, float]:
    """The inputs of an update at which tangents are judged, and those without labels, in batches of labelled ones."""
    if not isinstance(chosen, Stcl) or chosen.inputs == "labelled":
        return 1.0, 0.0
    batch = block.settings.training.batch
    more = (chosen.unlabelled_batch or batch) / batch
    return more + (1.0 if chosen.inputs == "both" else 0.0), more


def steps_of(method: Settings | None) -> int | None:
    """How many steps the solver behind the targets of a method takes; None if it has no solver with steps."""
    form = method.form if isinstance(method, Stcl) else None
    if isinstance(form, KrylovTarget):
        return form.steps
    if isinstance(form, SolvedTarget) and isinstance(form.solver, Krylov | SpaceTime | Stokes):
        return form.solver.steps
    return None


def layout(block: Block) -> Layout:
    return problems.load(block.problem, **block.settings.options).layout


def nodes(block: Block) -> int:
    return prod(layout(block).grid)


def network_bytes(block: Block) -> int:
    shape = layout(block)
    return FLOAT * fno_parameters(len(shape.channels), len(shape.responses), block.settings.network)


def fno_parameters(channels: int, responses: int, network: Network) -> int:
    """The number of real weights of the FNO between these channels and responses, without building it.

    Each Fourier layer has two blocks of complex matrices, one for kx ≥ 0 and one for kx < 0, stored as real pairs.
    """
    width, head = network.width, network.head
    lift = width * (channels + 1)
    spectral = 2 * 2 * width**2 * network.modes**2
    pointwise = width * (width + 1)
    output = head * (width + 1) + responses * (head + 1)
    return lift + network.layers * (spectral + pointwise) + output


def _hours(seconds: list[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return sum(known) / 3600 if len(known) == len(seconds) else None
