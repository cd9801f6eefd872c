"""`tangents(model, a, u, unlabelled=…)`: the term against a dense Newton step, written out here."""

import pytest
import torch
from torch.nn.functional import mse_loss, pad

import stcl
from stcl.losses.newton import Newton

NODES = 17


def residual(u, a):
    """−u'' + u³ = a, u = 0 at both ends."""
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (NODES - 1) ** 2 + u[:, 1:-1] ** 3 - a[:, 1:-1]


def waves(u, a):
    """−u'' − (4 + a)² u = 1, u = 0 at both ends; resonant where 4 + a is about a multiple of π."""
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (NODES - 1) ** 2 - ((4 + a) ** 2 * u)[:, 1:-1] - 1


def newton(equation, u, a):
    """u − A⁻¹F(u, a) of fields that vanish at the ends, with dense matrices A."""
    x = u[:, 1:-1]
    return pad(x - torch.linalg.solve(matrices(equation, x, a), equation(pad(x, (1, 1)), a)), (1, 1))


def matrices(equation, x, a):
    """∂F/∂u for values x at the inner nodes, by reverse mode."""
    return torch.func.vmap(torch.func.jacrev(lambda x, a: equation(pad(x, (1, 1))[None], a[None])[0]))(x, a)


def solved(equation, a):
    u = torch.zeros_like(a)
    for _ in range(10):
        u = newton(equation, u, a)
    return u


def network():
    return torch.nn.Sequential(torch.nn.Linear(NODES, 24), torch.nn.Tanh(), torch.nn.Linear(24, NODES))


@pytest.fixture
def batch(float64):
    a = 20 * torch.randn(14, 1) + torch.randn(14, NODES).cumsum(1)
    return network(), a[:10], solved(residual, a[:10]), a[10:]


@pytest.mark.parametrize("factor", [1.0, 7.0])
@pytest.mark.parametrize("drawn", [False, True])
def test_values_and_tangents_of_both_kinds_of_inputs(batch, factor, drawn):
    """λ weighs the mean over all inputs. A squared error of the value counts what it counts in the data loss."""
    model, a, u, more = batch
    directions = torch.randn(1, NODES)
    data = factor * mse_loss(model(a), u)
    tangents = stcl.TangentConsistency(residual, lam=0.5, q=1, directions=directions)
    term = tangents(model, a, u, data=data, unlabelled=(lambda count: more[:count]) if drawn else more)

    guess = model(more).detach()
    corrected = newton(residual, guess, more)
    errors = []
    for inputs, state in ((a, u), (more, corrected)):
        exact = pad(torch.linalg.solve(matrices(residual, state[:, 1:-1], inputs), directions[0, 1:-1]), (1, 1))
        errors.append(torch.func.jvp(model, (inputs,), (directions.expand_as(inputs),))[1] - exact)
    derivative = torch.cat(errors).square().mean()
    torch.testing.assert_close(tangents.last.derivative, derivative.detach(), rtol=1e-6, atol=0)
    value = factor * mse_loss(model(more), corrected)
    torch.testing.assert_close(term, 0.5 * data.detach() / derivative.detach() * derivative + value, rtol=1e-6, atol=0)
    torch.testing.assert_close(tangents.last.value, value.detach(), rtol=1e-6, atol=0)


def test_a_form_without_a_solver_judges_tangents_alone(batch):
    model, a, u, more = batch
    tangents = stcl.TangentConsistency(residual, form="residual", directions=torch.randn(1, NODES), q=1)
    tangents(model, a, u, unlabelled=more)
    both = tangents.last
    assert both.value == 0
    losses = []
    for inputs, label in ((a, u), (more, None)):
        tangents(model, inputs, label)
        losses.append(tangents.last.derivative)
    torch.testing.assert_close(both.derivative, (10 * losses[0] + 4 * losses[1]) / 14)
    wrong = stcl.TangentConsistency(residual, form="residual", value="corrected")
    with pytest.raises(ValueError, match="needs a form that solves for its target"):
        wrong(model, a, u, unlabelled=more)
    with pytest.raises(ValueError, match="value must be"):
        stcl.TangentConsistency(residual, value="residual")


def test_values_are_not_drawn_to_an_equation_that_the_data_do_not_obey(batch):
    model, a, u, more = batch
    equation = stcl.Equation(residual, a, 1.3 * u, check=False)
    tangents = stcl.TangentConsistency(equation)
    tangents(model, a, 1.3 * u, unlabelled=more)
    assert tangents.last.value == 0
    assert "a Newton step moves your labels by" in tangents.reasons[-1]
    asked = stcl.TangentConsistency(equation, value="corrected")
    asked(model, a, 1.3 * u, unlabelled=more)
    assert asked.last.value > 0


def test_near_resonant_inputs_do_not_count(float64):
    """One of four is so near to a resonance that its response is larger than every label."""
    a = torch.linspace(-0.5, 1.0, 8)[:, None] + 0.1 * torch.randn(8, NODES)
    u, model = solved(waves, a), network()
    near = torch.full((1, NODES), torch.pi - 4 + 0.01) + 0.001 * torch.randn(1, NODES)
    assert solved(waves, near).norm() > 5 * u.norm(dim=1).max()
    good = torch.linspace(-0.4, 0.9, 3)[:, None] + 0.1 * torch.randn(3, NODES)
    values, derivatives = [], []
    for more in (good, torch.cat([good, near])):
        tangents = stcl.TangentConsistency(waves, directions=torch.ones(1, NODES), q=1)
        tangents(model, a, u, unlabelled=more)
        values.append(tangents.last.value)
        derivatives.append(tangents.last.derivative)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*derivatives)  # the mean over eight labelled inputs and three others
    assert values[0] > 0


def test_a_prediction_is_corrected_once(batch, monkeypatch):
    """A form that corrects by itself takes what was corrected for the value."""
    model, a, u, more = batch
    form = stcl.SolvedTarget(solver=stcl.Krylov(), state="corrected")
    tangents = stcl.TangentConsistency(residual, form=form, directions=torch.randn(1, NODES), q=1)
    tangents(model, a, u, unlabelled=more)
    steps = []
    correct = Newton.__call__
    monkeypatch.setattr(Newton, "__call__", lambda self, u, a: steps.append(len(a)) or correct(self, u, a))
    tangents(model, a, u, unlabelled=more)
    assert steps == [len(a), len(more)]


def test_a_checkpoint_knows_the_largest_label(float64):
    """An input counts although its response is larger than those of a batch: one before the checkpoint had larger."""
    a = torch.linspace(-0.5, 1.0, 8)[:, None] + 0.1 * torch.randn(8, NODES)
    u, model = solved(waves, a), network()
    order = u.norm(dim=1).argsort()
    small, large = order[:6], order[6:]
    between = a[large[:1]]
    equation = stcl.Equation(waves, a[small], u[small])
    before, after, fresh = (
        stcl.TangentConsistency(equation, directions=torch.ones(1, NODES), q=1, value="corrected") for _ in range(3)
    )
    before(model, a[large], u[large], unlabelled=between)
    with torch.inference_mode():
        fresh(model, a[large], u[large], unlabelled=between)  # what validation sees does not count
    after.load_state_dict(before.state_dict())
    for one in (before, after, fresh):
        one(model, a[small], u[small], unlabelled=between)
    assert after.last.value == before.last.value > 0
    assert after.last.gamma == before.last.gamma
    assert fresh.last.value == 0


def test_a_scaled_model_is_corrected_in_the_equations_numbers(batch):
    model, a, u, more = batch

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return (model(3 + 20 * x) - 1) / 5

    physical, scaled = (
        stcl.TangentConsistency(residual, directions=d, scale=s)
        for d, s in ((torch.ones(1, NODES), None), (torch.ones(1, NODES) / 20, stcl.Scale(a=(3, 20), u=(1, 5))))
    )
    expected = physical(model, a, u, unlabelled=more)
    found = scaled(Scaled(), (a - 3) / 20, (u - 1) / 5, data=mse_loss(model(a), u), unlabelled=(more - 3) / 20)
    torch.testing.assert_close(found, expected)


def test_the_page_says_what_a_form_can_do_without_labels(batch):
    _, a, u, _ = batch
    assert "unlabelled predictions take a Newton step" in str(stcl.diagnose(stcl.Equation(residual, a, u)))
