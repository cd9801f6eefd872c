"""The modules whose code decides what a job computes, by the stage of the job.

A code id follows imports but not what is loaded by name, so the modules that are loaded by name are listed here, too.
"""

from collections.abc import Iterator

from stcl.losses.settings import metric_of, solvers_of
from stcl.problems import code_of
from stcl.study.cells import Cell
from stcl.study.plan import Plan
from stcl.study.schema import ProblemSettings


def of_data(plan: Plan, dataset: str) -> list[str]:
    return ["stcl.stages.data", code_of(plan.datasets[dataset].problem)]


def of_bank(plan: Plan, dataset: str) -> list[str]:
    return ["stcl.stages.bank", code_of(plan.datasets[dataset].problem)]


def of_train(plan: Plan, cell: Cell) -> list[str]:
    modules = ["stcl.stages.train", *_of_cell(plan, cell)]
    measured = plan.blocks[cell.block].settings.training.jacobian_every is not None
    return [*modules, "stcl.stages.errors"] if measured else modules


def of_evaluate(plan: Plan, block: str) -> list[str]:
    """The modules of an evaluation, which are the same for all cells of a block."""
    return ["stcl.stages.evaluate", code_of(plan.blocks[block].problem)]


def of_timing(plan: Plan, group: str) -> list[str]:
    return ["stcl.stages.timing", *(m for cell in plan.timing_cells(group) for m in _of_cell(plan, cell))]


def of_conditioning(plan: Plan, name: str) -> list[str]:
    block = plan.blocks[name]
    return ["stcl.stages.conditioning", code_of(block.problem), *_form(block.settings)]


def of_inverse_reference(plan: Plan, name: str) -> list[str]:
    return ["stcl.stages.inverse_reference", code_of(plan.blocks[name].problem)]


def of_inverse(plan: Plan, name: str) -> list[str]:
    return ["stcl.stages.inverse", code_of(plan.blocks[name].problem)]


def _of_cell(plan: Plan, cell: Cell) -> Iterator[str]:
    block = plan.blocks[cell.block]
    yield code_of(block.problem)
    yield f"stcl.stages.methods.{cell.method}"
    if cell.method == "stcl":
        yield from _form(block.settings)
        if block.settings.stcl.inputs != "labelled":
            yield "stcl.losses.beyond_labels"


def _form(settings: ProblemSettings) -> Iterator[str]:
    """The modules that are loaded by the names of the sTCL form, of its solver and of its metric."""
    form = settings.stcl.settled_form
    yield f"stcl.losses.forms.{form.name}"
    for solver in solvers_of(form):
        yield f"stcl.losses.solvers.{solver.name}"
    metric = metric_of(form)
    if metric is not None:
        yield f"stcl.losses.metrics.{metric.name}"
