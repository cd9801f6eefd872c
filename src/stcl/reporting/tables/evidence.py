"""Evidence is what claims are judged by: the paper's numbers, or those of one's own runs under the same names.

A name is the path of a number in config/published.yaml, for example ("field_error", "diffusion", 128, "stcl").
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan, nan
from pathlib import Path
from typing import Any

from stcl.reporting.runs import Run, records_among, runs_among
from stcl.reporting.tables.estimate import ERRORS, Estimate, estimate, percent
from stcl.reporting.tables.timing import training_seconds
from stcl.reporting.tables.variance_share import mean_variance

Name = tuple[str | int, ...]
Number = tuple[float, float | None]  # mean and deviation over seeds

VARIANCES = ("raw", "weighted", "total")
TABLES = (*ERRORS, "wallclock", "minres_iterations", "sketch_resolution", "sketch_runtime", "gradient_variance")


@dataclass
class Evidence:
    """Numbers under their names. It notes which of them were asked for, and which of those are not there."""

    numbers: dict[Name, Number]
    expected: list[Name]  # what there would be if everything had been run
    sources: dict[Name, str]  # folders and records below the results
    unfinished: dict[Name, list[str]]  # seeds that the number does not have yet
    used: dict[str, None] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)

    def fresh(self) -> "Evidence":
        """The same numbers, of which none has been asked for."""
        return Evidence(self.numbers, self.expected, self.sources, self.unfinished)

    def mean(self, *name: str | int) -> float:
        """The number of this name. One that is not there is not a number."""
        return self._number(name)[0]

    def deviation(self, *name: str | int) -> float:
        """The deviation over seeds of the number of this name. One seed has none."""
        mean, deviation = self._number(name)
        if deviation is None and not isnan(mean):
            self.lack(f"{self.sources.get(name, _text(name))}: a second seed")
        return nan if deviation is None else deviation

    def keys(self, *beginning: str | int, at_least: int = 1) -> list[Any]:
        """What follows the beginning of names, in order. Too few of them are noted as absent."""
        depth = len(beginning)
        found = {name[depth] for name in self.expected if len(name) > depth and name[:depth] == beginning}
        if len(found) < at_least:
            self.lack(f"{_text(beginning)}: {at_least} or more, not {len(found)}")
        return sorted(found)

    def lack(self, what: str) -> None:
        self.absent[what] = None

    def _number(self, name: Name) -> Number:
        source = self.sources.get(name, _text(name))
        if name not in self.numbers:
            self.lack(source)
            return nan, None
        self.used[source] = None
        for seed in self.unfinished.get(name, []):
            self.lack(seed)
        return self.numbers[name]


def published_evidence(published: dict[str, Any]) -> Evidence:
    """The paper's numbers."""
    numbers = {name: number for table in TABLES for name, number in _leaves(published.get(table, {}), (table,))}
    return Evidence(numbers, list(numbers), {}, {})


def own_evidence(spec: dict[str, Any], inputs: list[Path], published: Evidence) -> Evidence:
    """The numbers of one's own runs and timings.

    A study of full size is expected to have all that was published. A reduced one has sizes of its own, so it is
    expected to have what it plans for the problems of the paper.
    """
    numbers: dict[Name, Number] = {}
    sources: dict[Name, str] = {}
    unfinished: dict[Name, list[str]] = {}
    variants, stands_for = spec["variants"], spec["stands_for"]

    def add(name: Name, runs: list[Run], value: Estimate) -> None:
        sources[name] = f"runs/{runs[0].cell.path.rpartition('/')[0]}"
        unfinished[name] = [f"runs/{run.cell.path}" for run in runs if run.status != "done"]
        if value.values:
            numbers[name] = (nan if value.mean is None else value.mean, value.std)

    for _, grouped in groupby(runs_among(inputs), lambda run: run.folder.parent):
        members = list(grouped)
        variant = variants.get(members[0].cell.block, {})
        for quantity in ERRORS:
            add(_error_name(quantity, members[0], variant, stands_for), members, percent(members, quantity))
        if "grid" in variant:
            for part in VARIANCES:
                found = _variance(members, part, spec["first_epoch"])
                add(("gradient_variance", variant["grid"], variant["q"], part), members, found)
        for name in _time_names(members[0], variant, spec.get("runtime_grid"), stands_for):
            group = members[0].cell.block if name[0] == "wallclock" else name[0]
            sources[name] = f"timing/{group}.json"
    for (block, method), seconds in training_seconds(list(records_among(inputs).values())).items():
        variant = variants.get(block, {})
        if "steps" in variant:
            numbers["minres_iterations", variant["steps"], "seconds"] = (seconds, None)
        elif "grid" in variant:
            numbers["sketch_runtime", variant["q"]] = (seconds / 60, None)
        else:
            numbers["wallclock", stands_for.get(block, block), method] = (seconds, None)
    problems = set(published.keys("field_error"))
    planned = [name for name in sources if name[0] not in (*ERRORS, "wallclock") or name[1] in problems]
    return Evidence(numbers, planned if spec["reduced"] else published.expected, sources, unfinished)


def _variance(runs: list[Run], part: str, first_epoch: int) -> Estimate:
    return estimate(runs, lambda run: mean_variance(run, part, first_epoch))


def _error_name(quantity: str, run: Run, variant: dict[str, int], stands_for: dict[str, str]) -> Name:
    if "steps" in variant:
        return "minres_iterations", variant["steps"], quantity
    if "grid" in variant:
        return "sketch_resolution", variant["grid"], variant["q"], quantity
    return quantity, stands_for.get(run.cell.block, run.cell.block), run.cell.n_train, run.cell.method


def _time_names(run: Run, variant: dict[str, int], runtime_grid: int | None, stands_for: dict[str, str]) -> list[Name]:
    if "steps" in variant:
        return [("minres_iterations", variant["steps"], "seconds")]
    if "grid" in variant:
        return [("sketch_runtime", variant["q"])] if variant["grid"] == runtime_grid else []
    return [("wallclock", stands_for.get(run.cell.block, run.cell.block), run.cell.method)]


def _leaves(node: Any, name: Name) -> Iterable[tuple[Name, Number]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*name, key))
    else:
        yield name, (node[0], node[1]) if isinstance(node, list) else (node, None)


def _text(name: Name) -> str:
    return "/".join(map(str, name))
