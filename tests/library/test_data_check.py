"""The equation is checked against the data: right ones pass in silence, wrong ones are named."""

import math
import re
import warnings

import pytest
import torch
import user_problems
from equations import OPTIONS, laplacian
from test_examples import load
from torch.nn.functional import pad

import stcl
from stcl import problems
from stcl.core.infer_layout import infer_layout
from stcl.tangent.data_check import agreement
from stcl.tangent.data_verdict import check_data, verdict


def made(problem: user_problems.UserProblem, residual=None, a=None, u=None) -> stcl.Equation:
    """An Equation with something changed. Warnings are errors."""
    given = problem.data(16)
    a, u = (old if new is None else new for old, new in zip(given, (a, u), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", stcl.EquationWarning)
        return stcl.Equation(residual or problem.residual, a, u, **problem.options)


# -- what was measured ---------------------------------------------------------------------------------------------


def test_the_distance_is_what_is_missing_to_the_solution():
    """−u'' = a with responses that are off by a known smooth field: dᵢᵢ is that field."""
    x = torch.linspace(0, 1, 33, dtype=torch.float64)
    solutions = torch.stack([torch.sin(k * math.pi * x) for k in (1, 2, 3, 4)])

    def residual(u, a):
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 1024 - a[:, 1:-1]

    a = pad(residual(solutions, torch.zeros(4, 33)), (1, 1))
    equation = stcl.Equation(residual, a, solutions)
    error = 0.2 * torch.sin(math.pi * x)
    found = agreement(equation.residual, equation.layout, a, solutions + error)
    expected = 4 * error.norm() ** 2 / (solutions + error).norm() ** 2
    assert found.distance == pytest.approx(math.sqrt(expected), rel=1e-6)
    assert found.differences == pytest.approx(0, abs=1e-9)  # the same error in all
    scaled = agreement(equation.residual, equation.layout, a, 1.3 * solutions)
    assert scaled.distance == pytest.approx(0.3 / 1.3, rel=1e-4)
    assert scaled.differences == pytest.approx(0.3 / 1.3, rel=1e-4)
    swapped = agreement(equation.residual, equation.layout, a, solutions.roll(1, 0))
    assert swapped.wins < 0.7


def test_rounding_and_noise_hardly_count():
    """1 % of white noise leaves more of −u'' than there is of a, and hardly moves the distance."""
    problem = user_problems.fitzhugh_nagumo()
    a, u = problem.data(8)
    noise = pad(torch.randn(8, 2, 31, generator=torch.Generator().manual_seed(1)), (1, 1))
    noisy = u + 0.01 * u.std() * noise
    assert problem.residual(noisy, a).norm() > 0.5 * problem.residual(noisy.roll(1, 0), a).norm()
    equation = made(problem, a=a, u=noisy)
    found = agreement(equation.residual, equation.layout, *equation.states(8))
    assert found.distance < 0.03
    assert verdict(found) == "holds"


@pytest.mark.parametrize("zeros", [2, 8])
def test_responses_that_are_zero_have_a_slope(zeros):
    """−u'' + u³ = a with no source in the first samples, or in all."""

    def residual(u, a):
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 256 + u[:, 1:-1] ** 3 - a[:, 1:-1]

    u = pad(torch.randn(8, 15, generator=torch.Generator().manual_seed(0)), (1, 1)).double()
    u[:zeros] = 0
    a = pad(residual(u, torch.zeros_like(u)), (1, 1))
    layout = infer_layout((17,), (17,), None, None, None, None)
    assert agreement(residual, layout, a, u).bend < 1e-3
    assert agreement(lambda u, a: residual(u, a) ** 2, layout, a, u).bend > 1


def test_a_constant_that_no_equation_sees_is_not_made_of_rounding():
    """−u'' = a on a circle: A of a constant is rounding, and so is the mean of the equations.

    Responses are off by a known wave. A row of A that is rounding would bring any constant into dᵢᵢ.
    """
    x = torch.arange(32, dtype=torch.float64) / 32
    solutions = torch.stack([torch.sin(2 * math.pi * k * x + k) for k in (1, 2, 3, 4)])

    def residual(u, a):
        return -(u.roll(-1, -1) - 2 * u + u.roll(1, -1)) * 1024 - a

    a = residual(solutions, torch.zeros(4, 32))
    layout = infer_layout((32,), (32,), None, None, None, None)
    error = 0.2 * torch.sin(2 * math.pi * x)
    found = agreement(residual, layout, a + 1e-7, solutions + error)
    expected = 4 * error.norm() ** 2 / (solutions + error).norm() ** 2
    assert found.distance == pytest.approx(math.sqrt(expected), rel=1e-3)


# -- right ones ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", user_problems.PROBLEMS)
def test_problems_of_users_pass_in_silence(name):
    """Data in float32."""
    equation = made(user_problems.PROBLEMS[name]())
    found = agreement(equation.residual, equation.layout, *equation.states(16))
    assert found.distance < 1e-6
    assert found.wins == 1


@pytest.mark.parametrize("name", ["darcy", "existing_loop", "reaction_diffusion"])
def test_examples_pass_in_silence(name):
    example = load(name)
    a = example.inputs(16, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stcl.Equation(example.residual, a, example.solve(a))


def test_samples_that_were_not_solved_are_named():
    """Wherever they are. What stands out of the rounding of others is rounding, too, unless it moves u."""
    example = load("darcy")
    a = example.inputs(40, seed=1).double()
    u = example.solve(a)
    unsolved = u.clone()
    unsolved[30:33] *= 3
    message = r"3 of 40 \(30, 31, 32, counted from 0\): the worst is 0\.6\d? of \|u\| away"
    with pytest.warns(stcl.EquationWarning, match=message):
        stcl.Equation(example.residual, a, unsolved)
    u[30:33] *= 1 + 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stcl.Equation(example.residual, a, u)


@pytest.mark.parametrize("name", ["diffusion", "helmholtz", "allen_cahn", "navier_stokes"])
def test_problems_of_the_paper_pass_in_silence(name):
    problem = problems.load(name, **OPTIONS[name])
    a, u = (x.float().double() for x in problem.states(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_data(problem.residual, problem.layout, a, u, "")


@pytest.mark.parametrize("options", [OPTIONS["burgers"], {}], ids=["tiny", "paper"])
def test_the_burgers_residual_of_the_paper_is_doubtful_and_says_so(options):
    problem = problems.load("burgers", **options)
    with pytest.warns(stcl.EquationWarning, match=r"hardly holds .* of \|u\| away from solving it.*mismatched pairs"):
        check_data(problem.residual, problem.layout, *problem.states(16), "")


@pytest.mark.parametrize("first", range(0, 128, 16))
def test_no_batch_of_a_coarse_grid_is_refused(first, burgers_states):
    problem, a, u = burgers_states
    found = agreement(problem.residual, problem.layout, a[first : first + 16], u[first : first + 16])
    assert verdict(found) != "contradicted"


@pytest.fixture(scope="module")
def burgers_states():
    problem = problems.load("burgers", nx=16, nt=32, solver_nx=32, solver_nt=64)
    return problem, *problem.states(128)


def test_few_and_equal_samples_are_no_reason_to_refuse():
    problem = user_problems.three_scalars()
    a, u = problem.data(3)
    for rows in ([0], [0, 0, 0], [0, 1]):
        made(problem, a=a[rows], u=u[rows])


# -- wrong ones ----------------------------------------------------------------------------------------------------

ADR, FISHER, SCALARS = (
    user_problems.advection_diffusion_reaction,
    user_problems.fisher_kpp,
    user_problems.three_scalars,
)
NAGUMO, WAVES, HEAT = user_problems.fitzhugh_nagumo, user_problems.damped_helmholtz, user_problems.nonlinear_heat


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (SCALARS, lambda F: lambda u, a: F(u, -a), "it holds for −a: check the sign"),
        (NAGUMO, lambda F: lambda u, a: F(u, a) ** 2, "no slope in u at the data.*squared"),
        (FISHER, lambda F: lambda u, a: F(u.flip(1), a), "reversed along t: time runs backwards"),
        (SCALARS, lambda F: lambda u, a: F(u, a[:, [1, 2, 0]]), "the parts of a in the order 3, 1, 2"),
        (NAGUMO, lambda F: lambda u, a: F(u.flip(1), a), "the fields of u in the order 2, 1"),
        (WAVES, lambda F: lambda u, a: F(2 * u, a), "it holds for 0.5 u: a factor is wrong"),
        (ADR, lambda F: lambda u, a: F(u, 2 * a), "it holds for 0.5 a: a factor is wrong"),
        (ADR, lambda F: lambda u, a: F(u.transpose(-1, -2), a), "u is transposed"),
        (HEAT, lambda F: lambda u, a: F(u, a.flip(-1)), "the axis x runs backwards"),
        (SCALARS, lambda F: lambda u, a: F(u, a) - F(0 * u, a), "it holds for u = 0: a source or a boundary value is"),
        (FISHER, lambda F: lambda u, a: F(u, a) - 2 * a[:, None] * u[:, 1:], "contradict"),  # the sign of the growth
        (WAVES, lambda F: lambda u, a: F(u, a) + 2 * 144 * u[..., 1:-1], "contradict"),  # the sign of −κ²u
        (SCALARS, lambda F: lambda u, a: F(u, a) + 2 * a[:, :1].exp() * bend(u), "contradict"),  # of the diffusion
    ],
)
def test_wrong_residuals_are_refused_by_name(make, change, message):
    problem = make()
    with pytest.raises(stcl.EquationError, match=message):
        made(problem, change(problem.residual))


def bend(u):
    return (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 32**2


def test_swapped_arguments_and_a_forgotten_spacing_are_named():
    example = load("reaction_diffusion")
    a = example.inputs(16, seed=1)
    u = example.solve(a)
    with pytest.raises(stcl.EquationError, match="with u and a swapped"):
        stcl.Equation(lambda u, a: example.residual(a, u), a, u)
    h = 1 / 12

    def poisson(u, a):  # −Δu = a, without its h²
        return -laplacian(u, 1.0) - a[:, 1:-1, 1:-1]

    u = pad(torch.randn(16, 4, 4, generator=torch.Generator().manual_seed(0)), (0, 0))
    u = torch.nn.functional.interpolate(u[:, None], (13, 13), mode="bicubic", align_corners=True)[:, 0]
    u = pad(u[:, 1:-1, 1:-1], (1, 1, 1, 1))
    a = pad(-laplacian(u, h), (1, 1, 1, 1))
    with pytest.raises(stcl.EquationError, match=r"it holds for 144 u: 12² looks like a power of the spacing"):
        stcl.Equation(poisson, a, u)


@pytest.mark.parametrize("make", [ADR, SCALARS, NAGUMO, WAVES])
def test_normalised_responses_are_named(make):
    """And with the scale undone they pass: the numbers are those of the normalisation."""
    problem = make()
    _, u = problem.data(16)
    mean, deviation = u.mean(), u.std()
    with pytest.raises(stcl.EquationError, match="is u normalised") as caught:
        made(problem, u=(u - mean) / deviation)
    assert f"it holds for {deviation:.4g} u" in str(caught.value)


def test_rows_out_of_order_are_named():
    problem = NAGUMO()
    _, u = problem.data(16)
    with pytest.raises(stcl.EquationError, match="rows of a and u are out of order"):
        made(problem, u=u.roll(1, 0))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_flipped_sign_of_a_is_refused_in_every_problem_of_the_paper(name):
    """In Burgers, too, whose residual is doubtful as it is."""
    problem = problems.load(name, **OPTIONS[name])
    with pytest.raises(stcl.EquationError, match="contradict"):
        check_data(lambda u, a: problem.residual(u, -a), problem.layout, *problem.states(16), "")


def test_a_wrong_coefficient_is_doubted():
    """Twice the viscosity is not a multiple of anything: there is no name for it, and the own data still fit best."""
    problem = ADR()

    def residual(u, a):
        return problem.residual(u, a) - user_problems.VISCOSITY * laplacian(u, 1 / 12)

    with pytest.warns(stcl.EquationWarning, match="hardly holds"):
        stcl.Equation(residual, *problem.data(16))


# -- who checks ----------------------------------------------------------------------------------------------------


def test_the_first_batch_is_checked_too_unless_it_is_not_wanted():
    problem = SCALARS()
    a, u = problem.data(16)
    model = problem.model()
    for equation in (stcl.Equation(problem.residual, a, u), problem.residual):
        with pytest.raises(stcl.EquationError, match="is u normalised"):
            stcl.TangentConsistency(equation)(model, a, (u - u.mean()) / u.std())
    unchecked = stcl.Equation(problem.residual, a, (u - u.mean()) / u.std(), check=False)
    assert stcl.TangentConsistency(unchecked)(model, a, (u - u.mean()) / u.std()).isfinite()


def test_diagnose_says_how_well_the_equation_holds():
    problem = SCALARS()
    a, u = problem.data(16)
    page = str(stcl.diagnose(problem.equation(16)))
    assert re.search(r"data       F\(u, a\) = 0 holds: .*\n +the responses are \d.*e-08 of \|u\| away", page)
    wrong = stcl.Equation(lambda u, a: problem.residual(u, -a), a, u, check=False)
    assert "F(u, a) = 0 is contradicted by the data" in str(stcl.diagnose(wrong))


@pytest.mark.parametrize(("sign", "convection"), [(1, 0.0), (-1, 0.0), (1, 5.0)])
def test_only_symmetric_positive_operators_are_called_spd(sign, convection):
    def residual(u, a):
        slope = (u[:, 2:] - u[:, :-2]) * 16
        return sign * (-bend(u) + convection * slope - a[:, 1:-1])

    u = pad(torch.randn(8, 31, generator=torch.Generator().manual_seed(0)), (1, 1))
    a = pad(sign * residual(u, torch.zeros(8, 33)), (1, 1))
    expected = {
        (1, 0.0): "spd: definite elliptic; symmetric",
        (-1, 0.0): "definite: elliptic, with −A positive: the equation is written with the other sign; symmetric",
        (1, 5.0): "definite: elliptic; not symmetric",
    }
    assert f"class      {expected[sign, convection]}" in str(stcl.diagnose(stcl.Equation(residual, a, u)))


def test_a_check_draws_no_random_numbers():
    problem = SCALARS()
    before = torch.get_rng_state()
    made(problem)
    assert torch.equal(before, torch.get_rng_state())
