"""The plan of a study: the datasets, banks of tangents and cells that a configuration asks for, and their specs.

This module imports nothing heavy, because the Snakefile reads it at every start. A spec holds what its job needs of the
configuration and nothing else, so that a change reruns exactly what it touches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stcl.problems.base import Split
from stcl.study.cells import SELECTED, Cell
from stcl.study.inversions import Inversions
from stcl.study.schema import Beyond, Config, Fno, LongRun, Methods, ProblemSettings, Tuned
from stcl.study.specs.bank import BankSpec
from stcl.study.specs.conditioning import ConditioningSpec
from stcl.study.specs.data import DataSpec
from stcl.study.specs.inverse import InverseReferenceSpec, InverseSpec
from stcl.study.specs.timing import TimingSpec
from stcl.study.specs.train import TrainSpec


@dataclass(frozen=True)
class Block:
    """A problem of the study, or what an ablation makes of it, with its settings. Its name is part of paths."""

    name: str  # for example "burgers_published", or "diffusion-n32-q4"
    key: str  # the problem's name in the study, for example "burgers_published"
    problem: str  # what is loaded, for example "burgers"
    dataset: str  # name of the dataset, which blocks with the same data share
    settings: ProblemSettings
    seeds: tuple[int, ...]
    selected: bool  # whether validation of the problem's own block chooses λ
    variant: tuple[tuple[str, int], ...] = ()  # what an ablation varies, e.g. (("grid", 32), ("q", 4))


@dataclass(frozen=True)
class Compared:
    """What a comparison shows of a block: some of its methods at one N. `loss` names a loss of sTCL."""

    block: Block
    n_train: int
    methods: tuple[str, ...]
    loss: str


class Plan:
    """The whole study. Paths are relative to the workflow's folder."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.results = f"results/{config.preset}"

    # -- blocks -----------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Every block under its name, the problems first."""
        studies = [*self.minres_blocks, *self.sketch_blocks, *self.form_blocks, *self.ablation_blocks]
        studies += self.beyond_blocks
        studies += self.long_blocks.values()
        return {block.name: block for block in [*self.problem_blocks, *studies]}

    @property
    def problem_blocks(self) -> list[Block]:
        validated = self.config.selection == "validation"
        seeds = tuple(self.config.seeds)
        return [
            Block(name, name, self.config.loaded(name), name, settings, seeds, validated)
            for name, settings in self.config.problems.items()
        ]

    @property
    def minres_blocks(self) -> list[Block]:
        study = self.config.studies.minres_iterations
        if study is None:
            return []
        settings = self.config.problems[study.problem]
        stcl = settings.stcl
        return [
            Block(
                f"{study.problem}-m{m}",
                study.problem,
                self.config.loaded(study.problem),
                study.problem,
                _derived(
                    settings,
                    train_sizes=[study.n_train],
                    methods=Methods(
                        stcl=_derived(stcl, lam=study.lam, form=_derived(stcl.form, steps=m)),
                    ),
                ),
                tuple(self.config.seeds),
                selected=False,
                variant=(("steps", m),),
            )
            for m in study.steps
        ]

    @property
    def sketch_blocks(self) -> list[Block]:
        study = self.config.studies.sketch_count
        if study is None:
            return []
        base = self.config.problems[study.problem]
        settings = _derived(
            base,
            train_sizes=[study.n_train],
            samples=_derived(base.samples, train=study.n_train),
            training=_derived(base.training, gradient_variance=True),
        )
        stcl = _derived(base.methods.stcl, lam=study.lam)
        return [
            Block(
                f"{study.problem}-{study.option}{grid}-q{q}",
                study.problem,
                self.config.loaded(study.problem),
                f"{study.problem}-{study.option}{grid}",
                _derived(
                    settings,
                    options=settings.options | {study.option: grid},
                    methods=Methods(stcl=_derived(stcl, q=q)) if q else Methods(fno=Fno()),
                ),
                tuple(self.config.seeds),
                selected=False,
                variant=(("grid", grid), ("q", q)),
            )
            for grid in study.grids
            for q in study.q
        ]

    @property
    def form_blocks(self) -> list[Block]:
        """The blocks with other forms of the sTCL loss, in the order of the problems."""
        blocks = []
        for key, settings in self.config.problems.items():
            study = self.config.studies.forms.get(key)
            if study is None:
                continue
            stcl = settings.stcl
            stcl = _derived(stcl, lam=study.lam, weighting=study.weighting or stcl.weighting)
            blocks += [
                Block(
                    f"{key}-form-{name}",
                    key,
                    self.config.loaded(key),
                    key,
                    _derived(settings, train_sizes=[study.n_train], methods=Methods(stcl=_derived(stcl, form=form))),
                    tuple(self.config.seeds),
                    selected=False,
                )
                for name, form in sorted(study.forms.items())
            ]
        return blocks

    @property
    def ablation_blocks(self) -> list[Block]:
        """The blocks that the ablation of conditioning adds to those that are trained anyway."""
        known = {block.name for block in self._trained_anyway}
        return [block for shown in self.ablation.values() for block in shown.values() if block.name not in known]

    @cached_property
    def ablation(self) -> dict[str, dict[str, Block]]:
        """For each problem of the ablation of conditioning, the block that trains each of its forms."""
        found: dict[str, dict[str, Block]] = {}
        for problem, settings in self.config.problems.items():
            study = self.config.studies.conditioning_ablation.get(problem)
            if study is None:
                continue
            found[problem] = {}
            for name, form in sorted(study.forms.items()):
                stcl = _derived(settings.stcl, form=form)
                if study.lam is not None:
                    stcl = _derived(stcl, lam=study.lam, lambda_grid=None)
                block = Block(
                    f"{problem}-ablation-{name}",
                    problem,
                    self.config.loaded(problem),
                    problem,
                    _derived(settings, train_sizes=[study.n_train], methods=Methods(stcl=stcl)),
                    tuple(self.config.seeds),
                    selected=self.config.selection == "validation",
                )
                same = (known for known in self._trained_anyway if _trains(known, block))
                found[problem][name] = next(same, block)
        return found

    @property
    def _trained_anyway(self) -> list[Block]:
        """The blocks whose cells the ablation of conditioning can show. They have data and budget of their problem."""
        return [*self.problem_blocks, *self.minres_blocks, *self.form_blocks]

    @property
    def beyond_blocks(self) -> list[Block]:
        """The blocks that the comparison beyond the labels adds to those that are trained anyway."""
        known = {block.name for block in self.problem_blocks}
        blocks = {row.block.name: row.block for rows in self.beyond.values() for row in rows}
        return [block for name, block in blocks.items() if name not in known]

    @cached_property
    def beyond(self) -> dict[str, list[Compared]]:
        """For each problem of the comparison beyond the labels, what is compared: the block, N and methods of each."""
        return {
            key: [*self._beyond(key, self.config.studies.beyond[key])]
            for key in self.config.problems
            if key in self.config.studies.beyond
        }

    def _beyond(self, key: str, study: Beyond) -> Iterator[Compared]:
        settings = self.config.problems[key]
        largest = max(study.sizes)
        shared: dict[str, Any] = {"options": settings.options | study.options}
        shared["training"] = study.training or settings.training
        own_data = shared["options"] != settings.options or largest > settings.samples.train
        if own_data:
            shared["samples"] = _derived(settings.samples, train=max(settings.samples.train, largest))
        changes: dict[str, Any] = {} if study.q is None else {"q": study.q}
        if study.lam is not None:
            changes |= {"lam": study.lam, "lambda_grid": None}
        methods = {
            method: _derived(chosen, **changes) if isinstance(chosen, Tuned) else chosen
            for method, chosen in settings.methods.enabled()
        }

        def compared(name: str, n: int, chosen: dict[str, Any], loss: str = "") -> Compared:
            block = Block(
                f"{key}-beyond{name}",
                key,
                self.config.loaded(key),
                f"{key}-beyond" if own_data else key,
                _derived(settings, train_sizes=[n], shown_size=None, methods=Methods(**chosen), **shared),
                tuple(self.config.seeds),
                selected=self.config.selection == "validation" and study.lam is None,
            )
            known = (other for other in self.problem_blocks if _has_cells(other, block))
            return Compared(next(known, block), n, tuple(chosen), loss)

        yield compared("", study.n_train, methods)
        for name in study.losses:
            yield compared(f"-{name}", study.n_train, {"stcl": study.loss(name, methods["stcl"])}, name)
        for n in study.more:
            yield compared(f"-more{n}", n, {method: methods[method] for method in methods if method != "stcl"})

    def beyond_cells(self, key: str) -> dict[Cell, str]:
        """The cells of the comparison beyond the labels of a problem, each with the name of its loss, if it has one."""
        return {
            cell: row.loss
            for row in self.beyond[key]
            for cell in self.final_cells([row.block])
            if cell.n_train == row.n_train and cell.method in row.methods
        }

    @property
    def long_blocks(self) -> dict[str, Block]:
        """The block with the longer training of each problem that has one. It has the first seed alone.

        A training with N and epochs of the main tables has no block, because it would be the same training.
        """
        return {
            name: Block(
                f"{name}-long",
                name,
                self.config.loaded(name),
                name,
                _derived(
                    self.config.problems[name],
                    train_sizes=[run.n_train],
                    training=_derived(self.config.problems[name].training, epochs=run.epochs),
                ),
                tuple(self.config.seeds[:1]),
                selected=self.config.selection == "validation",
            )
            for name, run in self.config.studies.long_runs.items()
            if not self._is_main(name, run)
        }

    def _is_main(self, name: str, run: LongRun) -> bool:
        """Whether the cells of a long run have the specs of main cells."""
        settings = self.config.problems[name]
        return run.n_train in settings.train_sizes and run.epochs == settings.training.epochs

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
        """The banks as pairs of dataset and split. Errors are measured on all test banks."""
        problems = self.config.problems.items()
        banks: list[tuple[str, Split]] = [(dataset, "test") for dataset in self.datasets]
        banks += [(name, "train") for name, settings in problems if settings.methods.offline_di]
        beyond = [block for block in self.beyond_blocks if block.settings.methods.offline_di]
        banks += dict.fromkeys((block.dataset, "train") for block in beyond if block.dataset != block.key)
        return banks + [(name, "val") for name, settings in problems if settings.training.jacobian_every]

    # -- cells ------------------------------------------------------------------------------------------------

    def final_cells(self, blocks: Iterable[Block]) -> list[Cell]:
        """The cells whose errors are reported."""
        return [
            Cell(block.name, n, method, _lambda(block, chosen, n), seed)
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
        """The number of samples with stored tangents: as many as the largest offline DI cell trains on."""
        blocks = [b for b in self.blocks.values() if b.dataset == dataset and b.settings.methods.offline_di]
        return max(n for block in blocks for n in block.settings.train_sizes)

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
            settings=_untuned(method),
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
            plain = _derived(spec.training, **unwatched)
            specs[timed.path] = _derived(spec, training=plain)
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


def _trains(known: Block, block: Block) -> bool:
    """Whether a block of the same problem has the one sTCL cell of the other for every seed."""
    (n,), ours, theirs = block.settings.train_sizes, block.settings.stcl, known.settings.methods.stcl
    if known.key != block.key or theirs is None or n not in known.settings.train_sizes:
        return False
    same = _untuned(theirs) == _untuned(ours) and _lambda(known, theirs, n) == _lambda(block, ours, n)
    return same and set(block.seeds) <= set(known.seeds)


def _has_cells(known: Block, block: Block) -> bool:
    """Whether a block has all cells of the other: the same data, settings, methods, λ and seeds at its sizes."""
    ours, theirs = block.settings, known.settings
    shared = ("options", "samples", "basis", "network", "training", "bank")
    if known.dataset != block.dataset or any(getattr(ours, name) != getattr(theirs, name) for name in shared):
        return False
    if not (set(ours.train_sizes) <= set(theirs.train_sizes) and set(block.seeds) <= set(known.seeds)):
        return False
    for method, chosen in ours.methods.enabled():
        other = getattr(theirs.methods, method)
        if other is None or _untuned(other) != _untuned(chosen):
            return False
        if any(_lambda(known, other, n) != _lambda(block, chosen, n) for n in ours.train_sizes):
            return False
    return True


def shown_size(settings: ProblemSettings) -> int:
    return settings.shown_size or max(settings.train_sizes)


def _problem(block: Block) -> dict[str, Any]:
    return {"problem": block.problem, "options": block.settings.options}


def _derived(settings: Any, **changes: Any) -> Any:
    return settings.model_copy(update=changes)


def _untuned(method: Any) -> dict[str, Any]:
    """The settings of a method without those of λ."""
    return method.model_dump(mode="json", exclude={"lam", "lambda_grid"})


def _lambda(block: Block, chosen: Any, n_train: int) -> float | str | None:
    if not isinstance(chosen, Tuned):
        return None
    return SELECTED if block.selected and chosen.lambda_grid else chosen.fixed(n_train)
