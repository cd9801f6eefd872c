"""What must hold between the keys of a configuration. Each check yields a sentence for everything that does not."""

import difflib
from collections.abc import Iterator
from typing import Any

from stcl import problems
from stcl.losses import rule
from stcl.losses.settings import Direct, FormSettings, JacobianPenalty, solvers_of
from stcl.operators.settings import too_many_modes
from stcl.study.inversions import InverseStudy
from stcl.study.protocol import Training
from stcl.study.schema import (
    Beyond,
    ConditioningAblation,
    Config,
    Figures,
    Forms,
    LongRun,
    Methods,
    MinresIterations,
    ProblemSettings,
    SketchCount,
    Tuned,
)

# The comparisons of run times have these names. A problem's own comparison has the name of the problem.
TAKEN = ("minres_iterations", "sketch_runtime")
DEFAULT_COLORMAP = Figures.model_fields["colormap"].default


def check(config: Config) -> Iterator[str]:
    """Every finding about a configuration whose types are right."""
    for name, settings in config.problems.items():
        yield from _check_name(name, config.loaded(name))
        yield from _check_problem(name, config.loaded(name), settings, config.selection)
    yield from _check_studies(config)
    for name in config.figures.relative:
        if name not in config.problems:
            yield f"figures.relative: problem {name!r} is not among {', '.join(config.problems)}"
    yield from _check_colormap(config.figures.colormap)
    for key in ("seeds", "tune_seeds"):
        yield from _check_unique(key, getattr(config, key))


def _check_colormap(name: str) -> Iterator[str]:
    if name != DEFAULT_COLORMAP:  # it is known, and matplotlib takes its time to import
        from matplotlib import colormaps

        if name not in colormaps:
            near = difflib.get_close_matches(name, colormaps, n=1)
            yield f"figures.colormap: matplotlib has no {name!r}{f'; did you mean {near[0]!r}?' if near else ''}"


def _check_name(name: str, loaded: str) -> Iterator[str]:
    """Every finding about the name of a problem. Snakemake itself refuses a name that one of its rules has."""
    where = f"problems.{name}"
    if name in TAKEN:
        yield f"{where}: a comparison of run times has this name; give the problem another one"
    if name != loaded and name in problems.names():
        yield f"{where}.problem: {name} is a problem itself and cannot be a variant of {loaded}; use another name"


def _check_problem(name: str, loaded: str, settings: ProblemSettings, selection: str) -> Iterator[str]:
    where = f"problems.{name}"
    try:
        problem = problems.load(loaded, **settings.options)
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
    if settings.bank.samples is not None and settings.bank.samples > settings.samples.train:
        yield (
            f"{where}.bank.samples: {settings.bank.samples} is more than the dataset has, samples.train = "
            f"{settings.samples.train}; raise samples.train or lower bank.samples"
        )
    yield from _check_unique(f"{where}.train_sizes", settings.train_sizes)
    yield from _check_unique(f"{where}.tune_seeds", settings.tune_seeds or [])
    for method, chosen in settings.methods.enabled():
        if isinstance(chosen, Tuned):
            yield from _check_lambda(f"{where}.methods.{method}", chosen, settings.train_sizes, selection)
    if selection == "validation" and settings.selection_scope == "problem":
        grids = [chosen.lambda_grid for _, chosen in settings.methods.enabled() if isinstance(chosen, Tuned)]
        if any(grid != grids[0] for grid in grids):  # a method without a grid differs, too
            yield f"{where}.methods: one λ for the problem needs one lambda_grid, got {grids}; make them equal"
    if settings.shown_size is not None and settings.shown_size not in settings.train_sizes:
        yield f"{where}.shown_size: {settings.shown_size} is not among train_sizes {settings.train_sizes}"
    yield from _check_training(f"{where}.training", settings.training, settings.train_sizes, settings.bank.val)
    offline = settings.methods.offline_di
    if offline is not None and offline.q > settings.bank.train:
        yield (
            f"{where}.methods.offline_di.q: {offline.q} directions per update are more than the bank's "
            f"{settings.bank.train}; raise bank.train or lower q"
        )
    if offline is not None and settings.basis == "white":
        shape = problem.directions(1, "train").shape[1:]
        if shape != problem.layout.input_shape:
            yield (
                f"{where}.basis: white noise is drawn on the network's grid, {problem.layout.input_shape}, and the "
                f"solver of {loaded} takes directions of shape {shape} for the bank; use prior, or leave offline_di out"
            )
    stcl = settings.methods.stcl
    if stcl is not None:
        yield from (f"{where}.methods.stcl.form: {reason}" for reason in rule.refusals(stcl.settled_form, problem))
        yield from (f"{where}.methods.stcl.{reason}" for reason in rule.input_refusals(stcl, problem))
        yield from _check_recording(f"{where}.methods.stcl.form", stcl.settled_form, settings.training)
    if not list(settings.methods.enabled()):
        yield f"{where}.methods: name at least one of {', '.join(Methods.model_fields)}"


def _check_training(where: str, training: Training, sizes: list[int], directions: int | None) -> Iterator[str]:
    """Every finding about a training with these sizes N and this number of validation directions."""
    yield from _check_variance(f"{where}.gradient_variance", training, sizes)
    if training.jacobian_every is not None and directions is None:
        yield f"{where}.jacobian_every: there are no validation directions; give bank.val"
    if (training.jacobian_every or 0) > training.epochs:
        yield f"{where}.jacobian_every: it is more than the epochs of a training, {training.epochs}"
    if (training.finish_after or 0) > training.epochs:
        yield f"{where}.finish_after: it is more than the epochs of a training, {training.epochs}"
    if training.monitor == "jacobian" and training.jacobian_every != 1:
        yield f"{where}.monitor: the Jacobian error must be measured at every epoch; set jacobian_every: 1"


def _check_variance(where: str, training: Training, sizes: list[int]) -> Iterator[str]:
    if training.gradient_variance and min(sizes) <= training.batch:
        yield (
            f"{where}: N = {min(sizes)} is one update of {training.batch} an epoch, and the gradient's variance, "
            f"training.gradient_variance, needs two; use a smaller batch"
        )


def _check_recording(where: str, form: FormSettings, training: Training) -> Iterator[str]:
    if training.cuda_graphs and any(isinstance(solver, Direct) for solver in solvers_of(form)):
        yield (
            f"{where}: solver direct asks at every update which samples it has kept, and a recorded update cannot; use "
            f"another solver, or training.cuda_graphs: false"
        )


def _check_modes(where: str, modes: int, grid: tuple[int, ...]) -> Iterator[str]:
    if len(grid) != 2:
        yield f"{where}: the network needs a layout with two axes, got {len(grid)}"
    elif refusal := too_many_modes(modes, grid):
        yield f"{where}: {refusal}"


def _check_lambda(where: str, chosen: Tuned, train_sizes: list[int], selection: str) -> Iterator[str]:
    if chosen.lam is None and (selection == "fixed" or chosen.lambda_grid is None):
        yield f"{where}.lambda: this key is required, unless validation chooses from a lambda_grid"
    if isinstance(chosen.lam, dict) and set(chosen.lam) != set(train_sizes):
        yield f"{where}.lambda: given for N = {sorted(chosen.lam)}, train_sizes are {train_sizes}; give one for each"
    yield from _check_unique(f"{where}.lambda_grid", chosen.lambda_grid or [])


def _check_studies(config: Config) -> Iterator[str]:
    """Every finding about the studies, which must refer to problems of the same file."""
    studies = config.studies
    named: dict[str, MinresIterations | SketchCount | Forms | ConditioningAblation | Beyond | LongRun | None] = {
        "studies.minres_iterations": studies.minres_iterations,
        "studies.sketch_count": studies.sketch_count,
    }
    named |= {f"studies.forms.{name}": forms for name, forms in studies.forms.items()}
    named |= {f"studies.conditioning_ablation.{name}": study for name, study in studies.conditioning_ablation.items()}
    named |= {f"studies.beyond.{name}": study for name, study in studies.beyond.items()}
    named |= {f"studies.long_runs.{name}": run for name, run in studies.long_runs.items()}
    for where, study in named.items():
        if study is None:
            continue
        name = study.problem if isinstance(study, MinresIterations | SketchCount) else where.rsplit(".", 1)[1]
        if name not in config.problems:
            yield f"{where}: problem {name!r} is not among {', '.join(config.problems)}; add it or leave the study out"
        elif isinstance(study, LongRun):
            yield from _check_long_run(where, study, config.problems[name], config.selection)
        elif isinstance(study, Beyond):
            yield from _check_beyond(where, study, name, config)
        elif isinstance(study, Forms | ConditioningAblation):
            yield from _check_forms(where, study, name, config)
            if isinstance(study, ConditioningAblation):
                yield from _check_conditions(where, study, name, config)
        else:
            yield from _check_ablation(where, study, name, config)
    for name, inverse in studies.inverse.items():
        yield from _check_inverse(f"studies.inverse.{name}", inverse, name, config)
    for name, options in studies.conditioning.options.items() if studies.conditioning else ():
        if name not in config.problems:
            yield f"studies.conditioning.options.{name}: not among the problems {', '.join(config.problems)}"
        elif config.problems[name].methods.stcl is None:
            yield f"studies.conditioning.options.{name}: its method stcl, whose form is measured, is left out"
        else:
            try:
                problems.load(config.loaded(name), **(config.problems[name].options | options))
            except (ValueError, TypeError) as error:
                yield f"studies.conditioning.options.{name}: {error}"


def _check_ablation(where: str, study: Any, name: str, config: Config) -> Iterator[str]:
    settings = config.problems[name]
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
        yield from _check_variance(f"{where}.n_train", settings.training, [study.n_train])
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
            problem = problems.load(config.loaded(name), **(settings.options | {study.option: grid}))
        except (ValueError, TypeError) as error:
            yield f"{where}.grids: {error}"
        else:
            yield from _check_modes(f"{where}.grids", settings.network.modes, problem.layout.grid)


def _check_forms(where: str, study: Forms | ConditioningAblation, name: str, config: Config) -> Iterator[str]:
    settings = config.problems[name]
    if study.n_train not in settings.train_sizes:
        yield f"{where}.n_train: {study.n_train} is not among train_sizes {settings.train_sizes} of {name}"
    if settings.methods.stcl is None:
        yield f"{where}: {name} has no method stcl; add it or leave the study out"
    try:
        problem = problems.load(config.loaded(name), **settings.options)
    except (ValueError, TypeError):
        return  # _check_problem says why
    for label, form in study.forms.items():
        yield from (f"{where}.forms.{label}: {reason}" for reason in rule.refusals(form, problem))
        yield from _check_recording(f"{where}.forms.{label}", form, settings.training)
        if settings.methods.stcl is not None and settings.methods.stcl.inputs != "labelled":
            stcl = settings.methods.stcl.model_copy(update={"form": form})
            yield from (f"{where}.forms.{label}: {reason}" for reason in rule.input_refusals(stcl, problem))


def _check_conditions(where: str, study: ConditioningAblation, name: str, config: Config) -> Iterator[str]:
    """What every form needs to have a condition number, and a row of its own."""
    measured = config.studies.conditioning
    if measured is None or name not in measured.options:
        yield f"{where}: studies.conditioning.options has no {name}; name a small grid there for the condition numbers"
    labels = list(study.forms)
    for i, label in enumerate(labels):
        form = study.forms[label]
        if isinstance(form, JacobianPenalty):
            yield f"{where}.forms.{label}: {form.name} does not know the tangent operator; compare it in studies.forms"
        same = next((other for other in labels[:i] if study.forms[other] == form), None)
        if same is not None:
            yield f"{where}.forms.{label}: the same form as {same}; leave one of them out"


def _check_beyond(where: str, study: Beyond, name: str, config: Config) -> Iterator[str]:
    settings = config.problems[name]
    left_out = [method for method, chosen in settings.methods if chosen is None]
    if left_out:
        yield f"{where}: {name} has no method {', '.join(left_out)}; all methods are compared, so add what is missing"
        return
    yield from _check_unique(f"{where}.more", study.sizes)
    if min(study.more) <= study.n_train:
        yield f"{where}.more: {min(study.more)} is not more than n_train = {study.n_train}"
    if study.lam is None:
        for method, chosen in settings.methods.enabled():
            if isinstance(chosen, Tuned):
                sizes = [study.n_train] if method == "stcl" else study.sizes
                yield from _check_known_lambda(where, method, chosen, sizes, settings, config)
    if study.training is not None:
        yield from _check_training(f"{where}.training", study.training, study.sizes, settings.bank.val)
    else:
        yield from _check_variance(f"{where}.n_train", settings.training, study.sizes)
    if study.q is not None and study.q > settings.bank.train:
        yield f"{where}.q: {study.q} directions per update are more than the bank's {settings.bank.train}"
    try:
        problem = problems.load(config.loaded(name), **(settings.options | study.options))
    except (ValueError, TypeError) as error:
        yield f"{where}.options: {error}"
        return
    yield from _check_modes(f"{where}.options", settings.network.modes, problem.layout.grid)
    for label in study.losses:
        if label.startswith("more"):
            yield f"{where}.losses.{label}: names that begin with `more` are those of larger N; use another one"
        loss = study.loss(label, settings.stcl)
        yield from (f"{where}.losses.{label}.form: {reason}" for reason in rule.refusals(loss.settled_form, problem))
        yield from (f"{where}.losses.{label}.{reason}" for reason in rule.input_refusals(loss, problem))
        yield from _check_recording(f"{where}.losses.{label}", loss.settled_form, study.training or settings.training)


def _check_known_lambda(
    where: str, method: str, chosen: Tuned, sizes: list[int], settings: ProblemSettings, config: Config
) -> Iterator[str]:
    """A number is λ for every N. Validation chooses for the sizes of the problem, and a table has its own."""
    if config.selection == "validation" and chosen.lambda_grid:
        known = settings.train_sizes
    elif isinstance(chosen.lam, dict):
        known = sorted(chosen.lam)
    else:
        return
    if not set(sizes) <= set(known):
        yield f"{where}.lambda: that of {method} is known for N in {known}, not for all of {sizes}; give it"


def _check_inverse(where: str, study: InverseStudy, name: str, config: Config) -> Iterator[str]:
    if name not in config.problems:
        yield f"{where}: problem {name!r} is not among {', '.join(config.problems)}; add it or leave the study out"
        return
    try:
        problem = problems.load(config.loaded(name), **config.problems[name].options)
    except (ValueError, TypeError):
        return  # _check_problem says why
    axes, grid = problem.layout.axes, problem.layout.grid
    if len(study.sensors) != len(axes):
        yield f"{where}.sensors: expected a number for each of the axes {', '.join(axes)}, got {study.sensors}"
    for axis, nodes, count in zip(axes, grid, study.sensors, strict=False):
        if count > nodes:
            yield f"{where}.sensors: {count} along {axis} are more than its {nodes} nodes; sensors stand on the grid"
    try:
        _ = problem.input_noise_shape
    except ValueError as error:
        yield f"{where}: {error}"


def _check_long_run(where: str, study: LongRun, settings: ProblemSettings, selection: str) -> Iterator[str]:
    if study.n_train > settings.samples.train:
        yield f"{where}.n_train: {study.n_train} is more than samples.train = {settings.samples.train}"
    if study.epochs < settings.training.epochs:
        yield f"{where}.epochs: {study.epochs} is less than the main trainings have, {settings.training.epochs}"
    yield from _check_variance(f"{where}.n_train", settings.training, [study.n_train])
    by_size = any(isinstance(getattr(c, "lam", None), dict) for _, c in settings.methods.enabled())
    if (selection == "validation" or by_size) and study.n_train not in settings.train_sizes:
        yield f"{where}.n_train: λ is known for N in {settings.train_sizes}, got {study.n_train}; use one of them"


def _check_unique(where: str, values: list) -> Iterator[str]:
    if len(set(values)) < len(values):
        yield f"{where}: the same value twice in {values}"
