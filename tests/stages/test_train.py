"""The training loop on every problem and method: it learns, repeats itself, resumes, and can be watched unharmed."""

import copy
import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from stcl import problems
from stcl.core.errors import EquationError
from stcl.losses.derivative_informed import DerivativeInformed
from stcl.runtime import checkpoint, stores
from stcl.stages import bank as labels
from stcl.stages import data, equation_check, train
from stcl.stages.errors import field_errors, jacobian_errors
from stcl.stages.trainer import Trainer
from stcl.study.config import parse
from stcl.study.plan import Plan
from stcl.study.specs.bank import BankSpec
from stcl.study.specs.train import TrainSpec
from stcl.tangent import krylov

CPU = torch.device("cpu")
TINY = {
    "diffusion": {"n": 11},
    "helmholtz": {"n": 11},
    "burgers": {"nx": 12, "nt": 14, "solver_nx": 24, "solver_nt": 28, "probe_nt": 28},
    "allen_cahn": {"nx": 16, "nt": 12, "time_step": 0.02},
    "navier_stokes": {"n": 12},
}
METHODS = ("fno", "offline_di", "stcl")
SOLVED = {
    "name": "solved_target",
    "state": "corrected",
    "solver": {"name": "krylov", "metric": {"name": "inverse_laplacian"}, "steps": 3},
}


def config() -> dict:
    """All problems at their smallest, with the defaults of new problems."""
    problem = {
        "samples": {"train": 12, "val": 6, "test": 6},
        "train_sizes": [12],
        "bank": {"train": 6, "test": 3},
        "network": {"modes": 3, "width": 8, "layers": 2, "head": 16},
        "training": {"epochs": 12, "batch": 4},
        "methods": {"fno": {}, "offline_di": {"lambda": 0.5}, "stcl": {"lambda": 0.5, "q": 2}},
    }
    return {
        "preset": "test",
        "reduced": True,
        "seeds": [0, 1],
        "problems": {name: copy.deepcopy(problem) | {"options": options} for name, options in TINY.items()},
    }


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> Path:
    """Data of every problem, and the train banks."""
    folder = tmp_path_factory.mktemp("stored")
    plan = Plan(parse(config()))
    for name in TINY:
        for split in ("train", "val"):
            spec = plan.data_spec(name, split)
            data.generate(spec, folder / f"{name}-{split}.json", folder / "work", "", workers=1)
        spec = plan.bank_spec(name, "train")
        bank = folder / f"{name}-bank.json"
        labels.generate(spec, folder / f"{name}-train.json", bank, folder / "work", "", workers=1)
    return folder


def spec_of(name: str, method: str, seed: int = 0, **changes) -> TrainSpec:
    plan = Plan(parse(config()))
    cell = next(c for c in plan.final_cells([plan.blocks[name]]) if (c.method, c.seed) == (method, seed))
    spec = plan.train_spec(cell).json_dict()
    for key, value in changes.items():
        spec[key] = spec[key] | value
    return TrainSpec.model_validate(spec)


def inputs(stored: Path, spec: TrainSpec) -> train.Inputs:
    name, offline = spec.problem, spec.method == "offline_di"
    return train.Inputs(
        train=stored / f"{name}-train.json",
        val=stored / f"{name}-val.json",
        bank=stored / f"{name}-bank.json" if offline else None,
    )


def trainer(stored: Path, spec: TrainSpec) -> Trainer:
    return train.build_trainer(spec, inputs(stored, spec), device=CPU)


def run(trainer: Trainer, epochs: int) -> Trainer:
    for _ in range(epochs):
        trainer.run_epoch()
    return trainer


def same(first: train.Trainer, second: train.Trainer) -> bool:
    """Equal to the last bit: weights, best weights, optimiser, history."""

    def numbers(t: train.Trainer) -> list:
        state = t.state_dict()
        optimiser = state["optimiser"]
        moments = [optimiser["counts"], *optimiser["means"], *optimiser["squares"]]
        return [*state["surrogate"].values(), *state["best"][2].values(), *moments]

    def rows(t: train.Trainer) -> list:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in t.history]

    pairs = zip(numbers(first), numbers(second), strict=True)
    return all(torch.equal(x, y) for x, y in pairs) and rows(first) == rows(second)


@pytest.mark.parametrize("name", sorted(TINY))
def test_each_method_lowers_its_losses(stored, name):
    """The data loss falls in all; each derivative loss ends below what it is for the network that did not see it."""
    fast = {"learning_rate": 3e-3}
    done = {method: run(trainer(stored, spec_of(name, method, training=fast)), 12) for method in METHODS}
    for method, trained in done.items():
        assert trained.history[-1]["data"] < 0.9 * trained.history[0]["data"], method
    a, u = done["fno"].train
    for method in ("offline_di", "stcl"):
        fresh = trainer(stored, spec_of(name, method)).objective.term.state_dict()
        losses = {}
        for seen in ("fno", method):
            term = done[method].objective.term
            term.load_state_dict(fresh)
            torch.manual_seed(0)
            losses[seen] = term(done[seen].surrogate, a, u, term.draw(torch.arange(len(a))))[1].item()
        assert losses[method] < losses["fno"], method


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fno", {}),
        ("offline_di", {}),
        ("stcl", {"sketch": {"source": "fresh"}}),
        ("stcl", {"sketch": {"source": "pool", "pool": 7, "shared": True}}),
        ("stcl", {"form": SOLVED, "inputs": "unlabelled", "value": "corrected"}),
        ("stcl", {"inputs": "both", "value": "residual", "pool": 7, "unlabelled_batch": 3}),
    ],
    ids=["fno", "offline_di", "fresh", "pool", "unlabelled", "both"],
)
def test_a_resumed_training_ends_with_the_same_bits(stored, tmp_path, method, settings):
    spec = spec_of("diffusion", method, settings=settings, training={"schedule": {"patience": 1}})
    straight = run(trainer(stored, spec), 6)
    checkpoint.save(tmp_path / "state.pt", run(trainer(stored, spec), 3).state_dict())
    torch.manual_seed(99)
    resumed = trainer(stored, spec)
    resumed.load_state_dict(checkpoint.load(tmp_path / "state.pt"))
    assert same(straight, run(resumed, 3))


def test_the_jacobian_error_on_validation_data_is_recorded_and_can_choose_the_checkpoint(stored, tmp_path):
    """Against the errors of the kept weights along the same directions, by another way: one direction at a time."""
    spec = spec_of("burgers", "stcl", training={"jacobian_every": 1, "monitor": "jacobian"})
    bank = tmp_path / "bank.json"
    directions = BankSpec(problem="burgers", options=TINY["burgers"], split="val", samples=6, directions=3,
                          basis="prior", check=True)  # fmt: skip
    labels.generate(directions, stored / "burgers-val.json", bank, tmp_path / "work", "", workers=1)
    built = train.build_trainer(spec, replace(inputs(stored, spec), val_bank=bank), device=CPU)
    run(built, 4)
    errors = [row["val_jacobian"] for row in built.history]
    assert built.best == min(errors)
    assert built.best_epoch == 1 + errors.index(min(errors))
    arrays, a = stores.read(bank), built.val[0]
    found = []
    for k, v in enumerate(torch.from_numpy(arrays["v"])):
        _, w = torch.func.jvp(built.surrogate, (a,), (v.expand_as(a),))
        exact = torch.from_numpy(arrays["w"][:, k])
        found.append((w - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1))
    assert errors[-1] == pytest.approx(torch.stack(found).mean().item(), rel=1e-4)

    seldom = spec_of("burgers", "stcl", training={"jacobian_every": 3})
    built = train.build_trainer(seldom, replace(inputs(stored, seldom), val_bank=bank), device=CPU)
    run(built, 4)
    assert [row["val_jacobian"] is None for row in built.history] == [True, True, False, True]
    train.write_history(tmp_path / "history.csv", built.history)
    with (tmp_path / "history.csv").open(newline="") as file:
        assert [row["val_jacobian"] == "" for row in csv.DictReader(file)] == [True, True, False, True]
    with pytest.raises(stores.StoreError, match="pass --val-bank"):
        trainer(stored, seldom)


def test_the_history_says_how_good_the_targets_were(stored, tmp_path):
    spec = spec_of("helmholtz", "stcl")
    out = tmp_path / "run/train.json"
    train.train_cell(spec, inputs(stored, spec), out=out, work=tmp_path / "work", code="", device=CPU)
    with out.with_name("history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["targets_unsolved"] for row in rows} == {"0"}
    assert all(0 < float(row["target_residual"]) < 0.5 for row in rows)
    assert json.loads(out.read_text())["passes"] in ("c", "torch")
    plain = trainer(stored, spec_of("helmholtz", "fno"))
    plain.run_epoch()
    assert "target_residual" not in plain.history[0]


@pytest.mark.parametrize("name", sorted(TINY))
def test_every_problem_learns_at_inputs_without_labels(stored, name):
    """The residual of its values falls at inputs that it has never seen."""
    form = {"form": {"name": "krylov_target", "state": "prediction", "metric": {"name": "shifted_laplacian"}}}
    settings = {"inputs": "both", "value": "residual"} | (form if name == "helmholtz" else {})
    spec = spec_of(name, "stcl", settings=settings, training={"learning_rate": 3e-3})
    before, built = trainer(stored, spec), run(trainer(stored, spec), 12)
    assert all(0 <= row["value"] < np.inf and 0 < row["inputs_kept"] <= 1 for row in built.history)
    assert all(row["inputs_kept"] == 1 for row in built.history) == (name != "helmholtz")
    a, v = built.objective.draw(torch.arange(12))[:2]
    after, start = (built.objective.term(t.surrogate, a, v) for t in (built, before))
    assert after.value < 0.9 * start.value


def test_the_ledger_counts_what_was_solved(stored, tmp_path, monkeypatch):
    """Against the products and right-hand sides that are counted as they are made."""
    settings = {"form": SOLVED, "inputs": "both", "value": "corrected", "unlabelled_batch": 3, "q": 2}
    spec = spec_of("diffusion", "stcl", settings=settings, training={"batch": 5, "epochs": 2})
    made = {"solves": 0, "products": 0}
    solve = krylov.SOLVERS["gmres"]

    def counted(operator, g, *arguments, **options):
        pairs = g.shape[0] * g.shape[1]
        made["solves"] += pairs

        def product(x):
            made["products"] += pairs
            return operator(x)

        return solve(product, g, *arguments, **options)

    monkeypatch.setitem(krylov.SOLVERS, "gmres", counted)
    out = tmp_path / "run/train.json"
    train.train_cell(spec, inputs(stored, spec), out=out, work=tmp_path / "work", code="", device=CPU)
    ledger = json.loads(out.read_text())["ledger"]
    assert ledger["unlabelled_inputs"] == 2 * 3 * 3  # two epochs of three updates
    assert ledger["targets"] == 2 * (2 * 12 + 2 * 3 * 3)
    assert ledger["targets"] + 2 * ledger["corrections"] == made["solves"]  # a correction has a test of its own
    assert ledger["products"] == made["products"]
    assert ledger["steps"] == 3 * made["solves"]
    assert trainer(stored, spec_of("burgers", "stcl")).ledger() == {}


def test_the_defaults_are_the_published_loss(stored):
    """The keys for unlabelled inputs change nothing unless they are used: the same objective, the same streams."""
    plain = spec_of("diffusion", "stcl")
    keys = ("inputs", "pool", "unlabelled_batch", "value")
    bare = plain.model_copy(update={"settings": {k: v for k, v in plain.settings.items() if k not in keys}})
    assert same(run(trainer(stored, plain), 2), run(trainer(stored, bare), 2))
    assert type(trainer(stored, plain).objective) is DerivativeInformed


@pytest.mark.parametrize("init", ["normal", "uniform"])
@pytest.mark.parametrize("name", sorted(TINY))
def test_directions_are_independent_of_the_initial_weights(stored, name, init):
    """Two streams from one seed begin with the same numbers, and directions would be the weights.

    Single numbers of float32 agree by chance, a percent of them at most. The width is such that the draws of the lift
    fill whole blocks of 16 normals, so that a stream from the same seed shows the same normals after them.
    """
    spec = spec_of(name, "stcl", network={"init": init, "width": 16}, settings={"sketch": {"source": "fresh"}})
    built = trainer(stored, spec)
    draw = {"normal": torch.randn, "uniform": torch.rand}[init]
    spectral = torch.cat([w.detach().flatten() for k, w in built.surrogate.named_parameters() if "spectral" in k])
    weights = set((spectral * spec.network.width**2).tolist())

    def shared(generator: torch.Generator) -> float:
        drawn = draw(2048, generator=generator)
        return sum(float(x / spec.network.width**2 * spec.network.width**2) in weights for x in drawn) / len(drawn)

    drawn = {"directions": built.objective.term.directions.generator, "batches": built.batches}
    drawn["bank"] = trainer(stored, spec_of(name, "offline_di")).objective.term.generator
    for stream, generator in drawn.items():
        assert shared(generator.clone_state()) < 0.01, stream
    assert shared(torch.Generator().manual_seed(spec.seed)) > 0.3  # the measure would show it


def test_the_streams_of_a_cell_are_different_numbers(stored):
    built = trainer(stored, spec_of("burgers", "stcl")), trainer(stored, spec_of("burgers", "offline_di"))
    unlabelled = trainer(stored, spec_of("burgers", "stcl", settings={"inputs": "unlabelled"}))
    generators = [built[0].batches, built[0].objective.term.directions.generator, built[1].objective.term.generator]
    generators += [unlabelled.objective.inputs.generator]
    numbers = [torch.rand(64, generator=generator.clone_state()) for generator in generators]
    assert not any(torch.equal(x, y) for i, x in enumerate(numbers) for y in numbers[:i])
    assert torch.equal(*(torch.rand(64, generator=one.batches.clone_state()) for one in built))  # batches are shared


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides_everything(stored, method):
    first, again, other = (run(trainer(stored, spec_of("burgers", method, seed=seed)), 2) for seed in (0, 0, 1))
    assert same(first, again)
    assert not same(first, other)


def test_methods_share_initial_weights_and_the_first_batches(stored):
    weights, rows = [], []
    for method in METHODS:
        started = trainer(stored, spec_of("allen_cahn", method))
        weights.append(torch.cat([p.detach().flatten() for p in started.surrogate.parameters()]))
        started.update = lambda a, u, r, kept=rows: (kept.append(r), torch.zeros(3))[1]
        started._updates()
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(torch.cat(rows[:3]), torch.cat(rows[3:6]))
    assert torch.equal(torch.cat(rows[:3]), torch.cat(rows[6:]))


def test_the_monitored_error_picks_the_checkpoint(stored):
    done = run(trainer(stored, spec_of("helmholtz", "fno", training={"monitor": "relative", "learning_rate": 0.02})), 8)
    errors = [row["val_relative"] for row in done.history]
    assert done.best == min(errors)
    assert done.best_epoch == 1 + int(np.argmin(errors))


def test_the_ratio_of_the_losses_comes_to_lambda(stored):
    settings = {"sketch": {"source": "pool", "pool": 2, "shared": True}, "weighting": {"decay": 0.5}}
    slow = {"learning_rate": 1e-7, "batch": 12}
    row = run(trainer(stored, spec_of("helmholtz", "stcl", settings=settings, training=slow)), 6).history[-1]
    np.testing.assert_allclose(row["gamma"] * row["derivative"] / row["data"], 0.5, rtol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_recording_the_gradients_variance_changes_nothing_else(stored, method):
    plain = run(trainer(stored, spec_of("diffusion", method)), 3)
    watched = run(trainer(stored, spec_of("diffusion", method, training={"gradient_variance": True})), 3)
    for row in watched.history:
        variances = [row.pop(f"variance_{part}") for part in ("data", "raw", "weighted", "total")]
        assert min(variances[0], variances[3]) > 0
        assert (variances[1] > 0) == (variances[2] > 0) == (method != "fno")
    assert same(plain, watched)


def test_the_variances_are_those_of_the_gradients(stored):
    """Against all gradients of an epoch, kept and handed to numpy; the total is what the optimiser would get."""
    spec = spec_of("diffusion", "stcl", training={"gradient_variance": True, "clip": 1e9})
    watched = trainer(stored, spec)
    parameters = list(watched.surrogate.parameters())
    kept = {"data": [], "raw": [], "weighted": [], "total": []}
    objective, step = watched.objective, watched.optimiser.step

    def recorded(*arguments):
        losses = objective(*arguments)
        for part, loss in (("data", losses.data), ("raw", losses.derivative)):
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
            kept[part].append(torch.cat([g.flatten() for g in gradients]).double())
        kept["weighted"].append(losses.gamma.double() * kept["raw"][-1])
        return losses

    def stepped():
        kept["total"].append(torch.cat([p.grad.flatten() for p in parameters]).double())
        step()

    recorded.epoch_columns, recorded.draw = objective.epoch_columns, objective.draw
    watched.objective, watched.optimiser.step = recorded, stepped
    row = watched._updates()
    for part, gradients in kept.items():
        assert len(gradients) == 3
        expected = np.var(torch.stack(gradients).numpy(), axis=0, ddof=1).sum()
        np.testing.assert_allclose(row[f"variance_{part}"], expected, rtol=1e-4)


def test_a_cell_leaves_its_record_history_and_weights(stored, tmp_path):
    spec = spec_of("navier_stokes", "stcl", training={"epochs": 2, "gradient_variance": True})
    out = tmp_path / "cell" / "train.json"
    out.parent.mkdir()
    train.train_cell(spec, inputs(stored, spec), out=out, work=tmp_path / "work", code="", device=CPU)
    rows = list(csv.DictReader(out.with_name("history.csv").open(newline="")))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert float(rows[0]["variance_total"]) > 0
    record = json.loads(out.read_text())
    assert record["best_epoch"] in (1, 2)
    assert record["monitored"] == float(rows[-1]["best"])
    assert checkpoint.load(out.with_name("weights.pt")).keys() >= {"network.lift.weight"}


def test_a_diverged_training_says_so(stored):
    broken = trainer(stored, spec_of("diffusion", "fno"))
    broken.train[1][0, 0] = float("nan")
    with pytest.raises(train.Diverged, match="epoch 1: data is nan"):
        broken.run_epoch()


@pytest.fixture
def breaks_in_the_third_epoch(monkeypatch):
    """Trainings whose data loss is not a number from their third epoch on."""
    updates = train.Trainer._updates
    monkeypatch.setattr(
        train.Trainer,
        "_updates",
        lambda self: updates(self) | ({"data": float("nan")} if self.epoch == 2 else {}),
    )


def columns(path: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(path.open(newline=""))]


@pytest.mark.usefixtures("breaks_in_the_third_epoch")
def test_a_divergence_is_a_failure_of_a_final_cell_and_a_result_of_one_that_tunes(stored, tmp_path):
    spec = spec_of("diffusion", "fno")
    given = {"inputs": inputs(stored, spec), "work": tmp_path / "work", "code": "", "device": CPU}
    final, tuned = tmp_path / "final/train.json", tmp_path / "tuned/train.json"
    with pytest.raises(train.Diverged, match=r"epoch 3: data is nan; training diverged.*history .* is in .*csv$") as e:
        train.train_cell(spec, **given, out=final)
    assert not final.parent.exists()
    history = Path(str(e.value).rpartition(" is in ")[2])
    assert [row["epoch"] for row in columns(history)] == ["1", "2"]

    train.train_cell(spec, **given, out=tuned, tuning=True)
    assert columns(tuned.with_name("history.csv")) == columns(history)
    record = json.loads(tuned.read_text())
    assert (record["ended"], record["diverged"], record["epochs"]) == ("diverged", 3, 2)
    assert record["monitored"] is None
    assert record["spec"] == spec.json_dict()
    with pytest.raises(ValueError, match=r"weights\.pt is of a training that diverged in epoch 3"):
        checkpoint.load_weights(tuned.with_name("weights.pt"), record)


def test_a_divergence_in_the_first_epoch_is_a_result_too(stored, tmp_path, monkeypatch):
    updates = train.Trainer._updates
    monkeypatch.setattr(train.Trainer, "_updates", lambda self: updates(self) | {"data": float("inf")})
    spec, out = spec_of("diffusion", "fno"), tmp_path / "train.json"
    files = {"out": out, "work": tmp_path / "work"}
    train.train_cell(spec, inputs(stored, spec), **files, code="", device=CPU, tuning=True)
    record = json.loads(out.read_text())
    assert (record["diverged"], record["epochs"], record["val_mse"], record["best_epoch"]) == (1, 0, None, 0)


def started(stored, tmp_path, spec) -> None:
    """One epoch, with the train bank beside the data."""
    one = spec.model_copy(update={"training": spec.training.model_copy(update={"epochs": 1})})
    bank = stored / f"{spec.problem}-bank.json"
    files = {"out": tmp_path / "train.json", "work": tmp_path / "work"}
    train.train_cell(one, replace(inputs(stored, spec), stored=bank), **files, code="", device=CPU)


@pytest.mark.parametrize("name", TINY)
def test_a_residual_that_contradicts_the_data_is_not_trained_with(stored, tmp_path, name, monkeypatch):
    """A flipped sign of the input is found before the first epoch. Methods that use no residual are not concerned."""
    problem = type(problems.load(name))
    right = problem.residual
    monkeypatch.setattr(problem, "residual", lambda self, u, a: right(self, u, -a))
    with pytest.raises(EquationError, match="contradict"):
        started(stored, tmp_path, spec_of(name, "stcl"))
    started(stored, tmp_path, spec_of(name, "fno"))


@pytest.mark.parametrize("name", TINY)
@pytest.mark.filterwarnings("ignore::stcl.core.errors.EquationWarning")  # the grid of Burgers is coarse
def test_stored_tangents_are_put_into_the_equation(stored, tmp_path, name, monkeypatch):
    """F(u, a) is the same at all data if only B is wrong; tangents see that."""
    started(stored, tmp_path, spec_of(name, "stcl"))
    if name == "burgers":  # F(u, a) itself is doubtful, and says nothing of B
        return
    problem = type(problems.load(name))
    right = problem.residual
    monkeypatch.setattr(problem, "residual", lambda self, u, a: right(self, u, 2 * a.detach() - a))
    with pytest.raises(EquationError, match=r"stored tangents contradict A w \+ B v = 0"):
        equation_check.check(spec_of(name, "stcl"), stored / f"{name}-train.json", stored / f"{name}-bank.json")
    # Without a bank, or with one of other data, there is nothing to compare with.
    equation_check.check(spec_of(name, "stcl"), stored / f"{name}-train.json", stored / "none.json")
    equation_check.check(spec_of(name, "stcl"), stored / f"{name}-train.json", stored / "burgers-bank.json")


# Reduced sizes at which a derivative term pays within a minute of one core.
SMALL = {"modes": 6, "width": 16, "head": 64}
QUICK = {
    "diffusion": {
        "options": {"n": 17},
        "train_sizes": [32],
        "training": {"epochs": 150, "batch": 8, "learning_rate": 2e-3, "schedule": {"patience": 20}},
        "methods": {"fno": {}, "stcl": {"lambda": 1.0, "q": 2}},
    },
    "helmholtz": {
        "options": {"n": 17},
        "train_sizes": [256],
        "network": SMALL | {"modes": 4},
        "training": {
            "epochs": 60,
            "batch": 16,
            "learning_rate": 2e-3,
            "adam_eps": 1e-15,
            "monitor": "relative",
            "schedule": {"patience": 8},
        },
        "methods": {"fno": {}, "stcl": {"lambda": 0.5, "q": 2}},
    },
    "burgers": {
        "options": {"nx": 16, "nt": 24, "solver_nx": 32, "solver_nt": 48, "probe_nt": 48},
        "train_sizes": [32],
        "training": {"epochs": 150, "batch": 8, "learning_rate": 2e-3, "schedule": {"patience": 20}},
        "methods": {"fno": {}, "stcl": {"lambda": 1.0, "q": 2, "weighting": {"update": "after", "floor": 1e-10}}},
    },
    "allen_cahn": {
        "options": {"nx": 32, "nt": 20, "time_step": 0.01},
        "train_sizes": [32],
        "network": SMALL | {"init": "uniform"},
        "training": {
            "epochs": 160,
            "batch": 8,
            "learning_rate": 2e-3,
            "monitor": "relative",
            "schedule": {"patience": 20},
        },
        "methods": {"fno": {}, "stcl": {"lambda": 1.0, "q": 2, "form": {"name": "residual", "detach_state": False}}},
    },
    "navier_stokes": {
        "options": {"n": 16},
        "train_sizes": [64],
        "network": SMALL | {"standardise": True},
        "training": {"epochs": 80, "batch": 8, "learning_rate": 2e-3, "monitor": "relative"},
        "methods": {
            "fno": {},
            "stcl": {
                "lambda": 0.5,
                "q": 2,
                "form": {"name": "preconditioned_residual", "detach_state": False, "metric": {"name": "leray_oseen"}},
            },
        },
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUICK))
def test_stcl_lowers_both_errors_at_the_quick_size(tmp_path, name):
    block = {"network": SMALL, "bank": {"train": 8, "test": 16}} | QUICK[name]
    block["samples"] = {"train": block["train_sizes"][0], "val": 64, "test": 64}
    plan = Plan(parse({"preset": "quick", "reduced": True, "seeds": [0], "problems": {name: block}}))
    for split in ("train", "val", "test"):
        spec = plan.data_spec(name, split)
        data.generate(spec, tmp_path / f"{name}-{split}.json", tmp_path / "work", "", workers=1)
    bank, spec = tmp_path / "bank.json", plan.bank_spec(name, "test")
    labels.generate(spec, tmp_path / f"{name}-test.json", bank, tmp_path / "work", "", workers=1)
    arrays = stores.read(tmp_path / f"{name}-test.json") | stores.read(bank)
    a, u, v, w = (torch.from_numpy(arrays[key]) for key in "auvw")
    errors = {}
    for cell in plan.final_cells([plan.blocks[name]]):
        spec = plan.train_spec(cell)
        done = run(trainer(tmp_path, spec), spec.training.epochs)
        done.surrogate.load_state_dict(done.best_weights)
        field, jacobian = field_errors(done.surrogate, a, u), jacobian_errors(done.surrogate, a, v, w)
        errors[cell.method] = float(field.mean()), float(jacobian.mean())
    print(name, errors)
    assert errors["stcl"][0] < errors["fno"][0]
    assert errors["stcl"][1] < 0.8 * errors["fno"][1]
