"""The configuration file: its shape, its defaults, and the checks that need more than one key."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from stcl import problems
from stcl.core.settings import Positive, PositiveFloat, Settings
from stcl.losses import rule
from stcl.losses.settings import FormSettings, OfflineDi, Stcl, Weighting
from stcl.operators.settings import Network
from stcl.study.names import paper_order
from stcl.study.protocol import Training

METHODS = ("fno", "offline_di", "stcl")

# Names become parts of paths, so they hold nothing that could leave the results folder.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class ConfigError(ValueError):
    """The configuration cannot be used; the message lists every reason."""


class Samples(Settings):
    """Samples of each split. Training subsets are prefixes of the train split."""

    train: Positive = Field(description="largest training set that can be cut from the store")
    val: Positive = Field(128, description="validation samples")
    test: Positive = Field(128, description="test samples")


class Bank(Settings):
    """Directions with stored reference tangents."""

    train: Positive = Field(200, description="directions of the offline DI bank, shared by all samples")
    test: Positive = Field(16, description="directions of the Jacobian error")
    check: bool = Field(
        True,
        description="false stores offline DI labels that are not the derivative of the response, such as those of "
        "Burgers' three_sweep that diverged; the labels of the Jacobian error are always checked",
    )


Lambda = Annotated[
    Annotated[PositiveFloat, Tag("one")] | Annotated[dict[Positive, PositiveFloat], Tag("by_size")],
    Discriminator(lambda value: "by_size" if isinstance(value, dict) else "one"),
]


class Tuned(Settings):
    """A method with a derivative term."""

    lam: Lambda | None = Field(None, alias="lambda", description="derivative-to-data ratio, one for all N or by N")
    lambda_grid: list[PositiveFloat] | None = Field(
        None,
        description="values to choose from; they take the place of `lambda` with `selection: validation`",
        min_length=1,
    )

    @field_validator("lam", mode="before")
    @classmethod
    def _sizes_are_numbers(cls, lam: Any) -> Any:
        """Keys of a mapping may have become strings on the way through JSON."""
        return {int(n) if str(n).isdigit() else n: v for n, v in lam.items()} if isinstance(lam, dict) else lam

    def fixed(self, n_train: int) -> float:
        return self.lam[n_train] if isinstance(self.lam, dict) else self.lam


class Fno(Settings):
    """Data loss only."""


class TunedOfflineDi(OfflineDi, Tuned):
    """Matching of stored tangents."""


class TunedStcl(Stcl, Tuned):
    """The sketched tangent consistency loss."""


class Methods(Settings):
    """The methods to train; leave one out and its cells are not built."""

    fno: Fno | None = Field(None, description="data only")
    offline_di: TunedOfflineDi | None = Field(None, description="stored tangents")
    stcl: TunedStcl | None = Field(None, description="sketched tangent consistency")

    @model_validator(mode="before")
    @classmethod
    def _bare_keys(cls, methods: Any) -> Any:
        """`fno:` with nothing after it means: with defaults."""
        return {k: v if v is not None else {} for k, v in methods.items()} if isinstance(methods, dict) else methods

    def enabled(self) -> Iterator[tuple[str, Any]]:
        for name in METHODS:
            settings = getattr(self, name)
            if settings is not None:
                yield name, settings


class ProblemSettings(Settings):
    """One problem of the study."""

    options: dict[str, Any] = Field(default_factory=dict, description="constants of the problem, e.g. its grid size n")
    samples: Samples = Field(description="size of each split")
    train_sizes: list[Positive] = Field(description="training sizes N", min_length=1)
    shown_size: Positive | None = Field(
        None, description="N of the wall-clock table and of the figures that show one N; left out: the largest"
    )
    selection_scope: Literal["cell", "problem"] = Field(
        "cell",
        description="for `selection: validation`: one λ for each N and method, or one for the problem, decided at its "
        "smallest N and shared by all N and both methods",
    )
    bank: Bank = Field(default_factory=Bank, description="number of stored directions")
    basis: Literal["prior", "white"] = Field(
        "prior", description="training directions: the problem's own prior, or white noise of unit norm"
    )
    network: Network = Field(default_factory=Network, description="the surrogate")
    training: Training = Field(default_factory=Training, description="optimisation")
    methods: Methods = Field(description="what is trained")


class MinresIterations(Settings):
    """Effect of the number of Krylov steps m of an sTCL target."""

    problem: Name = Field("helmholtz", description="one whose sTCL form is `krylov_target`")
    n_train: Positive = Field(description="training size N")
    steps: list[Positive] = Field(description="values of m", min_length=1)
    lam: PositiveFloat = Field(alias="lambda", description="the same for every m")


class SketchCount(Settings):
    """Effect of the sketch count q on errors, run time and the variance of the gradient, at several resolutions."""

    problem: Name = Field("diffusion", description="one with sTCL")
    option: Name = Field("n", description="the problem's option that holds the resolution")
    grids: list[Positive] = Field(description="its values", min_length=1)
    n_train: Positive = Field(description="training size N")
    q: list[Annotated[int, Field(ge=0)]] = Field(description="sketch counts; 0 trains on data alone", min_length=1)
    lam: PositiveFloat = Field(alias="lambda", description="the same for every q and grid")
    runtime_grid: Positive = Field(description="the grid of the run-time table")
    first_epoch: Positive = Field(26, description="gradient variances are averaged from this epoch on")


class Forms(Settings):
    """Other forms of the sTCL loss beside the one of the main tables: same data, network and budget."""

    n_train: Positive = Field(description="training size N, one of the problem's")
    lam: PositiveFloat = Field(alias="lambda", description="the same for every form")
    weighting: Weighting | None = Field(None, description="of every form; left out: that of the problem's sTCL")
    forms: dict[Name, FormSettings] = Field(description="by a name of their own, which is part of paths", min_length=1)


class LongRun(Settings):
    """A training beyond the budget, to see whether the curves have settled."""

    n_train: Positive = Field(description="training size N")
    epochs: Positive = Field(description="passes over the training set")


class Conditioning(Settings):
    """Spectra of the tangent operators, measured on grids that a dense matrix fits."""

    options: dict[Name, dict[str, Any]] = Field(description="options of each problem to measure", min_length=1)
    samples: Positive = Field(4, description="states at which each operator is measured")


class Studies(Settings):
    """Ablations and measurements beside the main tables; one that is left out is not built."""

    minres_iterations: MinresIterations | None = Field(None, description="table `minres_iterations`")
    sketch_count: SketchCount | None = Field(
        None,
        description="tables `sketch_resolution`, `sketch_runtime`, `gradient_variance`, figure `sketch_tradeoff`",
    )
    forms: dict[Name, Forms] = Field(default_factory=dict, description="table `forms`: by problem")
    long_runs: dict[Name, LongRun] = Field(
        default_factory=dict, description="problems whose panel of the figure `convergence` is a longer training"
    )
    conditioning: Conditioning | None = Field(None, description="table `conditioning`")


class Timing(Settings):
    """Run times are measured by a few epochs of each method in turn, with nothing else running."""

    epochs: int = Field(10, description="measured epochs of each cell; one more is run first and not counted", ge=1)


class Figures(Settings):
    """Looks of the figures."""

    dpi: Positive = Field(150, description="resolution of PNG files")
    colormap: str = Field("viridis", description="of field plots", pattern=r"^[A-Za-z_]+$")
    relative: list[Name] = Field(
        default_factory=list,
        description="problems whose panel of `convergence` shows relative errors instead of mean squared ones",
    )


class Config(Settings):
    """A study: which problems, methods, sizes and seeds."""

    preset: str = Field(description="name of the results folder", pattern=r"^[a-z][a-z0-9-]*$")
    reduced: bool = Field(description="true unless sizes and budgets are the paper's; tables say so")
    seeds: list[Annotated[int, Field(ge=0)]] = Field(description="training seeds", min_length=1)
    selection: Literal["fixed", "validation"] = Field(
        "fixed", description="λ as given by `lambda`, or, where there is a `lambda_grid`, chosen by validation error"
    )
    tune_seeds: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=lambda: [0],
        description="seeds over which a λ grid is decided; seed 0 if left out",
        min_length=1,
    )
    problems: dict[Name, ProblemSettings] = Field(description="the problems by name", min_length=1)
    studies: Studies = Field(default_factory=Studies, description="ablations and measurements")
    timing: Timing = Field(default_factory=Timing, description="measurement of run times")
    figures: Figures = Field(default_factory=Figures, description="looks of the figures")


def parse(config: dict[str, Any]) -> Config:
    """The validated configuration with defaults filled in. Raises ConfigError with every finding, one a line."""
    config = _plain(config)
    try:
        parsed = Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError(_message(_explain(e, config) for e in error.errors())) from None
    # In an order of their own, so that the order in the file makes nothing stale.
    ordered = {name: _with_form(name, parsed.problems[name]) for name in sorted(parsed.problems, key=paper_order)}
    parsed = parsed.model_copy(update={"problems": ordered})
    findings = [f for name, s in parsed.problems.items() for f in _check_problem(name, s, parsed.selection)]
    findings += _check_studies(parsed)
    for name in parsed.figures.relative:
        if name not in parsed.problems:
            findings.append(f"figures.relative: problem {name!r} is not among {', '.join(parsed.problems)}")
    for key in ("seeds", "tune_seeds"):
        findings += _check_unique(key, getattr(parsed, key))
    if findings:
        raise ConfigError(_message(findings))
    return parsed


def _with_form(name: str, settings: ProblemSettings) -> ProblemSettings:
    """The settings with the form that the decision rule gives, where sTCL has none of its own."""
    methods = settings.methods
    if methods.stcl is None or methods.stcl.form is not None:
        return settings
    try:
        form = rule.default_form(problems.load(name, **settings.options))
    except (ValueError, TypeError):
        return settings  # _check_problem says why
    stcl = methods.stcl.model_copy(update={"form": form})
    return settings.model_copy(update={"methods": methods.model_copy(update={"stcl": stcl})})


def _plain(value: Any) -> Any:
    """Ordinary dicts, lists and numbers.

    Snakemake has mappings of its own and hands over what is inside a list or mapping of `--config` as text; YAML takes
    1e-10, without a point, for text.
    """
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, str):
        try:
            number = json.loads(value)
        except json.JSONDecodeError:
            return value
        return number if isinstance(number, bool | int | float) else value
    return value


def _message(findings) -> str:
    return "the configuration cannot be used:\n" + "\n".join(f"  - {finding}" for finding in findings)


def _explain(error: Any, config: dict[str, Any]) -> str:
    path = _path(error["loc"], config)
    if error["type"] == "extra_forbidden":
        return f"{path}: unknown key; config/README.md lists the known ones"
    if error["type"] == "missing":
        return f"{path}: this key is required"
    if error["type"] == "union_tag_invalid":
        what, context = error["loc"][-1], error["ctx"]
        return f"{path}: no {what} {context['tag']!r}; there are: {context['expected_tags']}"
    return f"{path}: {error['msg']}, got {error['input']!r}"


def _path(location: tuple[str | int, ...], config: Any) -> str:
    """Where in the file; the names of alternatives, which a location has between the keys, are not in it."""
    node, parts = config, []
    for depth, part in enumerate(location, start=1):
        inside = part in node if isinstance(node, dict) else isinstance(node, list) and isinstance(part, int)
        missing = depth == len(location) and isinstance(node, dict)
        if inside or missing:
            parts.append(str(part))
        node = node[part] if inside else node
    return ".".join(parts)


def _check_problem(name: str, settings: ProblemSettings, selection: str) -> Iterator[str]:
    where = f"problems.{name}"
    try:
        problem = problems.load(name, **settings.options)
    except (ValueError, TypeError) as error:
        yield f"{where}: {error}"
        return
    yield from _check_modes(f"{where}.network.modes", settings.network.modes, problem.layout.grid)
    largest = max(settings.train_sizes)
    if largest > settings.samples.train:
        yield (
            f"{where}.train_sizes: N = {largest} is larger than the dataset, samples.train = {settings.samples.train}; "
            f"raise samples.train or lower N"
        )
    yield from _check_unique(f"{where}.train_sizes", settings.train_sizes)
    for method, chosen in settings.methods.enabled():
        if isinstance(chosen, Tuned):
            yield from _check_lambda(f"{where}.methods.{method}", chosen, settings.train_sizes, selection)
    if selection == "validation" and settings.selection_scope == "problem":
        grids = [chosen.lambda_grid for _, chosen in settings.methods.enabled() if isinstance(chosen, Tuned)]
        if any(grid != grids[0] for grid in grids):  # also if one of them is fixed
            yield f"{where}.methods: one λ for the problem needs one lambda_grid, got {grids}; make them equal"
    if settings.shown_size is not None and settings.shown_size not in settings.train_sizes:
        yield f"{where}.shown_size: {settings.shown_size} is not among train_sizes {settings.train_sizes}"
    if settings.training.gradient_variance and min(settings.train_sizes) <= settings.training.batch:
        yield (
            f"{where}.training.gradient_variance: N = {min(settings.train_sizes)} is one update of "
            f"{settings.training.batch} an epoch, a variance needs two; use a smaller batch"
        )
    offline = settings.methods.offline_di
    if offline is not None and offline.q > settings.bank.train:
        yield (
            f"{where}.methods.offline_di.q: {offline.q} directions per update are more than the bank's "
            f"{settings.bank.train}; raise bank.train or lower q"
        )
    stcl = settings.methods.stcl
    if stcl is not None:
        yield from (
            f"{where}.methods.stcl.form: {reason}" for reason in rule.refusals(stcl.form, problem.tangent_class)
        )
    if not list(settings.methods.enabled()):
        yield f"{where}.methods: name at least one of {', '.join(METHODS)}"


def _check_modes(where: str, modes: int, grid: tuple[int, ...]) -> Iterator[str]:
    if 2 * modes > grid[0] or modes > grid[1] // 2 + 1:
        yield (
            f"{where}: {modes} modes need a grid of at least {2 * modes} x {2 * modes - 2} nodes, "
            f"got {' x '.join(map(str, grid))}; use fewer modes or a finer grid"
        )


def _check_lambda(where: str, chosen: Tuned, train_sizes: list[int], selection: str) -> Iterator[str]:
    if chosen.lam is None and (selection == "fixed" or chosen.lambda_grid is None):
        yield f"{where}.lambda: this key is required, unless validation chooses from a lambda_grid"
    if isinstance(chosen.lam, dict) and set(chosen.lam) != set(train_sizes):
        yield f"{where}.lambda: given for N = {sorted(chosen.lam)}, train_sizes are {train_sizes}; give one for each"
    yield from _check_unique(f"{where}.lambda_grid", chosen.lambda_grid or [])


def _check_studies(config: Config) -> Iterator[str]:
    """Studies refer to problems of the same file."""
    studies = config.studies
    named = {
        "studies.minres_iterations": studies.minres_iterations,
        "studies.sketch_count": studies.sketch_count,
    }
    named |= {f"studies.forms.{name}": forms for name, forms in studies.forms.items()}
    named |= {f"studies.long_runs.{name}": run for name, run in studies.long_runs.items()}
    for where, study in named.items():
        if study is None:
            continue
        name = where.rsplit(".", 1)[1] if isinstance(study, Forms | LongRun) else study.problem
        if name not in config.problems:
            yield f"{where}: problem {name!r} is not among {', '.join(config.problems)}; add it or leave the study out"
        elif isinstance(study, LongRun):
            yield from _check_long_run(where, study, config.problems[name], config.selection)
        elif isinstance(study, Forms):
            yield from _check_forms(where, study, name, config.problems[name])
        else:
            yield from _check_ablation(where, study, name, config.problems[name])
    for name in studies.conditioning.options if studies.conditioning else ():
        if name not in config.problems:
            yield f"studies.conditioning.options.{name}: not among the problems {', '.join(config.problems)}"
        elif config.problems[name].methods.stcl is None:
            yield f"studies.conditioning.options.{name}: its method stcl, whose form is measured, is left out"


def _check_ablation(where: str, study: Any, name: str, settings: ProblemSettings) -> Iterator[str]:
    if study.n_train > settings.samples.train:
        yield f"{where}.n_train: {study.n_train} is more than samples.train = {settings.samples.train} of {name}"
    if settings.methods.stcl is None:
        yield f"{where}: {name} has no method stcl; add it or leave the study out"
        return
    if isinstance(study, MinresIterations):
        form = settings.methods.stcl.form
        if form is not None and form.name != "krylov_target":
            yield f"{where}: sTCL's form of {name} is {form.name}, which has no steps; use one with krylov_target"
        yield from _check_unique(f"{where}.steps", study.steps)
        return
    yield from _check_unique(f"{where}.grids", study.grids)
    yield from _check_unique(f"{where}.q", study.q)
    if study.runtime_grid not in study.grids:
        yield f"{where}.runtime_grid: {study.runtime_grid} is not among grids {study.grids}"
    if study.first_epoch > settings.training.epochs:
        yield f"{where}.first_epoch: {study.first_epoch} is after the last epoch, {settings.training.epochs}"
    if study.n_train <= settings.training.batch:
        yield (
            f"{where}.n_train: N = {study.n_train} is one update of {settings.training.batch} an epoch, the gradient's "
            f"variance needs two; use a smaller batch"
        )
    for grid in study.grids:
        try:
            problem = problems.load(name, **(settings.options | {study.option: grid}))
        except (ValueError, TypeError) as error:
            yield f"{where}.grids: {error}"
        else:
            yield from _check_modes(f"{where}.grids", settings.network.modes, problem.layout.grid)


def _check_forms(where: str, study: Forms, name: str, settings: ProblemSettings) -> Iterator[str]:
    if study.n_train not in settings.train_sizes:
        yield f"{where}.n_train: {study.n_train} is not among train_sizes {settings.train_sizes} of {name}"
    if settings.methods.stcl is None:
        yield f"{where}: {name} has no method stcl; add it or leave the study out"
    try:
        problem = problems.load(name, **settings.options)
    except (ValueError, TypeError):
        return  # _check_problem says why
    for label, form in study.forms.items():
        yield from (f"{where}.forms.{label}: {reason}" for reason in rule.refusals(form, problem.tangent_class))


def _check_long_run(where: str, study: LongRun, settings: ProblemSettings, selection: str) -> Iterator[str]:
    if study.n_train > settings.samples.train:
        yield f"{where}.n_train: {study.n_train} is more than samples.train = {settings.samples.train}"
    by_size = any(isinstance(getattr(c, "lam", None), dict) for _, c in settings.methods.enabled())
    if (selection == "validation" or by_size) and study.n_train not in settings.train_sizes:
        yield f"{where}.n_train: λ is known for N in {settings.train_sizes}, got {study.n_train}; use one of them"


def _check_unique(where: str, values: list) -> Iterator[str]:
    if len(set(values)) < len(values):
        yield f"{where}: the same value twice in {values}"
