"""The modules whose code decides what a job computes, by the stage of the job.

A code id follows imports but not what is loaded by name, so the modules that are loaded by name are listed here, too.
"""

from collections.abc import Iterator

from stcl.losses.settings import SolvedTarget, metric_of
from stcl.study.cells import Cell
from stcl.study.plan import Plan
from stcl.study.schema import ProblemSettings


def of_data(plan: Plan, dataset: str) -> list[str]:
    return ["stcl.stages.data", _problem(plan.datasets[dataset].problem)]


def of_bank(plan: Plan, dataset: str) -> list[str]:
    return ["stcl.stages.bank", _problem(plan.datasets[dataset].problem)]


def of_train(plan: Plan, cell: Cell) -> list[str]:
    modules = ["stcl.stages.train", *_of_cell(plan, cell)]
    measured = plan.blocks[cell.block].settings.training.jacobian_every is not None
    return [*modules, "stcl.stages.errors"] if measured else modules


def of_evaluate(plan: Plan, block: str) -> list[str]:
    """The modules of an evaluation, which are the same for all cells of a block."""
    return ["stcl.stages.evaluate", _problem(plan.blocks[block].problem)]


def of_timing(plan: Plan, group: str) -> list[str]:
    return ["stcl.stages.timing", *(m for cell in plan.timing_cells(group) for m in _of_cell(plan, cell))]


def of_conditioning(plan: Plan, name: str) -> list[str]:
    block = plan.blocks[name]
    return ["stcl.stages.conditioning", _problem(block.problem), *_form(block.settings)]


def of_inverse_reference(plan: Plan, name: str) -> list[str]:
    return ["stcl.stages.inverse_reference", _problem(plan.blocks[name].problem)]


def of_inverse(plan: Plan, name: str) -> list[str]:
    return ["stcl.stages.inverse", _problem(plan.blocks[name].problem)]


def _of_cell(plan: Plan, cell: Cell) -> Iterator[str]:
    block = plan.blocks[cell.block]
    yield _problem(block.problem)
    yield f"stcl.stages.methods.{cell.method}"
    if cell.method == "stcl":
        yield from _form(block.settings)


def _problem(name: str) -> str:
    return f"stcl.problems.{name}"


def _form(settings: ProblemSettings) -> Iterator[str]:
    """The modules that are loaded by the names of the sTCL form, of its solver and of its metric."""
    form = settings.stcl.settled_form
    yield f"stcl.losses.forms.{form.name}"
    if isinstance(form, SolvedTarget):
        yield f"stcl.losses.solvers.{form.solver.name}"
    metric = metric_of(form)
    if metric is not None:
        yield f"stcl.losses.metrics.{metric.name}"
