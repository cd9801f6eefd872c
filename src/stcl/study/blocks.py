"""The blocks of a study: its problems, and what each ablation makes of one, with their settings.

This module imports nothing heavy, because the Snakefile reads it at every start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stcl.study.cells import SELECTED
from stcl.study.schema import Beyond, Config, Fno, LongRun, Methods, ProblemSettings, Tuned


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


class Blocks:
    """All blocks that a configuration asks for."""

    def __init__(self, config: Config) -> None:
        self.config = config

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
                derived(
                    settings,
                    train_sizes=[study.n_train],
                    methods=Methods(
                        stcl=derived(stcl, lam=study.lam, form=derived(stcl.form, steps=m)),
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
        settings = derived(
            base,
            train_sizes=[study.n_train],
            samples=derived(base.samples, train=study.n_train),
            training=derived(base.training, gradient_variance=True),
        )
        stcl = derived(base.methods.stcl, lam=study.lam)
        return [
            Block(
                f"{study.problem}-{study.option}{grid}-q{q}",
                study.problem,
                self.config.loaded(study.problem),
                f"{study.problem}-{study.option}{grid}",
                derived(
                    settings,
                    options=settings.options | {study.option: grid},
                    methods=Methods(stcl=derived(stcl, q=q)) if q else Methods(fno=Fno()),
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
            stcl = derived(stcl, lam=study.lam, weighting=study.weighting or stcl.weighting)
            blocks += [
                Block(
                    f"{key}-form-{name}",
                    key,
                    self.config.loaded(key),
                    key,
                    derived(settings, train_sizes=[study.n_train], methods=Methods(stcl=derived(stcl, form=form))),
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
                stcl = derived(settings.stcl, form=form)
                if study.lam is not None:
                    stcl = derived(stcl, lam=study.lam, lambda_grid=None)
                block = Block(
                    f"{problem}-ablation-{name}",
                    problem,
                    self.config.loaded(problem),
                    problem,
                    derived(settings, train_sizes=[study.n_train], methods=Methods(stcl=stcl)),
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
            shared["samples"] = derived(settings.samples, train=max(settings.samples.train, largest))
        changes: dict[str, Any] = {} if study.q is None else {"q": study.q}
        if study.lam is not None:
            changes |= {"lam": study.lam, "lambda_grid": None}
        methods = {
            method: derived(chosen, **changes) if isinstance(chosen, Tuned) else chosen
            for method, chosen in settings.methods.enabled()
        }

        def compared(name: str, n: int, chosen: dict[str, Any], loss: str = "") -> Compared:
            block = Block(
                f"{key}-beyond{name}",
                key,
                self.config.loaded(key),
                f"{key}-beyond" if own_data else key,
                derived(settings, train_sizes=[n], shown_size=None, methods=Methods(**chosen), **shared),
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
                derived(
                    self.config.problems[name],
                    train_sizes=[run.n_train],
                    training=derived(self.config.problems[name].training, epochs=run.epochs),
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


def _trains(known: Block, block: Block) -> bool:
    """Whether a block of the same problem has the one sTCL cell of the other for every seed."""
    (n,), ours, theirs = block.settings.train_sizes, block.settings.stcl, known.settings.methods.stcl
    if known.key != block.key or theirs is None or n not in known.settings.train_sizes:
        return False
    same = untuned(theirs) == untuned(ours) and lam_of(known, theirs, n) == lam_of(block, ours, n)
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
        if other is None or untuned(other) != untuned(chosen):
            return False
        if any(lam_of(known, other, n) != lam_of(block, chosen, n) for n in ours.train_sizes):
            return False
    return True


def derived(settings: Any, **changes: Any) -> Any:
    """Settings with some of their values changed."""
    return settings.model_copy(update=changes)


def untuned(method: Any) -> dict[str, Any]:
    """The settings of a method without those of λ."""
    return method.model_dump(mode="json", exclude={"lam", "lambda_grid"})


def lam_of(block: Block, chosen: Any, n_train: int) -> float | str | None:
    """The λ of a method with its settings `chosen`: a number, `SELECTED` where validation chooses it, or None."""
    if not isinstance(chosen, Tuned):
        return None
    return SELECTED if block.selected and chosen.lambda_grid else chosen.fixed(n_train)
