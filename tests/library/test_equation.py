"""What an Equation makes of shapes, and what it says about residuals that cannot work."""

import equations
import numpy as np
import pytest
import torch

import stcl
from stcl.probe import probe
from stcl.tangent import krylov

N = 9


def laplace(u, a):
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (N - 1) ** 2 - a[:, 1:-1]


def states(*shape: int):
    """Inputs, and responses that vanish at the ends of every axis with more than one node."""
    grid = [n for n in shape if n > 1]
    return equations.smooth(3, *shape), equations.walled(3, *grid, axes=len(grid)).reshape(3, *shape)


@pytest.mark.parametrize("shape", [(N, N), (1, N, N), (N, N, 1)])
def test_a_channel_axis_of_length_one_makes_no_difference(shape):
    """The same unknowns and the same residual, wherever a model keeps its channel."""

    def residual(u, a):
        square = u.reshape(len(u), N, N)
        return -equations.laplacian(square, 1 / 8).unsqueeze(1) - a.reshape(len(a), 1, N, N)[..., 1:-1, 1:-1]

    a, u = states(*shape)
    equation = stcl.Equation(residual, a, u, check=False)
    assert equation.layout.response_shape == equation.layout.input_shape == (N, N)
    assert len(equation.unknowns) == 49
    found = equation.residual(u.reshape(3, N, N), a.reshape(3, N, N))
    expected = -equations.laplacian(u.reshape(3, N, N), 1 / 8) - a.reshape(3, N, N)[:, 1:-1, 1:-1]
    torch.testing.assert_close(found, expected)


def test_names_of_axes_and_scored_fields():
    stokes = equations.stokes(9)
    assert stokes.layout.axes == ("x1", "x2")
    assert stokes.layout.responses == ("u1", "u2", "u3")
    assert stokes.layout.scored == ("u1", "u2")
    assert equations.advection().layout.axes == ("t", "x")


def test_inputs_need_no_grid():
    """Two parameters instead of a field."""

    def residual(u, a):
        return laplace(u, a[:, :1] + a[:, 1:] * torch.linspace(0, 1, N).to(u))

    equation = stcl.Equation(residual, torch.randn(4, 2), equations.walled(4, N, axes=1).float(), check=False)
    assert equation.layout.input_shape == (2,)
    found = stcl.diagnose(equation)
    assert found.findings.tangent_class == "spd"


def test_single_precision_constants_are_accepted():
    """A residual that insists on float32 is probed in float32."""
    matrix = torch.eye(N - 2) * 2 - torch.eye(N - 2).roll(1, 0)

    def residual(u, a):
        return u[:, 1:-1] @ matrix - a[:, 1:-1]

    assert (
        stcl.Equation(residual, torch.randn(3, N), torch.randn(3, N), check=False).states(1)[0].dtype == torch.float32
    )


def numpy_residual(u, a):
    return torch.as_tensor(laplace(u.numpy(), a.numpy()))


def detached_coefficient(u, a):
    return -((1 + u[:, 1:-1].detach() ** 2) * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2])) - a[:, 1:-1]


def detached_input(u, a):
    return laplace(u, a.detach())


def detached_state(u, a):
    return laplace(u.detach(), a)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda u, a: a[:, 1:-1] ** 2, "does not depend on u"),
        (lambda u, a: laplace(u, torch.ones_like(a)), "does not depend on a"),
        (detached_state, "in u is 100% away from its finite difference: something that depends on u is detached"),
        (detached_input, "in a is 100% away from its finite difference"),
        (detached_coefficient, r"in u is \d+% away"),
        (numpy_residual, "no forward-mode derivative in u: .*no numpy"),
        (lambda u, a: laplace(u, a).square().mean(), r"must keep the batch .* got shape \(\)"),
        (lambda u, a: laplace(u, a).square().mean(1), r"must keep the batch as its first axis .* got shape \(2,\)"),
        (lambda u, a: laplace(u, a) - u.mean(), "depends on the other samples of its batch"),
        (lambda u, a: laplace(u, a) / 0, "not finite at the given states"),
        (lambda u, a: laplace(u[:, :5], a), r"failed for u \(2, 9\) and a \(2, 9\): RuntimeError"),
        (lambda u, a: [1, 2], "must return a tensor or a tuple of tensors, got list"),
        (lambda u, a: laplace(u, a)[:, :3], r"one equation for each response .* got a residual of shape \(3,\)"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_is_wrong_with_a_residual_is_said(residual, message):
    a, u = states(N)
    with pytest.raises(stcl.EquationError, match=message):
        stcl.Equation(residual, a, u, check=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_dense_matrices_and_solutions_to_rounding_are_accepted(dtype):
    """A u = a with Chebyshev's second derivative, whose entries reach 3e5: what is left at a solution is rounding.

    A product of two rows is rounded unlike that of one row. This is no dependence of a sample on the others.
    """
    x = np.cos(np.pi * np.arange(33) / 32)
    signs = np.r_[2, np.ones(31), 2] * (-1) ** np.arange(33)
    first = np.outer(signs, 1 / signs) / (x[:, None] - x + np.eye(33))
    first -= np.diag(first.sum(1))
    second = torch.as_tensor((first @ first)[1:-1]).to(dtype)

    def residual(u, a):
        return -u @ second.T - a[:, 1:-1]

    a = torch.as_tensor(np.polynomial.chebyshev.chebval(x, np.random.default_rng(0).standard_normal((6, 8)))).to(dtype)
    u = torch.nn.functional.pad(torch.linalg.solve(-second[:, 1:-1], a[:, 1:-1].T).T, (1, 1))
    assert len(stcl.Equation(residual, a, u, check=dtype == torch.float64).unknowns) == 31


def test_a_node_without_a_value_off_the_data_is_not_compared():
    """√(u − 1) has none below u = 1, where the data may be."""
    a, u = states(N)
    stcl.Equation(lambda u, a: laplace(u, a) + (u[:, 1:-1] - 1).sqrt(), a, u.abs() + 1 + 1e-3, check=False)


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_derivatives_are_right_in_any_unit(unit):
    """Harmonic means of a permeability in m², which bend at once if it moves by more than its size.

    The second input, a load, has another unit.
    """

    def residual(u, a):
        k, load = a[:, 0] / unit, a[:, 1]
        flux = 2 * k[:, 1:] * k[:, :-1] / (k[:, 1:] + k[:, :-1]) * (u[:, 1:] - u[:, :-1]) * (N - 1)
        return -(flux[:, 1:] - flux[:, :-1]) * (N - 1) - load[:, 1:-1]

    a, u = states(N)
    both = torch.stack([unit * (a / 4).exp(), a], 1)
    assert len(stcl.Equation(residual, both, u, check=False).unknowns) == N - 2
    with pytest.raises(stcl.EquationError, match=r"in a is \d+% away from its finite difference"):
        stcl.Equation(lambda u, a: residual(u, torch.stack([a[:, 0].detach(), a[:, 1]], 1)), both, u, check=False)


@pytest.mark.parametrize(
    ("a", "u", "options", "message"),
    [
        (torch.randn(3, N), torch.randn(2, N), {}, "as many inputs as responses"),
        (
            torch.randn(N),
            torch.randn(N),
            {},
            r"a as a batch \[B, ...\], got shape \(9,\); one number a sample is a\[:, None\]",
        ),
        (torch.randn(3, N), torch.randn(3, N) * 1j, {}, "u is complex; give real and imaginary part as two fields"),
        ((torch.randn(3, N), torch.randn(3, N)), torch.randn(3, N), {}, "a as one tensor .* got a tuple of several"),
        (torch.ones(3, N).long(), torch.randn(3, N), {}, "floating-point batch .* got torch.int64"),
        (torch.randn(3, N), torch.full((3, N), torch.nan), {}, "u has values that are not finite"),
        (torch.randn(3, N), torch.randn(3, N, 2), {}, r"cannot tell the grid .*\(9, 2\).*put fields first"),
        (torch.randn(3, N), torch.randn(3, N), {"time_axis": 1}, r"time_axis must be an axis of the grid \(9,\)"),
        (torch.randn(3, N), torch.randn(3, N), {"lengths": (1.0, 2.0)}, "one length and one name for each axis"),
    ],
)
def test_wrong_states_are_refused(a, u, options, message):
    with pytest.raises(stcl.EquationError, match=message):
        stcl.Equation(laplace, a, u, **options)


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda u, a: laplace(u, a)[:, 1:-1], r"4 of 9 values of u have no equation\. .* such as u − value"),
        (lambda u, a: torch.cat([laplace(u, a), u[:, :3]], 1), r"There are 1 equations more than the 9 values of u"),
    ],
)
def test_another_number_of_equations_says_how_many_are_missing(residual, message):
    with pytest.raises(stcl.EquationError, match=message):
        stcl.Equation(residual, *states(N))


def test_a_saddle_in_one_piece_is_asked_for_in_blocks():
    stokes = equations.stokes(9)

    def stacked(u, a):
        blocks = stokes.residual(u, a)
        return torch.cat([blocks.momentum, blocks.divergence[:, None]], 1)

    a, u = stokes.states(8)
    with pytest.raises(stcl.EquationError, match=r"return the residual as a tuple \(momentum, divergence\)"):
        stcl.diagnose(stcl.Equation(stacked, a, u, walls="free", check=False))


def test_blocks_may_come_as_a_dict_or_a_tuple():
    stokes = equations.stokes(9)
    a, u = stokes.states(8)
    forms = {
        "tuple": lambda u, a: tuple(stokes.residual(u, a)),
        "dict": lambda u, a: stokes.residual(u, a)._asdict(),
    }
    for residual in forms.values():
        again = stcl.Equation(residual, a, u, check=False)
        for one, other in zip(again.residual(u, a), stokes.residual(u, a), strict=True):
            assert torch.equal(one, other)
        assert again.layout.scored == ("u1", "u2")


def test_numpy_states_are_taken():
    a, u = (np.asarray(x) for x in states(N))
    assert len(stcl.Equation(laplace, a, u, check=False).unknowns) == N - 2


@pytest.mark.parametrize(("equation", "solver"), [("poisson", "cg"), ("helmholtz", "minres"), ("negated", "minres")])
def test_the_class_is_measured_for_forms_that_need_it(equation, solver):
    """A Krylov form without a solver takes the one that fits: CG only for a positive definite operator."""
    if equation == "helmholtz":
        made = equations.benchmark("helmholtz")
    else:
        made = equations.poisson(9)
        if equation == "negated":
            residual = made.residual
            made = stcl.Equation(lambda u, a: -residual(u, a), *made.states(8), check=False)
    loss = stcl.TangentConsistency(made, form=stcl.KrylovTarget(metric=stcl.FittedLaplacian()))
    assert loss.tangent_form.solver.solve is getattr(krylov, solver)


@pytest.mark.parametrize("axes", [None, ("t", "x"), ("time", "x"), ("years", "t")])
def test_time_is_the_axis_that_was_named_as_time(axes):
    """Whatever it is called; an axis that happens to be called t is not time for that."""
    made = equations.advection()
    equation = stcl.Equation(made.residual, *made.states(8), time_axis=0, axes=axes, check=False)
    assert equation.layout.time_axis == (axes or ("t", "x"))[0]
    found = probe(equation, conditions=False)
    assert (found.tangent_class, found.time_axis) == ("parabolic", equation.layout.time_axis)


def test_walls_are_held_at_their_value():
    """At what all states have there, whatever the model says; tangents there do not count."""
    a, u = states(N)
    u = u + 3.0  # u = 3 at both ends
    held, free = (stcl.Equation(laplace, a, u, walls=walls, check=False) for walls in ("held", "free"))
    other = u.clone()
    other[:, 0] += 1.0
    torch.testing.assert_close(held.residual(other, a), laplace(u, a))
    torch.testing.assert_close(free.residual(other, a), laplace(other, a))
    w = torch.zeros_like(u)
    w[:, -1] = 1.0
    along = [torch.func.jvp(lambda x, e=e: e.residual(x, a), (u,), (w,))[1] for e in (held, free)]
    assert along[0].abs().max() == 0
    assert along[1].abs().max() == 64


def test_values_that_come_from_the_input_cannot_be_held():
    def residual(u, a):  # u_t = −a u from a start that differs between samples
        return (u[:, 1:] - u[:, :-1]) * 8 + u[:, 1:] * a

    u = torch.rand(3, 9) + 1
    with pytest.raises(stcl.EquationError, match=r"1 nodes of u enter .*differ between the states.*torch.cat"):
        stcl.Equation(residual, torch.rand(3, 8), u, time_axis=0, check=False)


def test_values_with_a_block_of_their_own_stay_free():
    stokes = equations.stokes(9)
    a, u = stokes.states(8)
    w = torch.zeros_like(u)
    w[:, 0, 0] = 1.0
    _, along = torch.func.jvp(lambda x: stokes.residual(x, a), (u,), (w,))
    assert along.boundary.abs().max() == 1


def rows_at_walls(wall: float):
    """−Δu = a on 13 × 13 nodes with equations wall · u at the boundary."""

    def residual(u, a):
        inside = -equations.laplacian(u, 1 / 12) - a[:, 1:-1, 1:-1]
        middle = torch.cat([wall * u[:, 1:-1, :1], inside, wall * u[:, 1:-1, -1:]], 2)
        return torch.cat([wall * u[:, :1], middle, wall * u[:, -1:]], 1)

    return residual


@pytest.mark.parametrize("wall", [1.0, 12.0, 1e6])
def test_equations_at_walls_have_the_size_of_those_inside(wall):
    """A row of −Δ has the norm √20/h². Without the factor no Laplacian is found in A."""
    u = equations.walled(6, 13, 13, axes=2)
    a = torch.nn.functional.pad(-equations.laplacian(u, 1 / 12), (1, 1, 1, 1))
    equation = stcl.Equation(rows_at_walls(wall), a, u)
    off = u + 1 + equations.smooth(6, 13, 13).square()
    plain, scaled = rows_at_walls(wall)(off, a), equation.residual(off, a)
    ratio = scaled / plain
    torch.testing.assert_close(ratio[:, 1:-1, 1:-1], torch.ones(6, 11, 11, dtype=torch.float64))
    walls = torch.cat([ratio[:, 0], ratio[:, -1], ratio[:, 1:-1, 0], ratio[:, 1:-1, -1]], 1)
    torch.testing.assert_close(wall * walls, torch.full_like(walls, 144 * 20**0.5), rtol=0.1, atol=0)
    found = probe(equation)
    assert found.tangent_class == "spd"
    assert found.target_errors[-1][1] < 0.05


def test_equations_at_walls_that_say_nothing_stay_as_they_are():
    """They make A singular, but not infinite."""
    u = equations.walled(6, 13, 13, axes=2)
    a = torch.nn.functional.pad(-equations.laplacian(u, 1 / 12), (1, 1, 1, 1))
    equation = stcl.Equation(rows_at_walls(0.0), a, u, check=False)
    assert torch.equal(equation.residual(u + 1, a), rows_at_walls(0.0)(u + 1, a))


def test_equations_at_walls_of_the_right_size_stay_as_they_are():
    u = equations.walled(6, 13, 13, axes=2)
    a = torch.nn.functional.pad(-equations.laplacian(u, 1 / 12), (1, 1, 1, 1))
    residual = rows_at_walls(200.0)
    equation = stcl.Equation(residual, a, u)
    off = u + 1 + equations.smooth(6, 13, 13).square()
    assert torch.equal(equation.residual(off, a), residual(off, a))
