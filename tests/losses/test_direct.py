"""The direct solver: exact targets, and what is kept."""

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacfwd, vmap

import stcl
from stcl.losses import settings, solvers
from stcl.losses.rule import refusals
from stcl.losses.solvers.direct import fingerprints
from stcl.tangent.operator import TangentOperator
from stcl.tangent.residual import input_derivative

N = 17


def residual(u: Tensor, a: Tensor) -> Tensor:
    """−(eᵃ u')' + u³ + u' = 1 between walls."""
    flux = (a[:, 1:].exp() + a[:, :-1].exp()) / 2 * (u[:, 1:] - u[:, :-1]) * (N - 1)
    slope = (u[:, 2:] - u[:, :-2]) * (N - 1) / 2
    return -(flux[:, 1:] - flux[:, :-1]) * (N - 1) + u[:, 1:-1] ** 3 + slope - 1


def data(count: int = 6) -> tuple[Tensor, Tensor]:
    """Inputs and the responses that solve the equation, by Newton's method."""
    a = 0.3 * torch.randn(count, N, generator=torch.Generator().manual_seed(0))

    def inside(x, a):
        return residual(torch.nn.functional.pad(x, (1, 1))[None], a[None])[0]

    x = torch.zeros(count, N - 2)
    for _ in range(5):
        x = x - torch.linalg.solve(vmap(jacfwd(inside))(x, a), vmap(inside)(x, a))
    return a, torch.nn.functional.pad(x, (1, 1))


def solver(equation: Any = None, **options: Any) -> Any:
    return solvers.load(
        equation or stcl.Equation(residual, *data(), check=False), settings.Direct(**options), "indefinite"
    )


def right_hand_sides(equation: Any, u: Tensor, a: Tensor, q: int = 3) -> Tensor:
    v = torch.randn(len(a), q, N, generator=torch.Generator().manual_seed(1)).to(a)
    return -input_derivative(equation, u, a, v)


def dense(equation: Any, u: Tensor, a: Tensor, g: Tensor) -> Tensor:
    """The solution by the matrix of each sample, in float64."""
    states = zip(u.double(), a.double(), g.double(), strict=True)
    inside = [torch.linalg.solve(TangentOperator(equation, ui, ai).matrix(), gi.T).T for ui, ai, gi in states]
    return torch.nn.functional.pad(torch.stack(inside), (1, 1))


class Counted:
    """A solver of what is not kept that counts its samples."""

    def __init__(self, other: Any) -> None:
        self.other, self.samples = other, 0

    def at(self, u, a):
        self.samples += len(u)
        return self.other.at(u, a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_targets_are_exact_in_any_order(dtype):
    a, u = (x.to(dtype) for x in data())
    direct = solver()
    for rows in ([0, 1, 2], [5, 2, 0, 1], [2], [4, 4, 3]):
        g = right_hand_sides(direct.equation, u[rows], a[rows])
        found = direct.at(u[rows], a[rows])(g)
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(
            found.x.double(), dense(direct.equation, u[rows], a[rows], g), rtol=1e3 * eps, atol=1e2 * eps
        )
        assert found.solved.all()
        assert found.residual.shape == found.solved.shape == (len(rows), 3)
        assert found.residual.max() < 1e3 * eps
    assert len(direct._kept) == 6


def test_a_known_sample_is_not_linearised_again(monkeypatch):
    direct, (a, u) = solver(), data()
    g = right_hand_sides(direct.equation, u, a)
    first = direct.at(u, a)(g).x
    monkeypatch.setattr(type(direct.equation), "residual", None)
    torch.testing.assert_close(direct.at(u.clone(), a.clone())(g).x, first)
    with pytest.raises(TypeError):
        direct.at(u + 1e-3, a)


@pytest.mark.parametrize("kept", [0, 2])
def test_what_does_not_fit_is_solved_otherwise(kept):
    """The first samples are kept, up to the limit, and nothing is thrown out for those that come later."""
    direct, (a, u) = solver(limit=max(kept * 15 * 15 * 8, 1), otherwise=settings.Krylov(steps=30)), data()
    direct.otherwise = Counted(direct.otherwise)
    g = right_hand_sides(direct.equation, u, a)
    exact = dense(direct.equation, u, a, g).to(a)
    for rows in ([3, 4], [0, 3, 1, 4, 2, 5], [3, 4]):
        torch.testing.assert_close(direct.at(u[rows], a[rows])(g[rows]).x, exact[rows], rtol=1e-3, atol=1e-4)
    assert len(direct._kept) == kept
    assert direct.otherwise.samples == (4 if kept else 10)


def test_without_another_solver_the_rest_is_inverted_anew():
    direct, (a, u) = solver(limit=15 * 15 * 8), data()
    g = right_hand_sides(direct.equation, u, a)
    exact = dense(direct.equation, u, a, g).to(a)
    with pytest.warns(UserWarning, match=r"the inverses of 1 samples fill .* at every update, which is slow"):
        first = direct.at(u, a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        second = direct.at(u, a)
    for solve in (first, second):
        torch.testing.assert_close(solve(g).x, exact, rtol=1e-3, atol=1e-4)
    assert len(direct._kept) == 1


def test_a_singular_operator_has_no_target():
    """The second sample has A = 0; the first one does not notice."""

    def scaled(u, a):
        return a[:, :1] * residual(u, a)

    a, u = data(2)
    equation = stcl.Equation(scaled, *data(), check=False)
    a[1, 0], a[0, 0] = 0.0, 1.0
    found = solver(equation).at(u, a)(torch.ones(2, 3, N - 2))
    assert found.solved.tolist() == [[True] * 3, [False] * 3]
    assert found.x[1].abs().max() == 0
    torch.testing.assert_close(
        found.x.double()[:1], dense(equation, u[:1], a[:1], torch.ones(1, 3, N - 2)), rtol=1e-4, atol=1e-5
    )


def test_an_ill_conditioned_operator_is_solved_in_single_precision():
    """A beam: κ(A) is above 1e6, so a rounded solution leaves a large residual, and is right all the same."""
    n = 91

    def beam(u, a):
        inside = torch.nn.functional.pad(u[:, 1:-1], (2, 2))
        bend = inside[:, 2:] - 2 * inside[:, 1:-1] + inside[:, :-2]
        return ((bend[:, 2:] - 2 * bend[:, 1:-1] + bend[:, :-2]) * (n - 1) ** 4) - a[:, 1:-1]

    a, u = torch.randn(4, n), 1e-7 * torch.nn.functional.pad(torch.randn(4, n - 2), (1, 1))
    equation = stcl.Equation(beam, a, u, check=False)
    assert torch.linalg.cond(TangentOperator(equation, u[0], a[0]).matrix()) > 1e6
    g = torch.ones(4, 1, n - 2)
    found = solver(equation).at(u.float(), a.float())(g.float())
    assert found.solved.all()
    torch.testing.assert_close(found.x.double(), dense(equation, u, a, g), rtol=1e-5, atol=1e-9)


def test_half_precision_and_autocast():
    """What is kept is at least of single precision, and a product under autocast is, too."""
    direct, (a, u) = solver(), data()
    for dtype, autocast in ((torch.bfloat16, False), (torch.float32, True)):
        states = u.to(dtype), a.to(dtype)
        g = right_hand_sides(direct.equation, *states)
        with torch.autocast("cpu", enabled=autocast):
            found = direct.at(*states)(g)
        assert found.solved.all()
        eps = torch.finfo(dtype).eps
        exact = dense(direct.equation, *states, g)
        torch.testing.assert_close(found.x.double(), exact, rtol=4 * eps, atol=10 * eps * float(exact.abs().max()))
    assert {one.transposed.dtype for one in direct._kept.values()} == {torch.float32}


def test_copies_and_pickles_leave_behind_what_is_kept():
    loss = stcl.TangentConsistency(stcl.Equation(residual, *data(), check=False))
    a, u = data()
    loss(nn.Linear(N, N), a, u)
    assert len(loss.tangent_form.solver._kept) == 6
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert len(other.tangent_form.solver._kept) == 0
        assert other(nn.Linear(N, N), a, u) > 0


def test_keys_tell_samples_apart_by_their_bits():
    """The same in every batch, and different after a change of one bit of one value."""
    a, u = data(50)
    keys = fingerprints(u, a)
    assert len(set(keys)) == 50
    order = torch.randperm(50)
    assert fingerprints(u[order], a[order]) == [keys[i] for i in order]
    bits = a.clone()
    bits.view(torch.int64)[7, 3] ^= 1
    assert [i for i, (x, y) in enumerate(zip(fingerprints(u, bits), keys, strict=True)) if x != y] == [7]
    assert fingerprints(u.float(), a.float()) != keys


# -- in the loss --------------------------------------------------------------------------------------------------


def test_auto_keeps_inverses_and_has_the_loss_of_exact_tangents():
    """Against dense solves in float64, for a bare residual, labels and scaled fields."""
    torch.manual_seed(0)
    a, u = data()
    v = torch.randn(24, N)
    model = nn.Sequential(nn.Linear(N, 8), nn.Tanh(), nn.Linear(8, N))
    loss = stcl.TangentConsistency(residual, directions=lambda count: v)
    assert loss(model, a, u) > 0
    assert (loss.form.name, loss.form.solver.name, loss.form.solver.otherwise.method) == (
        "solved_target",
        "direct",
        "gmres",
    )
    assert any("few enough to keep its inverse" in reason for reason in loss.reasons)
    _, w = stcl.value_and_tangents(model, a, v.view(6, 4, N))
    g = -input_derivative(loss.equation, u.double(), a.double(), v.view(6, 4, N).double())
    exact = dense(loss.equation, u, a, g)
    torch.testing.assert_close(loss.last.derivative.double(), (w.detach() - exact).square().mean(), rtol=1e-4, atol=0)

    scale = stcl.Scale(a=torch.sinh, u=(0.0, 2.0))
    scaled = stcl.TangentConsistency(residual, scale=scale)
    for _ in range(2):
        for rows in torch.randperm(6).split(4):
            scaled(model, a[rows].asinh(), u[rows] / 2)
    assert len(scaled.tangent_form.solver._kept) == 6


def test_without_labels_nothing_is_kept():
    a, u = data()
    loss = stcl.TangentConsistency(stcl.Equation(residual, a, u, check=False))
    loss(nn.Linear(N, N), a)
    assert len(loss.tangent_form.solver._kept) == 0
    loss(nn.Linear(N, N), a, u)
    assert len(loss.tangent_form.solver._kept) == 6


@pytest.mark.parametrize("state", ["prediction", "corrected"])
def test_a_state_that_changes_has_its_own_inverse_at_every_update(state):
    """A loss that has seen the samples with another prediction agrees with one by GMRES that has not."""
    a, u = (x.double() for x in data())
    equation = stcl.Equation(residual, a, u)
    form = settings.SolvedTarget(solver=settings.Direct(), state=state)
    used = stcl.TangentConsistency(equation, form=form)
    used(nn.Linear(N, N).double(), a, u)
    krylov = settings.Krylov(steps=15, method="gmres")
    other = stcl.TangentConsistency(equation, form=form.model_copy(update={"solver": krylov}))
    model, found = nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N)).double(), []
    for loss in (used, other):
        torch.manual_seed(0)
        loss(model, a, u)
        found.append(loss.last.derivative)
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)
    assert len(used.tangent_form.solver._kept) == 0


@pytest.mark.parametrize(
    ("form", "tangent_class", "message"),
    [
        ({"state": "prediction"}, "spd", "a prediction never comes again; use state label"),
        ({}, "saddle", "solver direct is for operators that are spd"),
        (
            {"solver": settings.Direct(otherwise=settings.Krylov())},
            "parabolic",
            "solver krylov is for operators that are spd or indefinite",
        ),
    ],
)
def test_what_the_direct_solver_cannot_do_is_refused(form, tangent_class, message):
    equation = stcl.Equation(residual, *data(), check=False)
    equation.tangent_class = tangent_class
    chosen = settings.SolvedTarget(**{"solver": settings.Direct(), **form})
    assert any(message in refusal for refusal in refusals(chosen, equation))


def test_a_cell_depends_on_the_solver_that_stands_in():
    chosen = settings.SolvedTarget(solver=settings.Direct(otherwise=settings.Krylov()))
    assert [one.name for one in settings.solvers_of(chosen)] == ["direct", "krylov"]
    assert settings.metric_of(chosen).name == "fitted_laplacian"
    assert settings.solvers_of(settings.Residual()) == []
