"""The shape of a configuration file: every key with its type, its default and its meaning."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from stcl.core.settings import Positive, PositiveFloat, Settings
from stcl.losses.settings import FormSettings, OfflineDi, Stcl, Weighting
from stcl.operators.settings import Network
from stcl.study.cells import written
from stcl.study.inversions import InverseStudy
from stcl.study.protocol import Training

# Names become parts of paths, so they hold nothing that could leave the results folder.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
ProblemSource = Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*|[^:]+\.py(:[A-Za-z_][A-Za-z0-9_]*)?)$")]
Seed = Annotated[int, Field(ge=0)]


class Samples(Settings):
    """Number of samples in each split. A training set of size N is the first N samples of the train split."""

    train: Positive = Field(description="number of samples in the train split, which is the largest possible N")
    val: Positive = Field(128, description="number of validation samples")
    test: Positive = Field(128, description="number of test samples")


class Bank(Settings):
    """Banks of directions whose tangents the reference solver computes and stores."""

    train: Positive = Field(
        200, description="number of directions that offline DI trains on; all training samples share them"
    )
    samples: Positive | None = Field(
        None,
        description="number of training samples whose tangents are stored for offline DI; if it is left out or "
        "smaller, as many as the largest N. All trainings of offline DI depend on the whole bank: with the largest N "
        "to come given here, a larger N that is added later trains no smaller one again",
    )
    test: Positive = Field(
        16, description="number of directions along which the Jacobian error is measured; all test samples share them"
    )
    val: Positive | None = Field(
        None,
        description="number of directions along which the Jacobian error is measured on validation data, for "
        "`training.jacobian_every`; if left out, there is no such bank",
    )
    check: bool = Field(
        True,
        description="whether the stored tangents of offline DI are checked; `false` also stores tangents that are not "
        "the derivative of the response, such as those of Burgers' three_sweep that diverged. The tangents of the "
        "Jacobian error are always checked",
    )


def _fits_into_a_path(lam: float) -> float:
    """λ itself. Two of them that differ in later digits than a path has would be one cell."""
    if float(written(lam)) != lam:
        raise PydanticCustomError(
            "digits", "the path of a cell has six digits of λ; write {rounded}", {"rounded": written(lam)}
        )
    return lam


OneLambda = Annotated[PositiveFloat, AfterValidator(_fits_into_a_path)]
Lambda = Annotated[
    Annotated[OneLambda, Tag("one")] | Annotated[dict[Positive, OneLambda], Tag("by_size")],
    Discriminator(lambda value: "by_size" if isinstance(value, dict) else "one"),
]


class Tuned(Settings):
    """A method with a derivative term."""

    lam: Lambda | None = Field(
        None,
        alias="lambda",
        description="ratio λ of the derivative loss to the data loss that the weighting aims at: one number for all N, "
        "or one for each N; it can be left out only where validation chooses λ from `lambda_grid`",
    )
    lambda_grid: list[OneLambda] | None = Field(
        None,
        description="values of λ from which `selection: validation` chooses; it has no effect with `selection: fixed`, "
        "and if it is left out, λ is `lambda`",
        min_length=1,
    )

    @field_validator("lam", mode="before")
    @classmethod
    def _sizes_are_numbers(cls, lam: Any) -> Any:
        """The value with numbers as keys, which may have become strings on the way through JSON."""
        return {int(n) if str(n).isdigit() else n: v for n, v in lam.items()} if isinstance(lam, dict) else lam

    def fixed(self, n_train: int) -> float:
        """The λ that the configuration gives for N training samples."""
        lam = self.lam[n_train] if isinstance(self.lam, dict) else self.lam
        if lam is None:
            raise ValueError("no λ was given; validation has to choose it from the grid")
        return lam


class Fno(Settings):
    """Training on the data loss alone. There are no settings."""


class TunedOfflineDi(OfflineDi, Tuned):
    """Matching of stored tangents."""


class TunedStcl(Stcl, Tuned):
    """The sketched tangent consistency loss."""


class Methods(Settings):
    """The methods to train. A method that is left out is not trained."""

    fno: Fno | None = Field(None, description="trains on the data loss alone; not trained if left out")
    offline_di: TunedOfflineDi | None = Field(
        None,
        description="trains on the data loss and on tangents that were stored before training; not trained if left out",
    )
    stcl: TunedStcl | None = Field(
        None,
        description="trains on the data loss and the sketched tangent consistency loss, without stored tangents; not "
        "trained if left out",
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_keys(cls, methods: Any) -> Any:
        """The methods, where a key with nothing after it, such as `fno:`, stands for the defaults."""
        return {k: v if v is not None else {} for k, v in methods.items()} if isinstance(methods, dict) else methods

    def enabled(self) -> Iterator[tuple[str, Any]]:
        """The methods that are trained, each with its settings, in the order of the fields above."""
        for name in type(self).model_fields:
            settings = getattr(self, name)
            if settings is not None:
                yield name, settings


class ProblemSettings(Settings):
    """One problem of the study, or a variant of it under a name of its own."""

    problem: ProblemSource | None = Field(
        None,
        description="the problem: the name of its file in `src/stcl/problems`, which a variant has to give, or the "
        "path of a file of your own, `my/poisson.py` or `my/poisson.py:Poisson`, from the folder in which snakemake "
        "runs; if left out, it is the name under which these settings stand",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="constants of the problem, such as its grid size n; a constant that is left out keeps the value in "
        "the problem's own file",
    )
    samples: Samples = Field(description="how many samples each split has")
    train_sizes: list[Positive] = Field(
        description="training sizes N; every method is trained with each of them", min_length=1
    )
    shown_size: Positive | None = Field(
        None,
        description="the training size of the wall-clock table and of the figures that show one N; if left out, it is "
        "the largest of `train_sizes`",
    )
    selection_scope: Literal["cell", "problem"] = Field(
        "cell",
        description="how many λ `selection: validation` chooses: `cell` chooses one for each N and method; `problem` "
        "chooses one at the smallest N, which all N and both methods share",
    )
    tune_seeds: list[Seed] | None = Field(
        None,
        description="training seeds over which the validation error of each λ of this problem is averaged; if left "
        "out, those of the study",
        min_length=1,
    )
    bank: Bank = Field(default_factory=Bank, description="how tangents are stored, and how many")
    basis: Literal["prior", "white"] = Field(
        "prior",
        description="distribution of the directions that sTCL and offline DI train on: `prior` is the problem's own, "
        "`white` is white noise of unit norm",
    )
    network: Network = Field(default_factory=Network, description="the network that all methods train")
    training: Training = Field(default_factory=Training, description="how all methods are optimised")
    methods: Methods = Field(description="the methods that are trained, and their settings")

    @property
    def stcl(self) -> TunedStcl:
        """The settings of sTCL, for studies whose checks have made sure that there are some."""
        if self.methods.stcl is None:
            raise ValueError("this problem has no method stcl; add it to the configuration")
        return self.methods.stcl


class MinresIterations(Settings):
    """Effect of the number m of Krylov steps behind a target of sTCL."""

    problem: Name = Field("helmholtz", description="a problem of this file whose sTCL form is `krylov_target`")
    n_train: Positive = Field(description="the training size N")
    steps: list[Positive] = Field(description="values of m; sTCL is trained with each of them", min_length=1)
    lam: OneLambda = Field(alias="lambda", description="the λ that every m is trained with")


class SketchCount(Settings):
    """Effect of the sketch count q on errors, run time and the variance of the gradient, at several resolutions."""

    problem: Name = Field("diffusion", description="a problem of this file that has the method stcl")
    option: Name = Field("n", description="the problem's option that sets the resolution")
    grids: list[Positive] = Field(description="values of that option; each of them has its own data", min_length=1)
    n_train: Positive = Field(description="the training size N")
    q: list[Annotated[int, Field(ge=0)]] = Field(
        description="sketch counts q, the directions per update; 0 trains on data alone", min_length=1
    )
    lam: OneLambda = Field(alias="lambda", description="the λ that every q and grid is trained with")
    runtime_grid: Positive = Field(description="the one of `grids` whose run times are measured")
    first_epoch: Positive = Field(26, description="first epoch that counts in the mean of the gradient variances")


class Forms(Settings):
    """Other forms of the sTCL loss of a problem. They have the data, network and budget of the main tables."""

    n_train: Positive = Field(description="the training size N, which must be among the problem's `train_sizes`")
    lam: OneLambda = Field(alias="lambda", description="the λ that every form is trained with")
    weighting: Weighting | None = Field(
        None,
        description="how the derivative loss of every form is weighted; if left out, the settings of the problem's "
        "method stcl hold",
    )
    forms: dict[Name, FormSettings] = Field(
        description="the forms to train, each under a name that you choose and that becomes part of paths", min_length=1
    )


class ConditioningAblation(Settings):
    """Forms of the sTCL loss of a problem that differ in conditioning, each with the condition number of its Hessian.

    They have the data, network, budget and sTCL settings of the main tables and differ in the form alone. A form that
    the study trains elsewhere with the same N and λ, such as the problem's own, is not trained again.
    """

    n_train: Positive = Field(description="the training size N, which must be among the problem's `train_sizes`")
    lam: OneLambda | None = Field(
        None,
        alias="lambda",
        description="the λ that every form is trained with; if left out, it is that of the problem's method stcl at "
        "this N, whether given or chosen by validation",
    )
    forms: dict[Name, FormSettings] = Field(
        description="the forms to compare, each under a name that you choose, that the figure shows and that becomes "
        "part of paths; name the problem's own form, too, if it is to be compared",
        min_length=1,
    )


class BeyondLoss(Stcl):
    """One of the losses that are compared."""

    lam: OneLambda | None = Field(
        None,
        alias="lambda",
        description="the λ of this loss; if left out, it is that of sTCL. A target is matched as a stored tangent is, "
        "so that of offline_di may fit better",
    )


class Beyond(Settings):
    """What sTCL gains beyond the labels, and what more labelled samples would gain in the same time.

    A problem's methods are trained with N samples, and beside them sTCL with other losses. Data alone and stored
    tangents are trained with more samples, too. What the study trains elsewhere with the same settings is not trained
    again.
    """

    n_train: Positive = Field(description="the training size N of all methods")
    more: list[Positive] = Field(
        description="larger training sizes, with which fno and offline_di are trained as well; each costs more solves "
        "and more time, which the table shows",
        min_length=1,
    )
    losses: dict[Name, BeyondLoss] = Field(
        description="settings of sTCL, each under a name that you choose, that the table shows and that becomes part "
        "of paths; what is left out is as in the problem's method stcl, which is trained without them, too",
        min_length=1,
    )
    lam: OneLambda | None = Field(
        None,
        alias="lambda",
        description="the λ of all methods at all N; if left out, it is that of the problem's methods at their N, "
        "whether given or chosen by validation",
    )
    q: Positive | None = Field(
        None, description="number of directions per update of all methods; if left out, it is that of the problem's"
    )
    training: Training | None = Field(
        None, description="how all methods are optimised; if left out, as in the problem's main trainings"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="constants of the problem that differ from those of the main tables, such as its grid size n",
    )

    @property
    def sizes(self) -> list[int]:
        """All training sizes."""
        return [self.n_train, *self.more]

    def loss(self, name: str, own: TunedStcl) -> TunedStcl:
        """The settings of one of the losses, where `own` are those of the problem's method stcl."""
        chosen = self.losses[name]
        changes = {key: getattr(chosen, key) for key in chosen.model_fields_set}
        if chosen.lam is not None:
            changes["lambda_grid"] = None
        return own.model_copy(update=changes)


class LongRun(Settings):
    """A training that is longer than the budget. It shows whether the curves have settled."""

    n_train: Positive = Field(description="the training size N")
    epochs: Positive = Field(description="number of passes over the training set")


class Conditioning(Settings):
    """Spectra of the tangent operators, measured on grids that are small enough for dense matrices."""

    options: dict[Name, dict[str, Any]] = Field(
        description="the problems to measure, and the constants of each, which should name a small grid; a problem "
        "that is left out is not measured",
        min_length=1,
    )
    samples: Positive = Field(4, description="number of states at which each operator is measured")


class Studies(Settings):
    """Ablations and measurements beside the main tables. What is left out is not built."""

    minres_iterations: MinresIterations | None = Field(
        None, description="makes the table `minres_iterations`; there is none if this is left out"
    )
    sketch_count: SketchCount | None = Field(
        None,
        description="makes the tables `sketch_resolution`, `sketch_runtime` and `gradient_variance` and the figure "
        "`sketch_tradeoff`; there are none if this is left out",
    )
    forms: dict[Name, Forms] = Field(
        default_factory=dict,
        description="makes the table `forms` for the problems that are named here; there is none if this is left out",
    )
    conditioning_ablation: dict[Name, ConditioningAblation] = Field(
        default_factory=dict,
        description="makes the table and the figure `conditioning_ablation` for the problems that are named here; "
        "their condition numbers are measured with their `conditioning.options`; there are none if this is left out",
    )
    beyond: dict[Name, Beyond] = Field(
        default_factory=dict,
        description="makes the table and the figure `beyond` for the problems that are named here; there are none if "
        "this is left out",
    )
    long_runs: dict[Name, LongRun] = Field(
        default_factory=dict,
        description="gives the problems that are named here a longer training in the figure `convergence`; the other "
        "problems show the main training with `shown_size`",
    )
    conditioning: Conditioning | None = Field(
        None, description="makes the table `conditioning`; there is none if this is left out"
    )
    inverse: dict[Name, InverseStudy] = Field(
        default_factory=dict,
        description="solves inverse problems through the trainings of the problems that are named here, for the table "
        "`inverse` and the figures `inverse/<problem>`; there are none if this is left out",
    )


class Evaluation(Settings):
    """How the errors on the test split are measured. The errors are the same in both cases."""

    jobs: Literal["cell", "block"] = Field(
        "cell",
        description="what one job evaluates: `cell` is one training, so that its errors are there as soon as it ends; "
        "`block` is all trainings of a problem, or of one setting of an ablation, which saves time where starting a "
        "job takes longer than its work. Then one more or one new training of a block measures the whole block again, "
        "and one that failed leaves the block without errors. On a cluster, such a job runs where snakemake runs",
    )


class Timing(Settings):
    """How run times are measured. The trainings of a comparison run a few epochs in turn, with nothing else running."""

    epochs: int = Field(
        10,
        description="number of epochs of each training that are measured; one more runs first and does not count",
        ge=1,
    )


class Figures(Settings):
    """Appearance of the figures."""

    dpi: Positive = Field(150, description="resolution of PNG files in dots per inch")
    colormap: str = Field("viridis", description="matplotlib colour map of fields")
    relative: list[Name] = Field(
        default_factory=list,
        description="problems whose panel of the figure `convergence` shows the mean relative error of the validation "
        "set; a problem that is left out shows mean squared errors of training and validation set",
    )
    smooth: bool = Field(
        True,
        description="whether the figure `convergence` averages curves of more than 250 epochs over windows; `false` "
        "shows every epoch",
    )


class Config(Settings):
    """A study: its problems, methods, training sizes and seeds."""

    preset: str = Field(description="name of the folder below `results`", pattern=r"^[a-z][a-z0-9-]*$")
    reduced: bool = Field(
        description="whether sizes or budgets are smaller than the paper's; if `true`, tables say so, and only "
        "`claims` shows published numbers"
    )
    seeds: list[Seed] = Field(
        description="training seeds; tables show the mean and standard deviation over them", min_length=1
    )
    selection: Literal["fixed", "validation"] = Field(
        "fixed",
        description="where λ comes from: `fixed` takes `lambda`; `validation` trains every value of a `lambda_grid`, "
        "chooses the one with the lowest validation error, and takes `lambda` where there is no grid. A value with "
        "which a training diverges is not chosen",
    )
    tune_seeds: list[Seed] = Field(
        default_factory=lambda: [0],
        description="training seeds over which the validation error of each λ is averaged; seed 0 if left out",
        min_length=1,
    )
    problems: dict[Name, ProblemSettings] = Field(
        description="the problems and their settings, each under the name of its file in `src/stcl/problems`; a "
        "variant of a problem, or a problem of your own, stands under a name of its own and says in `problem` what "
        "it is",
        min_length=1,
    )
    studies: Studies = Field(
        default_factory=Studies, description="ablations and measurements beside the main tables; none if left out"
    )
    evaluation: Evaluation = Field(default_factory=Evaluation, description="how errors on the test split are measured")
    timing: Timing = Field(default_factory=Timing, description="how run times are measured")
    figures: Figures = Field(default_factory=Figures, description="how the figures look")

    def loaded(self, name: str) -> str:
        """The problem, by the name of its file, that stands under `name` in this study."""
        return self.problems[name].problem or name
