"""The stages of inverse problems: what the solver answers, what is refused, and what is measured of a surrogate."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from stcl import inverse, problems
from stcl.operators.build import build_surrogate
from stcl.operators.settings import Network
from stcl.problems.base import SolveError
from stcl.runtime import checkpoint, stores
from stcl.stages import inverse as stage
from stcl.stages import inverse_reference
from stcl.stages.inversion import InverseProblems, SolverModel, sensor_points
from stcl.stages.surrogate_model import SurrogateModel
from stcl.study.inversions import Inversions
from stcl.study.specs.inverse import InverseReferenceSpec, InverseSpec

OPTIONS = {
    "diffusion": {"n": 9},
    "helmholtz": {"n": 9},
    "burgers": {"nx": 9, "nt": 12, "solver_nx": 16, "solver_nt": 24},
    "allen_cahn": {"nx": 16, "nt": 10, "time_step": 0.05},
    "navier_stokes": {"n": 9},
}
SMALL = Inversions(sensors=[3, 3], noise=0.1, truths=2, outside=1, modes=6, points=2)


def spec(name):
    return InverseReferenceSpec(problem=name, options=OPTIONS[name], inversions=SMALL)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The manifest of the stored answers of a problem, each of which is made once."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = folder / "reference.json"
            inverse_reference.generate(spec(name), made[name], folder / "work", "c", workers=1)
        return made[name]

    return make


@pytest.mark.parametrize("name", OPTIONS)
def test_the_solver_as_a_surrogate_reproduces_its_own_answers(answers, name):
    """To the rounding of the stores; the MAP points also to the tolerance of the optimiser, which is the same."""
    reference = stage.Reference.read(answers(name))
    solver = SolverModel(reference.posed.problem)
    measured = stage.measure(reference, solver, solver)
    for quantity in ("gradient_error", "path_gradient_error", "map_distance", "eigenvalue_error"):
        assert measured[quantity].max() < 1e-4, quantity
    assert measured["gradient_cosine"].min() > 1 - 1e-6
    assert measured["subspace_angle"].max() < 0.1
    assert measured["same_minimum"].all()
    stored = stage.of_solver(reference)
    for quantity in ("misfit", "information_gain", "truth_error"):
        torch.testing.assert_close(measured[quantity], stored[quantity], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(measured["map_evaluations"].double(), stored["evaluations"])
    assert (measured["evaluations"] <= 2).all()  # from its own MAP point there is nothing left to do


@pytest.mark.parametrize("name", ["burgers", "allen_cahn"])
def test_a_stored_map_point_is_a_minimum(answers, name):
    """By responses alone: Φ rises in every coordinate, as its second difference says that it does."""
    reference = stage.Reference.read(answers(name))
    known, solver = reference.arrays, SolverModel(reference.posed.problem)

    def objective(z):
        return (reference.observed(solver, z) - reference.scaled).square().sum(1) / 2 + z.square().sum(1) / 2

    z, step = known["z"], 1e-5
    slopes = [
        (objective(z + step * e) - objective(z - step * e)) / (2 * step) for e in torch.eye(z.shape[1], dtype=z.dtype)
    ]
    gradient = torch.stack(slopes, 1)
    hessian = known["jacobian"].mT @ known["jacobian"] + torch.eye(z.shape[1], dtype=z.dtype)
    decrement = (gradient * torch.linalg.solve(hessian, gradient)).sum(1) / 2
    assert (decrement < 1e-5 * objective(z)).all()


def test_truths_are_new_and_some_are_outside(answers):
    stored = stores.read(answers("diffusion"))
    problem = problems.load("diffusion", **OPTIONS["diffusion"])
    assert stored["outside"].tolist() == [0, 0, 1]
    for split in ("train", "val", "test"):
        drawn = problem.inputs(64, split).reshape(64, 1, -1)
        assert np.abs(drawn - stored["truth"].reshape(3, -1)).max(-1).min() > 0.1
    posed = InverseProblems(problem, SMALL)
    wide = InverseProblems(problem, SMALL.model_copy(update={"scale": 4.0}))
    np.testing.assert_allclose(wide.truths.a[2], 2 * posed.truths.a[2])
    exact = posed.sensors(torch.from_numpy(posed.truths.u)).numpy()
    assert posed.truths.noise == pytest.approx(0.1 * np.sqrt((exact[:2] ** 2).mean()))
    assert np.abs(posed.truths.data - exact).std() == pytest.approx(0.6 * posed.truths.noise, rel=0.4)


def test_wrong_answers_are_refused():
    problem = problems.load("burgers", **OPTIONS["burgers"])
    posed, solver = InverseProblems(problem, SMALL), SolverModel(problem)
    data, noise = torch.from_numpy(posed.truths.data), posed.truths.noise
    found = inverse.map_point(solver, posed.sensors, data, noise, posed.prior)
    inverse_reference.check_answers(posed, solver, 0, data, noise, found)
    started = inverse.map_point(solver, posed.sensors, data, noise, posed.prior, steps=1)
    assert inverse_reference.reached(found).all()
    assert not inverse_reference.reached(started).any()
    wrong_misfit = replace(found, misfit=2 * found.misfit)
    for wrong, message in (
        (replace(found, jacobian=1.01 * found.jacobian), "Jacobian differs"),
        (wrong_misfit, "its misfit is"),
    ):
        with pytest.raises(stores.StoreError, match=rf"truth 7: .*{message}|truth [789]: .*{message}"):
            inverse_reference.check_answers(posed, solver, 7, data, noise, wrong)


def test_an_interrupted_run_continues(tmp_path, monkeypatch, answers):
    monkeypatch.setattr(inverse_reference, "CHUNK", 2)
    solve, calls = inverse_reference._solve, []

    def once(*arguments):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return solve(*arguments)

    monkeypatch.setattr(inverse_reference, "_solve", once)
    make = (spec("burgers"), tmp_path / "reference.json", tmp_path / "work", "c")
    with pytest.raises(KeyboardInterrupt):
        inverse_reference.generate(*make, workers=1)
    monkeypatch.setattr(inverse_reference, "_solve", lambda *arguments: calls.append(1) or solve(*arguments))
    inverse_reference.generate(*make, workers=1)
    assert len(calls) == 2
    again, whole = (stores.read(path) for path in (tmp_path / "reference.json", answers("burgers")))
    np.testing.assert_allclose(again["z"], whole["z"], atol=1e-5)


def test_a_response_that_cannot_be_solved_for_is_not_a_number():
    class Fragile(problems.load("burgers").__class__):
        def solve(self, a):
            if np.abs(a).max() > 10:
                raise SolveError("too strong")
            return super().solve(a)

    problem = Fragile(**OPTIONS["burgers"])
    a = torch.from_numpy(problem.inputs(3, "train") / 100)
    a[1] *= 1e6
    u, w = SolverModel(problem).value_and_tangents(a, torch.ones(3, 2, a.shape[1], dtype=a.dtype))
    assert u.isnan().flatten(1).all(1).tolist() == w.isnan().flatten(1).all(1).tolist() == [False, True, False]


def test_a_surrogate_has_the_gradient_of_its_own_misfit():
    problem = problems.load("burgers", **OPTIONS["burgers"])
    torch.manual_seed(0)
    surrogate = build_surrogate(problem.layout, Network(modes=3, width=4, layers=2, head=8)).double()
    posed, model = InverseProblems(problem, SMALL), SurrogateModel(problem, surrogate)
    data = torch.from_numpy(posed.truths.data)

    def misfit(z):
        return (posed.sensors(model(posed.prior(z))) - data).square().sum(1) / 2

    z = torch.randn(3, posed.prior.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradient = inverse.linearise(model, posed.sensors, 1.0, posed.prior, z).gradient(data)
    step = 1e-5 * torch.eye(z.shape[1], dtype=z.dtype)
    slopes = torch.stack([(misfit(z + e) - misfit(z - e)) / 2e-5 for e in step], 1)
    torch.testing.assert_close(gradient, slopes, rtol=1e-6, atol=1e-8)


def test_the_record_of_a_block(answers, tmp_path):
    """Every cell is in it with medians over the truths of the prior, and the solver with what it has of them."""
    run = tmp_path / "runs/burgers/N8/fno/lam0/seed0/train.json"
    run.parent.mkdir(parents=True)
    trained = {
        "problem": "burgers",
        "options": OPTIONS["burgers"],
        "n_train": 8,
        "method": "fno",
        "lam": None,
        "seed": 0,
        "network": {"modes": 3, "width": 4, "layers": 2, "head": 8},
        "training": {},
        "settings": {},
        "basis": None,
    }
    run.write_text(json.dumps({"spec": trained}))
    torch.manual_seed(0)
    layout = problems.load("burgers", **OPTIONS["burgers"]).layout
    surrogate = build_surrogate(layout, Network(**trained["network"]))
    checkpoint.save(run.with_name("weights.pt"), surrogate.state_dict())
    asked = InverseSpec.model_validate({"sampling": {"chains": 2, "steps": 5}})
    record, arrays = stage.record(asked, answers("burgers"), [run], torch.device("cpu"))
    path = "burgers/N8/fno/lam0/seed0"
    assert set(record["cells"]) == {"solver", path}
    cell = record["cells"][path]
    distances = arrays[f"{path}:map_distance"]
    assert cell["map_distance"] == pytest.approx(distances[:2].mean())
    assert cell["map_distance_outside"] == pytest.approx(distances[2])
    assert cell["gradient_error"] > 0.05  # it was not trained
    assert 0 <= cell["second_acceptance"] <= 1
    assert record["cells"]["solver"]["first_acceptance"] == 1.0


def test_sensors_stand_away_from_the_boundary_and_at_the_end_of_time():
    layout = problems.load("burgers", **OPTIONS["burgers"]).layout  # axes x, t
    points = sensor_points(layout, [3, 2])
    assert sorted(set(points[:, 0])) == pytest.approx([0.25, 0.5, 0.75])
    assert sorted(set(points[:, 1])) == pytest.approx([0.5, 1.0])
    with pytest.raises(ValueError, match="a number for each of the axes"):
        sensor_points(layout, [3])
    with pytest.raises(ValueError, match="10 along x are more than its 9 nodes"):
        sensor_points(layout, [10, 3])
