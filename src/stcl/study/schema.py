"""The shape of a configuration file: every key with its type, its default and what it means."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from stcl.core.settings import Positive, PositiveFloat, Settings
from stcl.losses.settings import FormSettings, OfflineDi, Stcl, Weighting
from stcl.operators.settings import Network
from stcl.study.protocol import Training

# Names become parts of paths, so they hold nothing that could leave the results folder.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


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
        """λ for N training samples, where it is given."""
        lam = self.lam[n_train] if isinstance(self.lam, dict) else self.lam
        if lam is None:
            raise ValueError("no λ was given; validation has to choose it from the grid")
        return lam


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
        """The methods that are trained with their settings, in the order of the fields above."""
        for name in type(self).model_fields:
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

    @property
    def stcl(self) -> TunedStcl:
        """The settings of sTCL, for studies whose checks have made sure that there are some."""
        if self.methods.stcl is None:
            raise ValueError("this problem has no method stcl; add it to the configuration")
        return self.methods.stcl


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
