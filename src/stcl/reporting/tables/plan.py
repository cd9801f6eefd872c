"""This module says which tables a study has, and what each is made from.

It imports nothing heavy, because the Snakefile reads it at every start.
"""

from dataclasses import dataclass
from typing import Any

from stcl.reporting.variants import differences, variants
from stcl.study.blocks import Block
from stcl.study.cells import Cell
from stcl.study.plan import Plan
from stcl.study.schema import MinresIterations, SketchCount


@dataclass(frozen=True)
class TablePlan:
    """The module that builds a table, its spec, and the files that it reads. Paths are relative to the results."""

    module: str
    spec: dict[str, Any]
    cells: tuple[Cell, ...] = ()
    records: tuple[str, ...] = ()
    published: bool = False  # whether a reduced study shows the paper's numbers, too
    partial: bool = False  # whether records may be missing in a preview

    @property
    def files(self) -> list[str]:
        """The files that must be there before the table is built."""
        names = ("train.json", "errors.json", "history.csv")
        return [f"runs/{cell.path}/{name}" for cell in self.cells for name in names] + list(self.records)

    @property
    def arguments(self) -> list[str]:
        """What the command line names: folders of runs, and single records."""
        return [f"runs/{cell.path}" for cell in self.cells] + list(self.records)


def table_plans(plan: Plan) -> dict[str, TablePlan]:
    """Every table of the study under its name."""
    main = tuple(plan.final_cells(plan.problem_blocks))
    studies = plan.config.studies
    described = _described(plan)
    spec: dict[str, Any]
    tables = {
        name: TablePlan("errors", {"table": name} | described, main) for name in ("field_error", "jacobian_error")
    }
    if any(cell.method != "fno" for cell in main):
        settings = {"problems": _settings(plan)} | described
        tables["per_cell_settings"] = TablePlan("per_cell_settings", settings, main)
    tables["wallclock"] = TablePlan(
        "wallclock",
        described,
        records=(
            *(f"timing/{name}.json" for name in plan.config.problems),
            *(f"banks/{name}/train.ledger.json" for name, s in plan.config.problems.items() if s.methods.offline_di),
            *(f"runs/{cell.path}/train.json" for cell in _ending_early(plan)),
        ),
    )
    if studies.minres_iterations:
        blocks = plan.minres_blocks
        cells = tuple(plan.final_cells(blocks))
        spec = {"variants": _variants(blocks)} | _studied(plan, studies.minres_iterations)
        timing = ("timing/minres_iterations.json",)
        tables["minres_iterations"] = TablePlan("minres_iterations", spec, cells, timing)
    if studies.sketch_count:
        blocks = plan.sketch_blocks
        cells = tuple(plan.final_cells(blocks))
        sketches = {"variants": _variants(blocks)} | _studied(plan, studies.sketch_count)
        tables["sketch_resolution"] = TablePlan("sketch", sketches | {"table": "sketch_resolution"}, cells)
        spec = sketches | {"table": "gradient_variance", "first_epoch": studies.sketch_count.first_epoch}
        tables["gradient_variance"] = TablePlan("sketch", spec, cells)
        spec = sketches | {"grid": studies.sketch_count.runtime_grid}
        tables["sketch_runtime"] = TablePlan("sketch_runtime", spec, records=("timing/sketch_runtime.json",))
    if studies.forms:
        tables["forms"] = _forms(plan)
    if studies.conditioning_ablation:
        tables["conditioning_ablation"] = _conditioning_ablation(plan)
    if studies.beyond:
        tables["beyond"] = _beyond(plan)
    if studies.conditioning:
        names = [name for name in plan.config.problems if name in studies.conditioning.options]
        records = tuple(f"conditioning/{name}.json" for name in names)
        forms = {name: _form(plan.config.problems[name].stcl.settled_form) for name in names}
        tables["conditioning"] = TablePlan("conditioning", {"forms": forms}, records=records)
    if plan.inverted:
        spec = {"cells": [cell.path for name in plan.inverted for cell in plan.inverse_cells(name)]}
        records = tuple(f"inverse/{name}.json" for name in plan.inverted)
        tables["inverse"] = TablePlan("inverse", spec, records=records, partial=True)
    tables["claims"] = _claims(plan)
    return tables


def _ending_early(plan: Plan) -> list[Cell]:
    """The timed cells that may end early. What they cost is known only after they were trained."""
    names = [name for name, settings in plan.config.problems.items() if settings.training.finish_after is not None]
    return [cell for name in names for cell in plan.shown_cells(name, all_seeds=True)]


def _claims(plan: Plan) -> TablePlan:
    """The plan of `claims`. It reads what other tables read, and asks for no study of its own."""
    studies = plan.config.studies
    blocks, timings = list(plan.problem_blocks), list(plan.config.problems)
    spec: dict[str, Any] = {"reduced": plan.config.reduced, "variants": {}}
    if studies.minres_iterations and studies.minres_iterations.problem == "helmholtz":
        blocks += plan.minres_blocks
        timings.append("minres_iterations")
        spec["variants"] |= _variants(plan.minres_blocks)
    if studies.sketch_count and studies.sketch_count.problem == "diffusion":
        blocks += plan.sketch_blocks
        timings.append("sketch_runtime")
        spec["variants"] |= _variants(plan.sketch_blocks)
        spec |= {"first_epoch": studies.sketch_count.first_epoch, "runtime_grid": studies.sketch_count.runtime_grid}
    # A variant with the published settings stands for its problem, whose own settings may differ from them.
    stands_for = {name: p for name, p in problems_of_variants(plan).items() if name == f"{p}_published"}
    blocks = [block for block in blocks if block.name not in stands_for.values()]
    timings = [group for group in timings if group not in stands_for.values()]
    spec["stands_for"] = stands_for
    records = tuple(f"timing/{group}.json" for group in timings)
    return TablePlan("claims", spec, tuple(plan.final_cells(blocks)), records, published=True)


def problems_of_variants(plan: Plan) -> dict[str, str]:
    """The problem of each variant of a study."""
    return variants(plan.config.model_dump(mode="json", by_alias=True))


def _described(plan: Plan) -> dict[str, Any]:
    """What the specs of tables say about variants and files of the user. A study without them says nothing."""
    config = plan.config.model_dump(mode="json", by_alias=True)
    found = {"variant_of": variants(config), "note": " ".join(differences(config))}
    return {key: value for key, value in found.items() if value}


def _forms(plan: Plan) -> TablePlan:
    """The plan of `forms`. A problem's own cells at the N of the comparison come first, then those with other forms."""
    shown: dict[str, dict[str, str]] = {}
    cells: list[Cell] = []
    for name in plan.config.problems:
        study = plan.config.studies.forms.get(name)
        if study is not None:
            blocks = [plan.blocks[name], *(block for block in plan.form_blocks if block.key == name)]
            cells += [cell for cell in plan.final_cells(blocks) if cell.n_train == study.n_train]
            shown |= {
                block.name: {"problem": name, "form": _form(block.settings.stcl.settled_form)} for block in blocks
            }
    return TablePlan("forms", {"variants": shown}, tuple(cells))


def _conditioning_ablation(plan: Plan) -> TablePlan:
    """The plan of `conditioning_ablation`. Each form has its cells and its measurement, the references only cells."""
    forms: dict[str, dict[str, str]] = {}
    cells: list[Cell] = []
    for problem, shown in plan.ablation.items():
        n = plan.config.studies.conditioning_ablation[problem].n_train
        cells += [c for c in plan.final_cells([plan.blocks[problem]]) if c.method != "stcl" and c.n_train == n]
        for name, block in shown.items():
            cells += [c for c in plan.final_cells([block]) if c.method == "stcl" and c.n_train == n]
            words = {"name": name.replace("_", " "), "form": _form(block.settings.stcl.settled_form)}
            forms[block.name] = words | {"problem": problem, "measured": plan.measured_block(block)}
    records = dict.fromkeys(f"conditioning/{form['measured']}.json" for form in forms.values())
    return TablePlan("conditioning_ablation", {"forms": forms}, tuple(cells), tuple(records))


def _beyond(plan: Plan) -> TablePlan:
    """The plan of `beyond`. Its costs are those of the stores and of epochs that were measured side by side."""
    cells: list[Cell] = []
    records: list[str] = []
    described: dict[str, list[str]] = {}
    datasets: dict[str, str] = {}
    for problem in plan.beyond:
        shown = plan.beyond_cells(problem)
        cells += shown
        described |= {cell.path.rpartition("/")[0]: [problem, loss] for cell, loss in shown.items()}
        datasets[problem] = dataset = plan.beyond[problem][-1].block.dataset
        records += [f"timing/{problem}-beyond.json", *(f"data/{dataset}/{s}.ledger.json" for s in ("train", "val"))]
        records.append(f"banks/{dataset}/train.ledger.json")
    return TablePlan("beyond", {"problems": datasets, "cells": described}, tuple(cells), tuple(records))


def _studied(plan: Plan, study: MinresIterations | SketchCount) -> dict[str, Any]:
    """The problem of an ablation, by its name in the study and by what is loaded, and its N."""
    return {"problem": study.problem, "loaded": plan.config.loaded(study.problem), "n_train": study.n_train}


def _variants(blocks: list[Block]) -> dict[str, dict[str, int]]:
    return {block.name: dict(block.variant) for block in blocks}


def _settings(plan: Plan) -> dict[str, Any]:
    """The bank, form and λ grids of each problem."""
    found = {}
    for name, settings in plan.config.problems.items():
        tuned = {method: chosen for method, chosen in settings.methods.enabled() if method != "fno"}
        validated = plan.config.selection == "validation"
        found[name] = {
            "bank": settings.bank.train,
            "form": _form(tuned["stcl"].form) if "stcl" in tuned else "",
            "grids": {method: chosen.lambda_grid if validated else None for method, chosen in tuned.items()},
        }
    return found


def _switches(metric: Any) -> dict[str, bool]:
    """The parts of a metric that an ablation can switch off."""
    parts = {"projection": "project", "weights": "weigh"}
    return {part: getattr(metric, key, True) for part, key in parts.items()}


def _form(form: Any) -> str:
    """The form, its solver and steps and its metric in a few words."""
    words = [form.name.replace("_", " ")]
    solver: Any = getattr(form, "solver", None)
    if hasattr(solver, "name"):
        words.append(solver.name.replace("_", " "))
    steps, metric = (getattr(form, key, None) or getattr(solver, key, None) for key in ("steps", "metric"))
    if steps is not None:
        words.append(f"{steps} steps")
    if metric is not None:
        words.append(metric.name.replace("_", " "))
        words += [f"no {switch}" for switch, on in _switches(metric).items() if not on]
    return ", ".join(words)
