"""The configuration file: its shape, its defaults, and the checks that need more than one key."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from stcl import problems
from stcl.losses import rule
from stcl.losses.settings import OfflineDi, Stcl
from stcl.protocol import Network, Positive, PositiveFloat, Settings, Training

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


Grid = Annotated[list[PositiveFloat], Field(min_length=1)]
Lambdas = Annotated[
    Annotated[Grid, Tag("grid")] | Annotated[dict[Positive, Grid], Tag("by_size")],
    Discriminator(lambda value: "by_size" if isinstance(value, dict) else "grid"),
]


class Tuned(Settings):
    """A method with a derivative term."""

    lam: Lambdas = Field(
        alias="lambda", description="derivative-to-data ratio, also by N; several values are a validation grid"
    )

    @field_validator("lam", mode="before")
    @classmethod
    def _one_value(cls, lam: Any) -> Any:
        """A number is a grid of one; keys of a mapping may have become strings on the way through JSON."""
        if isinstance(lam, dict):
            return {int(n) if str(n).isdigit() else n: _listed(value) for n, value in lam.items()}
        return _listed(lam)

    def lambdas(self, n_train: int) -> list[float]:
        return self.lam[n_train] if isinstance(self.lam, dict) else self.lam


def _listed(value: Any) -> Any:
    return [float(value)] if isinstance(value, int | float) else value


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
    bank: Bank = Field(default_factory=Bank, description="number of stored directions")
    basis: Literal["prior", "white"] = Field(
        "prior", description="training directions: the problem's own prior, or white noise of unit norm"
    )
    network: Network = Field(default_factory=Network, description="the surrogate")
    training: Training = Field(default_factory=Training, description="optimisation")
    methods: Methods = Field(description="what is trained")


class Figures(Settings):
    """Looks of the figures."""

    dpi: Positive = Field(150, description="resolution of PNG files")
    colormap: str = Field("viridis", description="of field plots", pattern=r"^[A-Za-z_]+$")


class Config(Settings):
    """A study: which problems, methods, sizes and seeds."""

    preset: str = Field(description="name of the results folder", pattern=r"^[a-z][a-z0-9-]*$")
    reduced: bool = Field(description="true unless sizes and budgets are the paper's; tables say so")
    seeds: list[Annotated[int, Field(ge=0)]] = Field(description="training seeds", min_length=1)
    tune_seeds: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=lambda: [0],
        description="seeds over which a λ grid is decided; seed 0 if left out",
        min_length=1,
    )
    problems: dict[Name, ProblemSettings] = Field(description="the problems by name", min_length=1)
    figures: Figures = Field(default_factory=Figures, description="looks of the figures")


def parse(config: dict[str, Any]) -> Config:
    """The validated configuration with defaults filled in. Raises ConfigError with every finding, one a line."""
    config = _plain(config)
    try:
        parsed = Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError(_message(_explain(e, config) for e in error.errors())) from None
    parsed = parsed.model_copy(update={"problems": {n: _with_form(n, s) for n, s in parsed.problems.items()}})
    findings = [f for name, settings in parsed.problems.items() for f in _check_problem(name, settings)]
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
    """Ordinary dicts and lists: the workflow manager hands over its own mapping types."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


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
        if inside or depth == len(location):
            parts.append(str(part))
        node = node[part] if inside else node
    return ".".join(parts)


def _check_problem(name: str, settings: ProblemSettings) -> Iterator[str]:
    where = f"problems.{name}"
    try:
        problem = problems.load(name, **settings.options)
    except (ValueError, TypeError) as error:
        yield f"{where}: {error}"
        return
    grid, modes = problem.layout.grid, settings.network.modes
    if 2 * modes > grid[0] or modes > grid[1] // 2 + 1:
        yield (
            f"{where}.network.modes: {modes} modes need a grid of at least {2 * modes} x {2 * modes - 2} nodes, "
            f"got {' x '.join(map(str, grid))}; use fewer modes or a finer grid"
        )
    largest = max(settings.train_sizes)
    if largest > settings.samples.train:
        yield (
            f"{where}.train_sizes: N = {largest} is larger than the dataset, samples.train = {settings.samples.train}; "
            f"raise samples.train or lower N"
        )
    yield from _check_unique(f"{where}.train_sizes", settings.train_sizes)
    for method, chosen in settings.methods.enabled():
        if isinstance(chosen, Tuned):
            yield from _check_lambdas(f"{where}.methods.{method}.lambda", chosen, settings.train_sizes)
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
        yield from (f"{where}.methods.stcl.form: {reason}" for reason in rule.refusals(stcl.form, problem))
    if not list(settings.methods.enabled()):
        yield f"{where}.methods: name at least one of {', '.join(METHODS)}"


def _check_lambdas(where: str, chosen: Tuned, train_sizes: list[int]) -> Iterator[str]:
    if isinstance(chosen.lam, dict) and set(chosen.lam) != set(train_sizes):
        yield f"{where}: given for N = {sorted(chosen.lam)}, train_sizes are {train_sizes}; give one for each"
    for grid in chosen.lam.values() if isinstance(chosen.lam, dict) else [chosen.lam]:
        yield from _check_unique(where, grid)


def _check_unique(where: str, values: list) -> Iterator[str]:
    if len(set(values)) < len(values):
        yield f"{where}: the same value twice in {values}"
