"""This module says which jobs a study consists of: what each leaves, what it needs, and where its log is.

The rules say the same to snakemake. A test compares the two.
"""

from dataclasses import dataclass
from typing import Any

from stcl.reporting.figures.plan import figure_plans
from stcl.reporting.tables.plan import table_plans
from stcl.study.cells import SELECTED, Cell
from stcl.study.plan import SPLITS, Plan


@dataclass(frozen=True)
class Job:
    """A job of a study. Paths are relative to the folder of the results."""

    kind: str  # for example "trainings"
    name: str  # for example "diffusion/N32/stcl/lam1/seed0"
    file: str  # the last file that it writes
    log: str
    needs: tuple[str, ...] = ()  # files of other jobs
    spec: dict[str, Any] | None = None  # what the file says that it was made from, if it says so
    tuning: bool = False  # whether it is a training for the choice of λ, of which a divergence is a result


def jobs(plan: Plan) -> list[Job]:
    """Every job of a study, those that others need first."""
    tables, figures = table_plans(plan), figure_plans(plan)
    cells = plan.cells.values()
    records = dict.fromkeys(record for table in tables.values() for record in table.records)
    return [
        *(
            _store("datasets", "data", f"{name}/{split}", plan.data_spec(name, split).json_dict())
            for name in plan.datasets
            for split in SPLITS
        ),
        *(
            _store("banks", "banks", f"{name}/{split}", plan.bank_spec(name, split).json_dict())
            for name, split in plan.banks
        ),
        *(_training(plan, cell) for cell in cells if cell.lam != SELECTED),
        *(
            Job(
                "choices of λ",
                name,
                f"select/{name}.json",
                f"logs/select/{name}.log",
                needs=tuple(f"runs/{cell.path}/train.json" for cell in plan.tuning_cells(name)),
            )
            for name in plan.decisions
        ),
        *(_training(plan, cell) for cell in cells if cell.lam == SELECTED),
        *_evaluations(plan),
        *(job for name in plan.inverted for job in _inversions(plan, name)),
        *_measurements("timings", "timing", records),
        *_measurements("conditioning", "conditioning", records),
        *(
            Job("tables", name, f"tables/{name}.json", f"logs/tables/{name}.log", tuple(table.files))
            for name, table in tables.items()
        ),
        *(_list_of_cells(plan, problem) for problem in plan.config.problems),
        *(
            Job("figures", name, f"figures/{name}.png", f"logs/figures/{name}.log", (*figure.arguments, *figure.beside))
            for name, figure in figures.items()
        ),
        Job("report", "report.html", "report.html", "logs/report.log", tuple(f"tables/{name}.json" for name in tables)),
    ]


def _store(kind: str, folder: str, name: str, spec: dict[str, Any]) -> Job:
    needs = (f"data/{name}.json",) if folder == "banks" else ()
    return Job(kind, name, f"{folder}/{name}.json", f"logs/{folder}/{name}.log", needs, spec)


def _training(plan: Plan, cell: Cell) -> Job:
    block = plan.blocks[cell.block]
    dataset = block.dataset
    needs = [f"data/{dataset}/train.json", f"data/{dataset}/val.json"]
    needs += [f"banks/{dataset}/train.json"] if cell.method == "offline_di" else []
    needs += [f"banks/{dataset}/val.json"] if block.settings.training.jacobian_every else []
    needs += [f"select/{plan.decision(cell)}.json"] if cell.lam == SELECTED else []
    spec = plan.train_spec(cell).json_dict()
    record, log, tuning = f"runs/{cell.path}/train.json", f"logs/train/{cell.path}.log", cell in plan.tuning
    return Job("trainings", cell.path, record, log, tuple(needs), spec, tuning)


def _evaluations(plan: Plan) -> list[Job]:
    """One job for each cell, or for all cells of a block."""
    if plan.config.evaluation.jobs == "block":
        return [_evaluation(plan, block.name, plan.final_cells([block])) for block in plan.evaluated_blocks]
    return [_evaluation(plan, cell.path, [cell]) for cell in plan.evaluated_cells]


def _evaluation(plan: Plan, name: str, cells: list[Cell]) -> Job:
    dataset = plan.blocks[cells[0].block].dataset
    needs = [f"runs/{cell.path}/train.json" for cell in cells]
    needs += [f"data/{dataset}/test.json", f"banks/{dataset}/test.json"]
    return Job("evaluations", name, f"runs/{cells[-1].path}/errors.json", f"logs/evaluate/{name}.log", tuple(needs))


def _inversions(plan: Plan, name: str) -> list[Job]:
    """The solver's answers to the inverse problems of a problem, and what is found through its cells."""
    answers, spec = f"inverse/{name}/reference", plan.inverse_reference_spec(name).json_dict()
    needs = [f"runs/{cell.path}/train.json" for cell in plan.inverse_cells(name)]
    kind, record = "inverse problems", f"inverse/{name}.json"
    return [
        Job(kind, f"{name}/reference", f"{answers}.json", f"logs/{answers}.log", spec=spec),
        Job(kind, name, record, f"logs/inverse/{name}.log", (f"{answers}.json", *needs)),
    ]


def _list_of_cells(plan: Plan, problem: str) -> Job:
    name = f"by_problem/{problem}"
    needs = tuple(f"runs/{cell.path}/errors.json" for cell in plan.problem_cells(problem))
    return Job("tables", name, f"tables/{name}.csv", f"logs/tables/{name}.log", needs)


def _measurements(kind: str, folder: str, records: dict[str, None]) -> list[Job]:
    """The jobs whose records only tables read."""
    names = [record.removeprefix(f"{folder}/").removesuffix(".json") for record in records if record.startswith(folder)]
    return [Job(kind, name, f"{folder}/{name}.json", f"logs/{folder}/{name}.log") for name in names]
