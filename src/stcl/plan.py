"""From a configuration to the nodes of the workflow: which datasets, banks and cells there are, and their specs.

Imports nothing heavy: the Snakefile reads this at every start. A spec holds the slice of the configuration that its
node depends on and nothing else, so that a change reruns exactly what it touches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stcl.config import Config, ProblemSettings, Tuned
from stcl.provenance import canonical, code_id

SELECTED = "selected"


@dataclass(frozen=True)
class Cell:
    """One training run. `lam` is a number, None for fno, or SELECTED: whatever the validation grid decides."""

    problem: str
    n_train: int
    method: str
    lam: float | str | None
    seed: int

    @property
    def path(self) -> str:
        lam = "0" if self.lam is None else self.lam if isinstance(self.lam, str) else f"{self.lam:g}"
        return f"{self.problem}/N{self.n_train}/{self.method}/lam{lam}/seed{self.seed}"


class Plan:
    """The whole study. Paths are relative to the workflow's folder."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.results = f"results/{config.preset}"

    # -- cells ------------------------------------------------------------------------------------------------

    def final_cells(self, problem: str) -> list[Cell]:
        """The cells whose errors are reported."""
        settings = self.config.problems[problem]
        return [
            Cell(problem, n, method, _reported_lambda(chosen, n), seed)
            for n in settings.train_sizes
            for method, chosen in settings.methods.enabled()
            for seed in self.config.seeds
        ]

    def tuning_cells(self, problem: str, n_train: int, method: str) -> list[Cell]:
        """The cells that a λ grid is decided by; none if there is no grid."""
        chosen = getattr(self.config.problems[problem].methods, method)
        if _reported_lambda(chosen, n_train) != SELECTED:
            return []
        grid = chosen.lambdas(n_train)
        return [Cell(problem, n_train, method, lam, seed) for lam in grid for seed in self.config.tune_seeds]

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Every cell by its path."""
        return {cell.path: cell for problem in self.config.problems for cell in self._cells(problem)}

    def _cells(self, problem: str) -> Iterator[Cell]:
        settings = self.config.problems[problem]
        yield from self.final_cells(problem)
        for n in settings.train_sizes:
            for method, _ in settings.methods.enabled():
                yield from self.tuning_cells(problem, n, method)

    # -- specs ------------------------------------------------------------------------------------------------

    def data_spec(self, problem: str, split: str) -> str:
        settings = self.config.problems[problem]
        return canonical(_problem(problem, settings) | {"split": split, "samples": getattr(settings.samples, split)})

    def bank_spec(self, problem: str, split: str) -> str:
        """The train bank follows the training basis; errors are always measured along the problem's own prior."""
        settings = self.config.problems[problem]
        train = split == "train"
        return canonical(
            _problem(problem, settings)
            | {
                "split": split,
                "samples": max(settings.train_sizes) if train else getattr(settings.samples, split),
                "directions": getattr(settings.bank, split),
                "basis": settings.basis if train else "prior",
                "check": settings.bank.check if train else True,
            }
        )

    def train_spec(self, cell: Cell) -> str:
        settings = self.config.problems[cell.problem]
        method = getattr(settings.methods, cell.method)
        return canonical(
            _problem(cell.problem, settings)
            | {
                "n_train": cell.n_train,
                "method": cell.method,
                "lam": None if cell.lam == SELECTED else cell.lam,
                "seed": cell.seed,
                "network": settings.network.model_dump(),
                "training": settings.training.model_dump(),
                "settings": method.model_dump(exclude={"lam"}),
                "basis": settings.basis if cell.method == "stcl" else None,
            }
        )

    # -- code -------------------------------------------------------------------------------------------------

    def code(self, stage: str, problem: str) -> str:
        """Identity of a stage's code together with its own problem's, not with the other problems'."""
        return code_id(f"stcl.{stage}", f"stcl.problems.{problem}")

    def train_code(self, cell: Cell) -> str:
        """As `code`, with the modules of the cell's method, form and metric."""
        modules = ["stcl.train", f"stcl.problems.{cell.problem}", f"stcl.methods.{cell.method}"]
        if cell.method == "stcl":
            form = self.config.problems[cell.problem].methods.stcl.form
            modules.append(f"stcl.losses.forms.{form.name}")
            metric = getattr(form, "metric", None)
            if metric is not None:
                modules.append(f"stcl.losses.metrics.{metric.name}")
        return code_id(*modules)


def _problem(name: str, settings: ProblemSettings) -> dict[str, Any]:
    return {"problem": name, "options": settings.options}


def _reported_lambda(chosen: Any, n_train: int) -> float | str | None:
    if not isinstance(chosen, Tuned):
        return None
    grid = chosen.lambdas(n_train)
    return grid[0] if len(grid) == 1 else SELECTED
