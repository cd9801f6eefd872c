"""The plan of a study: the datasets, banks of tangents and cells that a configuration asks for, and their specs.

This module imports nothing heavy, because the Snakefile reads it at every start. A spec holds what its job needs of the
configuration and nothing else, so that a change reruns exactly what it touches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

from stcl.problems.base import Split
from stcl.study.blocks import Block, Blocks, derived, lam_of, untuned
from stcl.study.cells import SELECTED, Cell
from stcl.study.inversions import Inversions
from stcl.study.schema import Config, ProblemSettings
from stcl.study.specs.bank import BankSpec
from stcl.study.specs.conditioning import ConditioningSpec
from stcl.study.specs.data import DataSpec
from stcl.study.specs.inverse import InverseReferenceSpec, InverseSpec
from stcl.study.specs.timing import TimingSpec
from stcl.study.specs.train import TrainSpec

SPLITS: tuple[Split, ...] = get_args(Split)


class Plan(Blocks):
    """The whole study. Paths are relative to the workflow's folder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.results = f"results/{config.preset}"

    # -- what blocks share ------------------------------------------------------------------------------------

    @cached_property
    def evaluated_blocks(self) -> list[Block]:
        """The blocks whose errors are reported. A long run shows its history alone."""
        long = {block.name for block in self.long_blocks.values()}
        return [block for block in self.blocks.values() if block.name not in long]

    @cached_property
    def datasets(self) -> dict[str, Block]:
        """One block of each dataset. All blocks of a dataset agree in what the data depends on."""
        return {block.dataset: block for block in reversed(self.blocks.values())}

    @property
    def banks(self) -> list[tuple[str, Split]]:
        """The banks as pairs of dataset and split. Errors are measured on all test banks.

        A comparison beyond the labels may watch the Jacobian error in training where its problem does not.
        """
        problems = self.config.problems.items()
        banks: list[tuple[str, Split]] = [(dataset, "test") for dataset in self.datasets]
        banks += [(name, "train") for name, settings in problems if settings.methods.offline_di]
        beyond = [block for block in self.beyond_blocks if block.settings.methods.offline_di]
        banks += dict.fromkeys((block.dataset, "train") for block in beyond if block.dataset != block.key)
        watched = [block for block in self.blocks.values() if block.settings.training.jacobian_every]
        banks += dict.fromkeys((block.dataset, "val") for block in watched)
        return banks

    # -- cells ------------------------------------------------------------------------------------------------

    def final_cells(self, blocks: Iterable[Block]) -> list[Cell]:
        """The cells whose errors are reported."""
        return [
            Cell(block.name, n, method, lam_of(block, chosen, n), seed)
            for block in blocks
            for n in block.settings.train_sizes
            for method, chosen in block.settings.methods.enabled()
            for seed in block.seeds
        ]

    def problem_cells(self, problem: str) -> list[Cell]:
        """Every evaluated cell of a problem, those of its ablations included."""
        return self.final_cells(block for block in self.evaluated_blocks if block.key == problem)

    @property
    def evaluated_cells(self) -> list[Cell]:
        """The cells whose errors are measured."""
        return self.final_cells(self.evaluated_blocks)

    def beyond_cells(self, key: str) -> dict[Cell, str]:
        """The cells of the comparison beyond the labels of a problem, each with the name of its loss, if it has one."""
        return {
            cell: row.loss
            for row in self.beyond[key]
            for cell in self.final_cells([row.block])
            if cell.n_train == row.n_train and cell.method in row.methods
        }

    def shown_cells(self, name: str, all_seeds: bool = False) -> list[Cell]:
        """The cells of each method at the N that is shown, with the first seed or with all of them."""
        block = self.blocks[name]
        seeds = block.seeds if all_seeds else block.seeds[:1]
        cells = self.final_cells([block])
        return [c for c in cells if c.n_train == shown_size(block.settings) and c.seed in seeds]

    def convergence_cells(self) -> list[Cell]:
        """The cells of each problem's methods with the first seed, taken from the long run where there is one."""
        return [cell for name in self.config.problems for cell in self._longest_cells(name)]

    def _longest_cells(self, name: str) -> list[Cell]:
        run = self.config.studies.long_runs.get(name)
        if run is None:
            return self.shown_cells(name)
        block = self.long_blocks.get(name, self.blocks[name])
        return [c for c in self.final_cells([block]) if c.n_train == run.n_train and c.seed == block.seeds[0]]

    def decision(self, cell: Cell) -> str:
        """The name of the decision from which a cell with a selected λ takes it."""
        block = self.blocks[cell.block]
        if block.settings.selection_scope == "problem":
            return block.key
        return f"{block.key}/N{cell.n_train}/{cell.method}"

    def tuning_cells(self, decision: str) -> list[Cell]:
        """The cells that a decision compares: every λ of the grid with every tuning seed."""
        name, _, scope = decision.partition("/")
        settings = self.config.problems[name]
        if scope:
            size, _, method = scope.partition("/")
            n_train, methods = int(size.removeprefix("N")), [method]
        else:
            n_train = min(settings.train_sizes)
            methods = [method for method, chosen in settings.methods.enabled() if getattr(chosen, "lambda_grid", None)]
        return [
            Cell(name, n_train, method, lam, seed)
            for method in methods
            for lam in getattr(settings.methods, method).lambda_grid
            for seed in settings.tune_seeds or self.config.tune_seeds
        ]

    @cached_property
    def tuning(self) -> frozenset[Cell]:
        """The cells of all decisions. None of them is a final cell: those of a tuned method take the chosen λ."""
        return frozenset(cell for decision in self.decisions for cell in self.tuning_cells(decision))

    @cached_property
    def decisions(self) -> list[str]:
        cells = self.final_cells(self.blocks.values())
        return list(dict.fromkeys(self.decision(cell) for cell in cells if cell.lam == SELECTED))

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Every cell under its path."""
        return {cell.path: cell for cell in self._cells()}

    def _cells(self) -> Iterator[Cell]:
        yield from self.final_cells(self.blocks.values())
        for decision in self.decisions:
            yield from self.tuning_cells(decision)

    # -- specs ------------------------------------------------------------------------------------------------

    def data_spec(self, dataset: str, split: Split) -> DataSpec:
        block = self.datasets[dataset]
        return DataSpec(**_problem(block), split=split, samples=getattr(block.settings.samples, split))

    def bank_spec(self, dataset: str, split: Split) -> BankSpec:
        """The spec of a bank.

        The train bank follows the basis of training. Errors are always measured along the problem's own prior.
        """
        block = self.datasets[dataset]
        settings = block.settings
        train = split == "train"
        return BankSpec(
            **_problem(block),
            split=split,
            samples=self._bank_size(dataset) if train else getattr(settings.samples, split),
            directions=getattr(settings.bank, split),
            basis=settings.basis if train else "prior",
            check=settings.bank.check if train else True,
        )

    def _bank_size(self, dataset: str) -> int:
        """The number of samples with stored tangents: as many as the largest offline DI cell trains on, or more."""
        blocks = [b for b in self.blocks.values() if b.dataset == dataset and b.settings.methods.offline_di]
        asked = self.datasets[dataset].settings.bank.samples or 0
        return max(asked, *(n for block in blocks for n in block.settings.train_sizes))

    def train_spec(self, cell: Cell) -> TrainSpec:
        block = self.blocks[cell.block]
        settings = block.settings
        method = getattr(settings.methods, cell.method)
        return TrainSpec(
            **_problem(block),
            n_train=cell.n_train,
            method=cell.method,
            lam=None if isinstance(cell.lam, str) else cell.lam,
            seed=cell.seed,
            network=settings.network,
            training=settings.training,
            settings=untuned(method),
            basis=settings.basis if cell.method == "stcl" else None,
        )

    def timing_cells(self, group: str) -> list[Cell]:
        """The cells whose run times are compared: those of a problem, or of one of the studies."""
        sketch = self.config.studies.sketch_count
        if group == "minres_iterations":
            return [c for c in self.final_cells(self.minres_blocks) if c.seed == self.config.seeds[0]]
        if group == "sketch_runtime" and sketch is not None:
            grid = ("grid", sketch.runtime_grid)
            blocks = [block for block in self.sketch_blocks if grid in block.variant]
            return [c for c in self.final_cells(blocks) if c.seed == self.config.seeds[0]]
        key = group.removesuffix("-beyond")
        if key != group:
            return [c for c in self.beyond_cells(key) if c.seed == self.config.seeds[0]]
        return self.shown_cells(group)

    def timing_spec(self, group: str) -> TimingSpec:
        """The spec of a comparison of run times, in which no cell records the variance of its gradients or ends early.

        The value of λ does not matter to time, so every cell with a λ is timed, and named, with λ = 1.
        """
        specs = {}
        for cell in self.timing_cells(group):
            timed = replace(cell, lam=1.0 if cell.lam is not None else None)
            spec = self.train_spec(timed)
            monitor = "mse" if spec.training.monitor == "jacobian" else spec.training.monitor
            unwatched = {"gradient_variance": False, "jacobian_every": None, "finish_after": None, "monitor": monitor}
            plain = derived(spec.training, **unwatched)
            specs[timed.path] = derived(spec, training=plain)
        return TimingSpec(cells=specs, epochs=self.config.timing.epochs)

    def measured_block(self, block: Block) -> str:
        """The block whose conditioning is measured for this one: the problem's, if this one has the problem's form."""
        own = self.config.problems[block.key].stcl.settled_form
        return block.key if block.settings.stcl.settled_form == own else block.name

    def conditioning_spec(self, name: str) -> ConditioningSpec:
        study = self.config.studies.conditioning
        if study is None:
            raise ValueError("this study has no `studies.conditioning`; add it to the configuration")
        block = self.blocks[name]
        return ConditioningSpec(
            problem=block.problem,
            options=block.settings.options | study.options[block.key],
            form=block.settings.stcl.settled_form,
            samples=study.samples,
            seed=0,
        )

    @property
    def inverted(self) -> list[str]:
        """The problems whose inverse problems are solved, in the order of the study."""
        return [name for name in self.config.problems if name in self.config.studies.inverse]

    def inverse_cells(self, name: str) -> list[Cell]:
        """The cells through which the inverse problems of a problem are solved."""
        if self.config.studies.inverse[name].cells == "shown":
            return self.shown_cells(name, all_seeds=True)
        return self.final_cells([self.blocks[name]])

    def inverse_reference_spec(self, name: str) -> InverseReferenceSpec:
        study = self.config.studies.inverse[name]
        posed = Inversions(**study.model_dump(include=set(Inversions.model_fields)))
        return InverseReferenceSpec(**_problem(self.blocks[name]), inversions=posed)

    def inverse_spec(self, name: str) -> InverseSpec:
        return InverseSpec(sampling=self.config.studies.inverse[name].sampling)


def shown_size(settings: ProblemSettings) -> int:
    return settings.shown_size or max(settings.train_sizes)


def _problem(block: Block) -> dict[str, Any]:
    return {"problem": block.problem, "options": block.settings.options}
