"""Spectra and condition numbers, against known eigenvalues and against matrices built here with numpy."""

import json
import sys

import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from problems import tangent_equations

from stcl import problems
from stcl.losses import metrics, rule, settings
from stcl.stages import conditioning
from stcl.study.specs.conditioning import ConditioningSpec
from stcl.tangent.operator import TangentOperator

pytestmark = pytest.mark.usefixtures("float64")

RAW = settings.Residual()
OPTIONS = {
    "diffusion": {"n": 9},
    "helmholtz": {"n": 9},
    "burgers": {"nx": 8, "nt": 9, "solver_nx": 16, "solver_nt": 18, "probe_nt": 18},
    "allen_cahn": {"nx": 8, "nt": 7, "time_step": 0.05},
    "navier_stokes": {"n": 8},
}


def laplace_eigenvalues(n: int) -> np.ndarray:
    """Of −Δₕ on the interior of the unit square with n nodes a side."""
    line = (2 * (n - 1) * np.sin(np.pi * np.arange(1, n - 1) / (2 * (n - 1)))) ** 2
    return (line[:, None] + line).ravel()


def test_helmholtz_without_refraction_has_known_eigenvalues():
    """A = −Δₕ − κ², so that A, M and M A share the sines."""
    problem = problems.load("helmholtz", n=11)
    zero = torch.zeros(11, 11)
    directions = torch.as_tensor(problem.directions(3, "train"))
    form = settings.KrylovTarget(metric=settings.ShiftedLaplacian(shift=7.0), steps=40)
    operator = TangentOperator(problem, torch.as_tensor(problem.solve(zero.numpy()[None]))[0], zero)
    found = conditioning.quantities(operator, form, directions)
    laplace = laplace_eigenvalues(11)
    values = laplace - 25
    assert found["symmetry_defect"] < 1e-15
    assert found["smallest_eigenvalue"] == pytest.approx(values.min(), rel=1e-9)
    assert found["largest_eigenvalue"] == pytest.approx(values.max(), rel=1e-9)
    assert found["negative_fraction"] == pytest.approx(1 / 81)
    ratio = {
        "condition_raw": values**2,
        "condition_metric": values**2 / (laplace + 7),
        "condition_metric_all": values**2 / (laplace + 7),
        "condition_preconditioned": np.abs(values) / (laplace + 7),
    }
    for name, spread in ratio.items():
        assert found[name] == pytest.approx(spread.max() / spread.min(), rel=1e-8)
    assert found["target_error"] < 1e-8  # 40 steps solve it


def test_the_target_error_is_that_of_the_steps():
    """One step of MINRES minimises ‖g − A x‖ in the norm of M over the multiples of M g."""
    problem = problems.load("helmholtz", n=9)
    a, u = problem.states(1)
    operator = TangentOperator(problem, u[0], a[0])
    v = torch.as_tensor(problem.directions(1, "train"))
    form = settings.KrylovTarget(metric=settings.ShiftedLaplacian(shift=3.0), steps=1)
    matrix, g = operator.matrix().numpy(), operator.right_hand_side(v)[0].numpy()
    line = (2 * np.eye(7) - np.eye(7, k=1) - np.eye(7, k=-1)) * 64
    metric = np.linalg.inv(np.kron(line, np.eye(7)) + np.kron(np.eye(7), line) + 3 * np.eye(49))
    image = matrix @ metric @ g
    target = (image @ metric @ g) / (image @ metric @ image) * metric @ g
    exact = np.linalg.solve(matrix, g)
    expected = np.linalg.norm(target - exact) / np.linalg.norm(exact)
    assert conditioning.quantities(operator, form, v)["target_error"] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("name", "options", "solver"),
    [
        ("allen_cahn", {"nx": 16, "nt": 12, "time_step": 0.02}, settings.SpaceTime(steps=40)),
        ("navier_stokes", {"n": 9}, settings.Stokes(steps=100)),
        ("diffusion", {"n": 9}, settings.Krylov(metric=settings.InverseLaplacian(), steps=40)),
    ],
)
def test_a_solved_target_has_an_error_of_its_own(name, options, solver):
    """Many steps solve what a dense matrix solves, a pressure up to what it is known by; one step does not."""
    problem = problems.load(name, **options)
    a, u = problem.states(1)
    operator = TangentOperator(problem, u[0], a[0])
    v = torch.as_tensor(problem.network_input(problem.directions(2, "train")))
    errors = [
        conditioning.quantities(operator, settings.SolvedTarget(solver=chosen), v)["target_error"]
        for chosen in (solver, solver.model_copy(update={"steps": 1}))
    ]
    assert errors[0] < 1e-4
    assert errors[1] > 0.01


def own_matrix(problem, u: np.ndarray, a: np.ndarray) -> np.ndarray:
    """A of the nodes with an equation, column by column from the paper's tangent equation."""
    inside = {"x": slice(1, -1), "x1": slice(1, -1), "x2": slice(1, -1), "t": slice(1, None)}
    if problem.layout.initial_axis is not None:
        inside["x"] = slice(None)  # periodic
    free = np.zeros(u.shape, bool)
    free[(..., *(inside[axis] for axis in problem.layout.axes))] = True
    equation, columns = getattr(tangent_equations, type(problem).__module__.rpartition(".")[2]), []
    for k in np.flatnonzero(free):
        w = np.zeros(u.size)
        w[k] = 1
        blocks = equation(problem, u, a, w.reshape(u.shape), np.zeros_like(a))
        columns.append(np.concatenate([np.ravel(block) for block in blocks])[: free.sum()])
    return np.array(columns).T


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_problem_against_its_tangent_equation(name):
    problem = problems.load(name, **OPTIONS[name])
    spec = {"problem": name, "options": OPTIONS[name], "form": RAW.model_dump(), "samples": 2, "seed": 0}
    record = conditioning.conditioning_record(ConditioningSpec.model_validate(spec))
    found = {key: value["samples"][1] for key, value in record["quantities"].items() if value}
    a, u = (x.numpy() for x in problem.states(2))
    matrix = own_matrix(problem, u[1], a[1])
    scored = len(matrix) * len(problem.layout.scored) // len(problem.layout.responses)
    signed = matrix.copy()
    signed[scored:] *= -1  # the divergence of a saddle problem; nothing elsewhere
    values = np.linalg.eigvalsh((signed + signed.T) / 2)
    assert record["unknowns"] == len(matrix)
    assert record["tangent_class"] == problem.tangent_class
    expected = {
        "symmetry_defect": np.linalg.norm(signed - signed.T) / np.linalg.norm(matrix),
        "smallest_eigenvalue": values[0],
        "largest_eigenvalue": values[-1],
        "negative_fraction": np.mean(values < 0),
        "condition_raw": np.linalg.cond(matrix) ** 2,
        "condition_scored": np.linalg.cond(matrix[:, :scored]) ** 2,
    }
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-10)


def test_diffusion_metric_against_dense_matrices():
    problem = problems.load("diffusion", n=9)
    a, u = problem.states(1)
    found = conditioning.quantities(TangentOperator(problem, u[0], a[0]), rule.default_form(problem), None)
    matrix = own_matrix(problem, u[0].numpy(), a[0].numpy())
    line = (2 * np.eye(7) - np.eye(7, k=1) - np.eye(7, k=-1)) * 64
    scale = np.exp(-0.5 * a[0, 1:-1, 1:-1].numpy().ravel())
    metric = scale[:, None] * np.linalg.inv(np.kron(line, np.eye(7)) + np.kron(np.eye(7), line)) * scale
    assert found["condition_metric"] == pytest.approx(np.linalg.cond(matrix.T @ metric @ matrix), rel=1e-6)
    assert found["condition_preconditioned"] is None
    assert found["condition_metric"] < found["condition_raw"] / 5


@pytest.mark.parametrize("project", [True, False])
def test_only_a_projected_flow_is_blind_to_pressure(project):
    problem = problems.load("navier_stokes", n=8)
    a, u = problem.states(1)
    metric = settings.LerayOseen(project=project)
    form = settings.PreconditionedResidual(metric=metric)
    found = conditioning.quantities(TangentOperator(problem, u[0], a[0]), form, None)
    matrix = own_matrix(problem, u[0].numpy(), a[0].numpy())
    weights = np.eye(108) * metric.divergence / 36  # two velocities and one pressure on 6 x 6 nodes
    weights[:72, :72] = dense_metric(problem, metrics.load(problem, metric), a[0])[:72, :72]
    hessian = matrix.T @ weights @ matrix
    assert found["condition_metric"] == pytest.approx(np.linalg.cond(hessian[:72, :72]), rel=1e-6)
    if project:
        assert found["condition_metric_all"] is None
    else:
        assert found["condition_metric_all"] == pytest.approx(np.linalg.cond(hessian), rel=1e-6)


def test_stokes_is_symmetric_and_has_one_negative_eigenvalue_per_pressure():
    problem = problems.load("navier_stokes", n=8)
    operator = TangentOperator(problem, torch.zeros(3, 8, 8), torch.zeros(2, 8, 8))
    found = conditioning.quantities(operator, RAW, None)
    assert found["symmetry_defect"] < 1e-15
    assert found["negative_fraction"] == pytest.approx(1 / 3)


def test_a_singular_operator_has_no_condition_number():
    """Centred differences between an odd number of nodes do not see a checkerboard pressure."""
    problem = problems.load("navier_stokes", n=7)
    operator = TangentOperator(problem, torch.zeros(3, 7, 7), torch.zeros(2, 7, 7))
    assert conditioning.quantities(operator, RAW, None)["condition_raw"] is None


def test_the_transposed_product_is_that_of_the_matrix():
    problem = problems.load("navier_stokes", n=7)
    a, u = problem.states(1)
    operator = TangentOperator(problem, u[0], a[0])
    y = torch.randn(2, len(operator.unknowns))
    torch.testing.assert_close(operator.transposed_product(y), y @ operator.matrix())


def test_a_residual_with_too_few_equations_is_refused():
    class Short:
        layout = problems.load("diffusion", n=9).layout

        def residual(self, u, a):
            return u[..., 3:-3, :]

    with pytest.raises(ValueError, match=r"one equation for each response u .* got a residual of shape \(3, 9\)"):
        TangentOperator(Short(), torch.zeros(9, 9), torch.zeros(9, 9))


def test_the_stage_writes_valid_json(tmp_path, monkeypatch):
    out = tmp_path / "conditioning" / "helmholtz.json"
    form = rule.default_form(problems.load("helmholtz")).model_dump()
    spec = {"problem": "helmholtz", "options": {"n": 9}, "form": form, "samples": 3, "seed": 1}
    monkeypatch.setattr(sys, "argv", ["conditioning", "--spec", json.dumps(spec), "--code", "abc", "--out", str(out)])
    conditioning.main()
    record = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert record["code"] == "abc"
    assert record["spec"] == spec
    assert {name: len(value["samples"]) for name, value in record["quantities"].items()} == dict.fromkeys(
        record["quantities"], 3
    )
    raw = record["quantities"]["condition_raw"]
    assert raw["median"] == np.median(raw["samples"])
    assert (raw["min"], raw["max"]) == (min(raw["samples"]), max(raw["samples"]))
