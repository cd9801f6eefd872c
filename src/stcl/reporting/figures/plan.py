"""This module says which figures a study has, and what each is made from.

It imports nothing heavy, because the Snakefile reads it at every start.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stcl.problems import code_of
from stcl.study.cells import Cell
from stcl.study.plan import Plan
from stcl.study.schema import SketchCount


@dataclass(frozen=True)
class FigurePlan:
    """The module that draws a figure, its spec, and the files that it reads. Paths are relative to the results."""

    module: str
    spec: dict[str, Any]
    records: tuple[str, ...]  # files that the command line names
    beside: tuple[str, ...] = ()  # files that the module finds beside them
    stores: tuple[str, ...] = ()  # folders whose manifests the command line names
    problems: tuple[str, ...] = ()  # problems that the module loads by name

    @property
    def arguments(self) -> list[str]:
        """The files that the command line names: records, and manifests of stores."""
        return [*self.records, *(f"{store}.json" for store in self.stores)]

    @property
    def modules(self) -> list[str]:
        """The modules on whose code the figure depends. Imports alone do not lead to the problems."""
        return [f"stcl.reporting.figures.{self.module}", *(code_of(name) for name in self.problems)]


def figure_plans(plan: Plan) -> dict[str, FigurePlan]:
    """Every figure of the study under its name, in the order of the report."""
    problems = plan.config.problems
    figures = {"convergence": _convergence(plan)}
    figures |= {f"samples/{problem}": _samples(plan, problem) for problem in problems}
    figures["spread"] = _spread(plan)
    figures["ledger"] = _ledger(plan)
    study = plan.config.studies.sketch_count
    if study is not None:
        figures["sketch_tradeoff"] = _sketch_tradeoff(plan, study)
    if plan.config.studies.conditioning_ablation:
        tables = ("tables/conditioning_ablation.csv",)
        figures["conditioning_ablation"] = FigurePlan("conditioning_ablation", {"dpi": plan.config.figures.dpi}, tables)
    if plan.config.studies.beyond:
        figures["beyond"] = FigurePlan("beyond", {"dpi": plan.config.figures.dpi}, ("tables/beyond.csv",))
    figures |= {f"inverse/{problem}": _inverse(plan, problem) for problem in plan.inverted}
    return figures


def _inverse(plan: Plan, problem: str) -> FigurePlan:
    """The plan of `inverse`. It shows the training size of the other figures, and the first seed."""
    cells = {cell.method: cell.path for cell in plan.shown_cells(problem)}
    return FigurePlan(
        "inverse",
        {"dpi": plan.config.figures.dpi, "colormap": plan.config.figures.colormap, "cells": cells},
        (f"inverse/{problem}.json",),
        beside=(f"inverse/{problem}.npz",),
        stores=(f"inverse/{problem}/reference",),
        problems=(plan.config.loaded(problem),),
    )


def _convergence(plan: Plan) -> FigurePlan:
    """The plan of `convergence`. Histories hold both kinds of errors, so it reads no data."""
    figures, cells = plan.config.figures, plan.convergence_cells()
    return FigurePlan(
        "convergence",
        {"dpi": figures.dpi, "relative": figures.relative, "smooth": figures.smooth},
        _runs(cells, "train.json"),
        beside=_runs(cells, "history.csv"),
    )


def _samples(plan: Plan, problem: str) -> FigurePlan:
    """The plan of `samples`. The weights of the first seed predict a sample of the test split."""
    cells = plan.shown_cells(problem)
    return FigurePlan(
        "samples",
        {"dpi": plan.config.figures.dpi, "colormap": plan.config.figures.colormap},
        _runs(cells, "train.json"),
        beside=_runs(cells, "weights.pt"),
        stores=(f"data/{problem}/test", f"banks/{problem}/test"),
        problems=(plan.config.loaded(problem),),
    )


def _spread(plan: Plan) -> FigurePlan:
    cells = [cell for problem in plan.config.problems for cell in plan.shown_cells(problem, all_seeds=True)]
    return FigurePlan(
        "spread",
        {"dpi": plan.config.figures.dpi},
        _runs(cells, "errors.npz"),
        beside=_runs(cells, "train.json", "errors.json"),
    )


def _ledger(plan: Plan) -> FigurePlan:
    problems = plan.config.problems
    return FigurePlan(
        "ledger",
        {"dpi": plan.config.figures.dpi},
        (
            *(f"tables/{table}.csv" for table in ("field_error", "jacobian_error", "wallclock")),
            *(f"data/{problem}/{split}.ledger.json" for problem in problems for split in ("train", "val")),
            *(f"banks/{name}/train.ledger.json" for name, s in problems.items() if s.methods.offline_di),
        ),
    )


def _sketch_tradeoff(plan: Plan, study: SketchCount) -> FigurePlan:
    return FigurePlan(
        "sketch_tradeoff",
        {"dpi": plan.config.figures.dpi, "grid": study.runtime_grid},
        tuple(f"tables/{table}.csv" for table in ("sketch_resolution", "gradient_variance", "sketch_runtime")),
    )


def _runs(cells: Iterable[Cell], *names: str) -> tuple[str, ...]:
    """The files of these names of all cells."""
    return tuple(f"runs/{cell.path}/{name}" for cell in cells for name in names)
