"""The decision rule on what is measured: the paper's choices from residuals alone, and three equations not in it."""

import dataclasses

import equations
import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from user_problems import fisher_kpp

import stcl
from stcl import problems
from stcl.losses import metrics, rule, settings
from stcl.probe import probe
from stcl.tangent.operator import TangentOperator

CHOSEN = {
    "diffusion": ("spd", "krylov_target", "fitted_laplacian"),  # the paper's, preconditioned_residual, is worse: below
    "helmholtz": ("indefinite", "krylov_target", "fitted_laplacian"),
    "burgers": ("parabolic", "normalized_residual", None),
    "allen_cahn": ("parabolic", "solved_target", None),  # GMRES solves it, and the data are its solutions
    "navier_stokes": ("saddle", "preconditioned_residual", "leray_oseen"),
}


def chosen(equation):
    found = probe(equation)
    form, reasons = rule.choose(found)
    return found, form, reasons


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_forms_of_the_papers_problems_are_chosen_from_the_residual_alone(name):
    found, form, reasons = chosen(equations.benchmark(name))
    declared = problems.load(name, **equations.OPTIONS[name])
    metric = getattr(form, "metric", None)
    assert (found.tangent_class, form.name, metric and metric.name) == CHOSEN[name]
    assert found.tangent_class == declared.tangent_class
    if name not in ("diffusion", "allen_cahn"):
        assert form.name == rule.default_form(declared).name
    assert reasons


def dense_condition(problem, chosen_metric, index: int = 0) -> float:
    """κ(AᵀMA) with numpy."""
    a, u = problem.states(index + 1)
    operator = TangentOperator(problem, u[index], a[index])
    matrix, metric = operator.matrix().numpy(), dense_metric(problem, metrics.load(problem, chosen_metric), a[index])
    return np.linalg.cond(matrix.T @ metric.numpy() @ matrix)


def test_the_fitted_metric_of_diffusion_is_as_good_as_the_papers():
    """The paper's knows that the input is a log-coefficient; this one knows the residual."""
    problem = problems.load("diffusion", **equations.OPTIONS["diffusion"])
    _, form, _ = chosen(equations.benchmark("diffusion"))
    assert form.metric.scaled
    for index in range(3):
        fitted, paper = (dense_condition(problem, m, index) for m in (form.metric, settings.InverseLaplacian()))
        assert fitted < 1.3 * paper


def test_a_solved_target_is_better_for_diffusion_than_the_papers_form():
    """κ of the Hessian is 1 instead of hundreds, with targets that are right to a few percent after five steps."""
    found, form, reasons = chosen(equations.benchmark("diffusion"))
    assert found.condition_metric < found.condition_raw / 100
    assert found.condition_metric > 100
    assert (form.solver, form.steps) == ("gmres", 5)
    assert dict(found.target_errors)[5] < 0.1
    assert any("κ = 1" in reason for reason in reasons)


def test_the_fitted_metric_of_helmholtz_is_the_papers():
    """Weights 1/h² and half of κ² as a shift; five MINRES steps solve to a percent."""
    found, form, _ = chosen(equations.benchmark("helmholtz"))
    np.testing.assert_allclose(form.metric.weights, 256, rtol=0.01)
    np.testing.assert_allclose(form.metric.shift, 12.5, rtol=0.2)
    assert (form.solver, form.steps) == ("minres", 5)
    assert dict(found.target_errors)[5] < 0.01


def test_navier_stokes_viscosity_is_measured():
    _, form, _ = chosen(equations.benchmark("navier_stokes"))
    np.testing.assert_allclose(form.metric.viscosity, 0.1, rtol=0.02)
    assert 0.3 < form.metric.speed < 3


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_poisson(sign):
    """M is the exact inverse, whichever side of the equation the Laplacian is on: κ(AᵀMA) = κ(A)."""
    found, form, _ = chosen(equations.poisson(sign=sign))
    assert (found.tangent_class, form.name) == ("spd", "krylov_target")
    assert form.solver == ("cg" if sign > 0 else "minres")
    assert dict(found.target_errors)[5] < 1e-10
    assert found.symmetric
    assert form.metric.transforms == ["sine", "sine"]
    np.testing.assert_allclose(form.metric.weights, 256, rtol=1e-6)
    assert form.metric.shift == 0
    np.testing.assert_allclose(found.lowest, 1, rtol=1e-6)
    low, high = (8 * 256 * np.sin(k * np.pi / 32) ** 2 for k in (1, 15))
    np.testing.assert_allclose(found.condition_raw, (high / low) ** 2, rtol=1e-6)
    np.testing.assert_allclose(found.condition_metric, high / low, rtol=1e-6)


def test_advection_in_time():
    found, form, _ = chosen(equations.advection())
    assert (found.tangent_class, form.name) == ("parabolic", "residual")
    assert found.driven_frames == 1


def test_steady_advection():
    """Waves are turned by a quarter: no Laplacian."""
    found, form, reasons = chosen(equations.steady_advection())
    assert (found.tangent_class, form.name) == ("advective", "normalized_residual")
    assert found.alignment < 0.5
    assert "no Laplacian" in reasons[0]


@pytest.mark.parametrize("axes", [("x1", "x2"), ("x2", "x1")])
def test_stokes(axes):
    equation = equations.stokes(axes=axes)
    found, form, _ = chosen(equation)
    assert (found.tangent_class, form.name, form.metric.name) == ("saddle", "preconditioned_residual", "leray_oseen")
    assert found.symmetric
    np.testing.assert_allclose(form.metric.viscosity, 0.3, rtol=1e-6)
    assert form.metric.speed < 1e-10
    assert equation.layout.scored == ("u1", "u2")


def test_the_projector_knows_which_velocity_points_where():
    """A gradient force costs nothing compared with a rotation, on either order of the axes."""
    for axes in (("x1", "x2"), ("x2", "x1")):
        metric = metrics.load(equations.stokes(18, axes), settings.LerayOseen(viscosity=0.3, speed=0.0))
        x = torch.arange(16, dtype=torch.float64) * 2 * torch.pi / 16
        first, second = torch.cos(x)[:, None] * torch.ones(16), torch.cos(x) * torch.ones(16, 1)
        along_own = [first, second] if axes[0] == "x1" else [second, first]
        zero = torch.zeros(1, 1, 16, 16, dtype=torch.float64)
        gradient, rotation = (
            metric.energy(equations.StokesResidual(torch.stack(r)[None, None], zero, zero), x)
            for r in (along_own, along_own[::-1])
        )
        assert gradient < 1e-20
        assert rotation > 1e-4


def test_reaction_diffusion_without_flux_gets_cosines():
    n, h = 24, 1 / 24

    def residual(u, a):
        ghost = torch.cat([u[:, :1], u, u[:, -1:]], 1)
        return -0.1 * (ghost[:, 2:] - 2 * u + ghost[:, :-2]) / h**2 + 3 * u - a

    _, form, _ = chosen(stcl.Equation(residual, equations.smooth(4, n), equations.smooth(4, n, seed=1), check=False))
    assert form.metric.transforms == ["cosine"]
    np.testing.assert_allclose([*form.metric.weights, form.metric.shift], [0.1 / h**2, 3], rtol=1e-6)


def test_a_periodic_anisotropic_operator_gets_waves_and_both_weights():
    n, m = 16, 20

    def residual(u, a):
        x, y = (u.roll(-1, k) - 2 * u + u.roll(1, k) for k in (-2, -1))
        return -5 * x - 0.5 * y + 0.2 * u - a

    _, form, _ = chosen(
        stcl.Equation(residual, equations.smooth(4, n, m), equations.smooth(4, n, m, seed=1), check=False)
    )
    assert form.metric.transforms == ["fourier", "fourier"]
    np.testing.assert_allclose(form.metric.weights, [5, 0.5], rtol=1e-6)


def test_convection_makes_an_indefinite_operator_ask_for_gmres():
    n = 33

    def residual(u, a):
        slope = (u[:, 2:] - u[:, :-2]) * (n - 1) / 2
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (n - 1) ** 2 + 3 * slope - 60 * u[:, 1:-1] - a[:, 1:-1]

    found, form, _ = chosen(
        stcl.Equation(residual, equations.smooth(4, n), equations.walled(4, n, axes=1), check=False)
    )
    assert found.tangent_class == "indefinite"
    assert not found.symmetric
    assert form.solver == "gmres"


def test_a_resonance_is_reported():
    n = 33
    first = 4 * (n - 1) ** 2 * np.sin(np.pi / 2 / (n - 1)) ** 2

    def residual(u, a):
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (n - 1) ** 2 - 1.001 * first * u[:, 1:-1] - a[:, 1:-1]

    _, _, reasons = chosen(stcl.Equation(residual, equations.smooth(4, n), equations.walled(4, n, axes=1), check=False))
    assert any("near a resonance" in reason for reason in reasons)


def test_a_solver_goes_by_what_was_measured_and_not_by_what_is_declared():
    """Helmholtz declares an indefinite operator. With a small wave number it is definite, and CG solves it."""
    problem = problems.load("helmholtz", n=17, kappa=1.0)
    assert probe(problem, conditions=False).krylov_class == "spd" != problem.tangent_class
    for form in ("auto", "krylov_target", "solved_target"):
        a, u = problem.states(4)
        target = stcl.TangentConsistency(problem, form=form).tangent_form.target(a, u, a[:1])
        assert (target.residual < 0.01).all()
    page = stcl.diagnose(problem)
    assert page.kind.startswith("spd")
    stcl.TangentConsistency(problem, form=page.form)  # what was chosen can be asked for


def test_more_steps_are_taken_where_five_do_not_solve():
    hard = rule.Findings(
        unknowns=9,
        symmetry_defect=0.0,
        time_axis=None,
        driven_frames=None,
        saddle=False,
        alignment=1.0,
        metric=settings.FittedLaplacian(),
        lowest=-0.5,
        nearest=0.1,
        solver="minres",
        target_errors=((5, 0.4), (10, 0.05), (20, 0.01)),
    )
    assert rule.choose(hard)[0].steps == 10
    never = dataclasses.replace(hard, target_errors=((5, 0.9), (10, 0.8), (20, 0.7)))
    assert rule.choose(never)[0].steps == 20
    # A definite operator has the paper's form to fall back to.
    definite, reasons = rule.choose(dataclasses.replace(never, lowest=0.1))
    assert definite.name == "preconditioned_residual"
    assert any("not worth matching" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("unknowns", "errors", "kept"),
    [
        (400, (0.01, 0.01, 0.01), True),
        (401, (0.01, 0.01, 0.01), False),
        (800, (0.2, 0.01, 0.01), True),
        (801, (0.2, 0.01, 0.01), False),
        (1000, (0.9, 0.8, 0.7), True),
    ],
)
def test_an_inverse_is_kept_for_the_more_unknowns_the_more_steps_it_stands_for(unknowns, errors, kept):
    found = rule.Findings(
        unknowns=unknowns,
        symmetry_defect=0.0,
        metric=settings.FittedLaplacian(transforms=["sine"], weights=[1.0], shift=0.0),
        lowest=-0.5,
        nearest=0.1,
        solver="minres",
        target_errors=tuple(zip(rule.STEPS, errors, strict=True)),
        direct_residual=1e-12,
    )
    form, _ = rule.with_kept_solver(found, rule.choose(found)[0])
    assert isinstance(form, settings.SolvedTarget) == kept
    # What is not assembled is not kept. Targets that no number of steps has solved are matched with a warning.
    form, why = rule.with_kept_solver(dataclasses.replace(found, direct_residual=None), rule.choose(found)[0])
    assert form.name == "krylov_target"
    assert any("far off" in reason for reason in why) == (min(errors) > 0.1)


def test_a_singular_operator_is_not_called_resonant():
    """A pure Neumann problem: one of its eigenvalues is zero. Small ones of a definite operator are nothing to tell."""
    found = rule.Findings(unknowns=9, symmetry_defect=0.0, metric=settings.FittedLaplacian(), lowest=0.0, nearest=1e-15)
    assert [reason for reason in rule.choose(found)[1] if "A is singular" in reason]
    definite = dataclasses.replace(found, lowest=0.01, nearest=0.01)
    assert not [reason for reason in rule.choose(definite)[1] if "warning" in reason]


@pytest.mark.parametrize("axes", [None, ("time", "place")])
def test_a_problem_in_time_has_a_solved_target_whatever_its_axes_are_called(axes):
    found, form, reasons = chosen(fisher_kpp(nt=21, nx=24).equation(axes=axes))
    assert (found.tangent_class, found.time_axis) == ("parabolic", axes[0] if axes else "t")
    assert form == settings.SolvedTarget(solver=settings.SpaceTime(steps=5))
    assert found.target_errors[0][1] < 0.01
    assert found.correction < 1e-6  # the data were made with this residual
    assert any("GMRES solves in space and time has κ = 1" in reason for reason in reasons)


def test_a_residual_in_time_whose_solutions_are_not_the_data_is_not_solved():
    """Burgers on a coarse grid. The problem's own steps are better: a march takes the residual's place."""
    found, form, reasons = chosen(equations.benchmark("burgers"))
    assert found.correction > 1
    assert form.name == "normalized_residual"
    assert any("this grid does not have their solutions" in reason for reason in reasons)
    kept, why = rule.with_kept_solver(found, form)
    assert (kept, why) == (form, [])  # an exact solution of the wrong system is no better

    found, form, _ = chosen(problems.load("burgers", nx=24, nt=24, solver_nx=48, solver_nt=48))
    assert form == settings.SolvedTarget(solver=settings.March())
    assert rule.with_kept_solver(found, form) == (form, [])


@pytest.mark.parametrize(("name", "solver"), [("allen_cahn", "space_time"), ("navier_stokes", "stokes")])
def test_a_solved_target_can_be_asked_for_by_name(name, solver):
    """The solver is the one that fits what was measured."""
    equation = equations.benchmark(name)
    loss = stcl.TangentConsistency(equation, form="solved_target")
    assert loss.form.solver.name == solver


def test_where_no_solver_fits_a_solved_target_is_refused():
    with pytest.raises(ValueError, match="no stepwise solver fits this operator, which is advective"):
        stcl.TangentConsistency(equations.steady_advection(), form="solved_target")


@pytest.mark.usefixtures("float64")
def test_a_solver_that_is_not_worth_matching_does_not_stand_in_for_the_direct_one():
    """−Δu − 400 u = a, which 20 Krylov steps do not solve. Without labels the exact map still has no loss."""
    n, h = 13, 1 / 12
    inside = slice(1, -1)

    def residual(u, a):
        c = u[:, inside, inside]
        neighbours = u[:, 2:, inside] + u[:, :-2, inside] + u[:, inside, 2:] + u[:, inside, :-2]
        return -(neighbours - 4 * c) / h**2 - 400 * c - a[:, inside, inside]

    cells = torch.nn.functional.pad(torch.eye((n - 2) ** 2).reshape(-1, n - 2, n - 2), (1, 1, 1, 1))
    solution = torch.linalg.inv(residual(cells, torch.zeros_like(cells)).reshape(len(cells), -1))  # A is symmetric

    def solve(a):
        inner = a[:, inside, inside].flatten(1) @ solution
        return torch.nn.functional.pad(inner.reshape(-1, n - 2, n - 2), (1, 1, 1, 1))

    a = equations.smooth(8, n, n)
    equation = stcl.Equation(residual, a, solve(a))
    found = probe(equation, conditions=False)
    assert min(error for _, error in found.target_errors) > rule.WORTH_MATCHING
    loss = stcl.TangentConsistency(equation, directions=a)
    loss(solve, a)
    assert loss.last.derivative < 1e-20 * solve(a).square().mean()
    loss(solve, a, solve(a), unlabelled=a[:4] + a[4:])
    assert loss.last.derivative < 1e-20 * solve(a).square().mean()
