"""Configurations are complete after parsing, or refused with every reason at once."""

import copy
from pathlib import Path

import pytest
import yaml
from snakemake.cli import parse_config
from snakemake.utils import update_config

from stcl.study.config import ConfigError, parse

CONFIGS = sorted((Path(__file__).parents[2] / "config").rglob("*.yaml"))


@pytest.fixture
def config():
    return yaml.safe_load((Path(__file__).parents[2] / "config/test/tiny.yaml").read_text())


@pytest.mark.parametrize(
    "path", [p for p in CONFIGS if p.name not in ("published.yaml", "solvers.yaml")], ids=lambda p: p.name
)
def test_the_shipped_configurations_are_good(path):
    parse(yaml.safe_load(path.read_text()))


def test_defaults_are_filled_in(config):
    diffusion = parse(config).problems["diffusion"]
    assert diffusion.training.learning_rate == 1e-3
    assert diffusion.methods.stcl.weighting.decay == 0.99
    assert diffusion.methods.offline_di.lam == 1.0
    assert diffusion.methods.stcl.form.metric.name == "inverse_laplacian"


def test_lambda_may_depend_on_the_training_size(config):
    config["problems"]["diffusion"]["train_sizes"] = [8, 16]
    for keys in (int, str):  # JSON turns numbers into strings
        config["problems"]["diffusion"]["methods"]["stcl"]["lambda"] = {keys(8): 0.5, keys(16): 1}
        stcl = parse(config).problems["diffusion"].methods.stcl
        assert (stcl.fixed(8), stcl.fixed(16)) == (0.5, 1.0)


def test_numbers_that_arrive_as_text_are_numbers(config):
    """From the command line and from YAML's 1e-10."""
    overrides = parse_config(["seeds=[0, 3]", "problems={diffusion: {options: {n: 15}, bank: {check: false}}}"])
    update_config(config, overrides)
    config["problems"]["diffusion"]["training"] |= yaml.safe_load("adam_eps: 1e-10")
    parsed = parse(config)
    diffusion = parsed.problems["diffusion"]
    assert (parsed.seeds, diffusion.options["n"]) == ([0, 3], 15)
    assert diffusion.bank.check is False
    assert diffusion.training.adam_eps == 1e-10


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sedes", [0], "sedes: unknown key"),
        ("problems.diffusion.trainin", {}, "problems.diffusion.trainin: unknown key"),
        ("problems.diffusion.training.epochs", "many", "problems.diffusion.training.epochs: "),
        ("problems.diffusion.training.epochs", 2.5, "problems.diffusion.training.epochs: "),
        ("problems.diffusion.train_sizes", [8, 17], "N = 17 is larger than the dataset, samples.train = 16"),
        ("problems.diffusion.bank.samples", 17, "bank.samples: 17 is more than the dataset has, samples.train = 16"),
        ("problems.diffusion.train_sizes", [8, 8], "the same value twice"),
        ("problems.diffusion.methods.stcl.lambda", 0.0, "problems.diffusion.methods.stcl.lambda: .*greater than 0"),
        ("problems.diffusion.methods.stcl.lambda_grid", [0.5, -1], "problems.diffusion.methods.stcl.lambda_grid.1: "),
        ("problems.diffusion.methods.stcl.lambda_grid", [0.5, 0.5], "stcl.lambda_grid: the same value twice"),
        (
            "problems.diffusion.methods.stcl.lambda",
            1 / 3,
            "stcl.lambda: .* six digits of λ; write 0.333333, got 0.3333333",
        ),
        ("problems.diffusion.methods.stcl.lambda", {9: 1 / 3}, "stcl.lambda.9: .* six digits of λ"),
        (
            "problems.diffusion.methods.stcl.lambda_grid",
            [0.1, 0.10000001],
            "stcl.lambda_grid.1: .*write 0.1, got 0.10000001",
        ),
        ("studies.minres_iterations.lambda", 1234567, r"iterations.lambda: .*write 1.23457e\+06"),
        ("studies.sketch_count.lambda", 1 / 3, "sketch_count.lambda: .* six digits of λ"),
        ("studies.forms.diffusion.lambda", 1 / 3, "forms.diffusion.lambda: .* six digits of λ"),
        ("problems.diffusion.methods.offline_di", {}, "problems.diffusion.methods.offline_di.lambda: this key is req"),
        ("problems.burgers.methods.stcl.lambda_grid", [0.5], "one λ for the problem needs one lambda_grid"),
        ("problems.diffusion.shown_size", 9, "shown_size: 9 is not among train_sizes"),
        ("studies.minres_iterations.problem", "diffusion", "form of diffusion is preconditioned_residual"),
        ("studies.minres_iterations.problem", "heat", "minres_iterations: problem 'heat' is not among"),
        ("studies.minres_iterations.n_train", 17, "n_train: 17 is more than samples.train = 16"),
        ("studies.sketch_count.runtime_grid", 14, "runtime_grid: 14 is not among grids"),
        ("studies.sketch_count.first_epoch", 4, "first_epoch: 4 is after the last epoch, 3"),
        ("studies.sketch_count.grids", [7, 13], "4 modes need a grid of at least 8 x 6 nodes, got 7 x 7"),
        ("studies.sketch_count.n_train", 8, "N = 8 is one update of 8 an epoch"),
        (
            "studies.forms.heat",
            {"n_train": 8, "lambda": 1, "forms": {"a": {"name": "residual"}}},
            "'heat' is not among",
        ),
        ("studies.inverse.heat", {}, "studies.inverse.heat: problem 'heat' is not among"),
        ("studies.inverse.navier_stokes.sensors", [], "inverse.navier_stokes.sensors: .*at least 1 item"),
        ("studies.inverse.navier_stokes.sensors", [2, 0], "inverse.navier_stokes.sensors.1: .*greater than 0"),
        (
            "studies.inverse.navier_stokes.sensors",
            [2],
            "sensors: expected a number for each of the axes x2, x1, got .2.",
        ),
        ("studies.inverse.navier_stokes.sensors", [2, 99], "99 along x1 are more than its 12 nodes"),
        ("studies.inverse.navier_stokes.noise", 0.0, "inverse.navier_stokes.noise: .*greater than 0"),
        ("studies.inverse.navier_stokes.sampling.beta", 1.5, "sampling.beta: .*less than or equal to 1"),
        ("studies.forms.diffusion.n_train", 8, "n_train: 8 is not among train_sizes .16. of diffusion"),
        ("studies.forms.diffusion.forms.target.steps", 0, "forms.diffusion.forms.target.steps: .*greater than 0"),
        ("studies.forms.diffusion.forms", {"a-b": {"name": "residual"}}, "studies.forms.diffusion.forms.a-b"),
        (
            "studies.forms.diffusion.forms",
            {"saddle": {"name": "preconditioned_residual", "metric": {"name": "leray_oseen"}}},
            "studies.forms.diffusion.forms.saddle: leray_oseen weighs the blocks of a saddle residual",
        ),
        (
            "studies.conditioning_ablation.burgers",
            {"n_train": 8, "forms": {"raw": {"name": "residual"}}},
            "ablation.burgers: studies.conditioning.options has no burgers; name a small grid there",
        ),
        (
            "studies.conditioning_ablation.helmholtz.forms.twice",
            {"name": "residual"},
            "helmholtz.forms.twice: the same form as raw",
        ),
        (
            "studies.conditioning_ablation.helmholtz.forms.penalty",
            {"name": "jacobian_penalty"},
            "helmholtz.forms.penalty: jacobian_penalty does not know the tangent operator",
        ),
        ("studies.conditioning_ablation.helmholtz.n_train", 16, "n_train: 16 is not among train_sizes .8. of helm"),
        (
            "studies.conditioning_ablation.heat",
            {"n_train": 8, "forms": {"raw": {"name": "residual"}}},
            "conditioning_ablation.heat: problem 'heat' is not among",
        ),
        ("studies.long_runs.heat", {"n_train": 8, "epochs": 4}, "long_runs.heat: problem 'heat' is not among"),
        ("studies.long_runs.diffusion", {"n_train": 8, "epochs": 4}, "λ is known for N in .16., got 8"),
        ("studies.inverse.navier_stokes.sampling.steps", 1, "sampling.steps: .*greater than or equal to 2"),
        ("figures", {"colormap": "virids"}, "figures.colormap: matplotlib has no 'virids'; did you mean 'viridis'"),
        ("problems.burgers.basis", "white", r"problems.burgers.basis: .* network's grid, \(12,\), .* of shape \(36,\)"),
        ("studies.conditioning.options", {"heat": {}}, "studies.conditioning.options.heat: not among the problems"),
        ("problems.diffusion.methods.stcl.q", 0, "problems.diffusion.methods.stcl.q: .*greater than 0"),
        ("problems.diffusion.methods.offline_di.q", 9, "9 directions per update are more than the bank's 8"),
        ("problems.diffusion.network.modes", 7, "7 modes need a grid of at least 14 x 12 nodes, got 13 x 13"),
        ("problems.diffusion.options", {"m": 3}, "diffusion has no option m"),
        ("problems.diffusion.options", {"n": 2}, "n >= 4|at least"),
        ("problems.diffusion.methods.stcl.form", {"name": "magic"}, "no form 'magic'; there are: 'residual'"),
        (
            "problems.diffusion.methods.stcl.form",
            {"name": "preconditioned_residual", "metric": {"name": "magic"}},
            "methods.stcl.form.metric: no metric 'magic'; there are: 'inverse_laplacian'",
        ),
        (
            "problems.diffusion.methods.stcl.form",
            {"name": "krylov_target", "metric": {"name": "inverse_laplacian"}, "steps": 0},
            "problems.diffusion.methods.stcl.form.steps: .*greater than 0",
        ),
        ("problems.diffusion.methods.stcl.form", {"name": "residual", "steps": 5}, "form.steps: unknown key"),
        (
            "problems.diffusion.methods.stcl.form",
            {"name": "preconditioned_residual", "metric": {"name": "leray_oseen"}},
            "problems.diffusion.methods.stcl.form: leray_oseen weighs the blocks of a saddle residual",
        ),
        ("problems.diffusion.methods.stcl.lambda", {9: 1.0}, r"given for N = \[9\], train_sizes are"),
        ("problems.diffusion.methods.stcl.lambda", {9: 0.0}, "stcl.lambda.9: .*greater than 0"),
        ("problems.diffusion.training", {"batch": 16, "gradient_variance": True}, "is one update of 16 an epoch"),
        (
            "problems.diffusion.network",
            {"layers": 1},
            "problems.diffusion.network.layers: .*greater than or equal to 2",
        ),
        ("problems.diffusion.training", {"jacobian_every": 2}, "no validation directions; give bank.val"),
        ("problems.diffusion.training", {"monitor": "jacobian"}, "set jacobian_every: 1"),
        ("problems.diffusion.training.finish_after", 0, "training.finish_after: .*greater than 0"),
        ("problems.diffusion.training.finish_after", -5, "training.finish_after: .*greater than 0"),
        ("problems.diffusion.training.finish_after", 2.5, "training.finish_after: .*integer"),
        ("problems.diffusion.training", {"epochs": 3, "finish_after": 4}, "finish_after: it is more than the epochs"),
        ("problems.diffusion.options", {"n": "many"}, "problems.diffusion: .*option n: .*valid integer, got 'many'"),
        (
            "problems.diffusion.methods.stcl.form",
            {"name": "krylov_target", "metric": {"name": "shifted_laplacian"}},
            "declares no wave_number; give `shift`",
        ),
        ("studies.long_runs.helmholtz.epochs", 1, "studies.long_runs.helmholtz.epochs: 1 is less than the main"),
        ("problems.diffusion.methods", {}, "name at least one of"),
        ("problems.heat", {}, "problems.heat.samples: this key is required"),
        ("preset", "../elsewhere", "preset: "),
        ("preset", "a/b", "preset: "),
        ("problems.Diffusion/..", {}, "problems.Diffusion/.."),
        ("seeds", [], "seeds: "),
        ("seeds", [-1], "seeds.0: "),
        ("seeds", [0, 0], "seeds: the same value twice"),
    ],
)
def test_what_is_wrong_is_named(config, path, value, message):
    config = copy.deepcopy(config)
    *parents, last = path.split(".") if "/" not in path else ("problems", path.split(".", 1)[1])
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    with pytest.raises(ConfigError, match=message):
        parse(config)


def test_every_finding_is_reported_at_once(config):
    config |= {"sedes": [0], "preset": "Q"}
    with pytest.raises(ConfigError) as error:
        parse(config)
    assert "sedes" in str(error.value)
    assert "preset" in str(error.value)


def test_a_recorded_update_cannot_look_up_what_is_kept(config):
    config["problems"]["diffusion"]["methods"]["stcl"]["form"] = {"name": "solved_target", "solver": {"name": "direct"}}
    parse(config)
    config["problems"]["diffusion"]["training"]["cuda_graphs"] = True
    with pytest.raises(ConfigError, match=r"problems.diffusion.methods.stcl.form: solver direct asks at every update"):
        parse(config)


def test_a_recorded_update_cannot_look_up_what_is_kept_in_a_comparison_either(config):
    loss = {"form": {"name": "solved_target", "solver": {"name": "direct"}}}
    study = {"n_train": 8, "more": [16], "lambda": 1.0, "losses": {"targets": loss}}
    config["studies"]["beyond"] = {"diffusion": study}
    parse(config)
    study["training"] = {"epochs": 3, "cuda_graphs": True}
    with pytest.raises(ConfigError, match=r"beyond.diffusion.losses.targets: solver direct asks at every update"):
        parse(config)


@pytest.mark.parametrize(
    ("study", "settings"),
    [
        ("long_runs", {"diffusion": {"n_train": 8, "epochs": 4}}),
        ("beyond", {"diffusion": {"n_train": 8, "more": [16], "lambda": 1.0, "losses": {"own": {"inputs": "both"}}}}),
    ],
)
def test_a_variance_needs_two_updates_in_every_study(config, study, settings):
    """The main trainings have N = 16 and a batch of 8."""
    config["selection"] = "fixed"
    config["studies"][study] = settings
    parse(config)
    config["problems"]["diffusion"]["training"]["gradient_variance"] = True
    with pytest.raises(ConfigError, match=rf"studies.{study}.diffusion.n_train: N = 8 is one update of 8 an epoch"):
        parse(config)


@pytest.mark.parametrize("name", ["viridis", "tab20", "RdBu_r"])
def test_any_colour_map_of_matplotlib_will_do(config, name):
    assert parse(config | {"figures": {"colormap": name}}).figures.colormap == name


def test_an_unknown_problem_is_refused(config):
    config["problems"]["heat"] = config["problems"]["diffusion"]
    with pytest.raises(ConfigError, match=r"unknown problem .heat.; known problems: .*diffusion"):
        parse(config)
