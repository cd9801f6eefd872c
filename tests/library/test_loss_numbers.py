"""The numbers of the loss: units, precision, values that are not finite, and the contexts in which it is called."""

import pytest
import torch
from test_consistency import Linear, linear_equation
from torch import nn

import stcl
from stcl.consistency import SMALLEST
from stcl.losses.kept_weight import KeptWeight


@pytest.mark.parametrize("form", ["auto", "residual"])
def test_under_autocast_only_the_model_is_in_half_precision(form):
    """The terms are those of a model that rounds its value and tangents to half precision itself."""

    class Rounded(nn.Module):
        def value_and_tangents(self, a, v):
            with torch.autocast("cpu", torch.bfloat16):
                return [x.float() for x in stcl.value_and_tangents(model, a, v)]

    equation, a, u, _ = linear_equation()
    a, u, model = a.float(), u.float(), nn.Linear(17, 17)
    found = []
    for used, enabled in ((model, True), (Rounded(), False)):
        tangents = stcl.TangentConsistency(equation, form=form)
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            tangents(used, a, u, unlabelled=a[:5])
        found.append(tangents.last)
    assert found[0] == found[1]
    assert all(term.dtype == torch.float32 for term in found[0])


@pytest.mark.parametrize("update", ["before", "after"])
@pytest.mark.parametrize("which", [0, 1])
def test_losses_that_are_not_finite_do_not_stay_in_the_averages(update, which):
    """A loop may leave such a batch out and go on. γ is then what it would have been without that batch."""
    with_it, without = (KeptWeight(0.5, stcl.Weighting(update=update)) for _ in range(2))
    losses = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    for data, derivative in losses[:2]:
        assert with_it(data, derivative) == without(data, derivative)
    broken = losses[2].clone()
    broken[which] = torch.inf if which else torch.nan
    assert torch.isfinite(with_it(*broken))
    torch.testing.assert_close(with_it.averages, without.averages)
    torch.testing.assert_close(with_it(*losses[3]), without(*losses[3]))


def test_a_first_batch_that_is_not_finite_does_not_decide():
    weight = KeptWeight(0.5, stcl.Weighting())
    data, derivative = torch.tensor(3.0), torch.tensor(7.0)
    assert weight(data * torch.nan, derivative) == 0
    torch.testing.assert_close(weight(data, derivative), 0.5 * data / derivative)


@pytest.mark.usefixtures("float64")
def test_what_was_prepared_under_inference_mode_can_be_trained_with():
    """Validation may come first, and the tables of a metric are made at its first use."""
    equation, a, u, solve = linear_equation()
    early, late = (stcl.TangentConsistency(equation, form="preconditioned_residual", directions=a[:1]) for _ in "ab")
    model = Linear(1.1 * solve)
    with torch.inference_mode():
        early(model, a, u)
    gradients = [torch.autograd.grad(loss(model, a, u), model.matrix)[0] for loss in (early, late)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("form", ["auto", "residual"])
@pytest.mark.usefixtures("float64")
def test_a_bare_residual_may_first_be_met_in_inference_mode(form):
    equation, a, u, solve = linear_equation()
    model = Linear(1.1 * solve)
    early, late = (stcl.TangentConsistency(equation.function, form=form, directions=a[:1]) for _ in "ab")
    with torch.inference_mode():
        early(model, a, u)
    gradients = [torch.autograd.grad(loss(model, a, u), model.matrix)[0] for loss in (early, late)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("ready", [True, False])
def test_under_autocast_the_equation_is_made_and_checked_in_full_precision(ready):
    """A stencil as a convolution, which autocast would run in half precision."""
    _, a, u, solve = linear_equation()
    kernel = torch.tensor([[[-256.0, 512.0, -256.0]]])

    def residual(u, a):
        return nn.functional.conv1d(u[:, None], kernel)[:, 0] - a[:, 1:-1]

    loss = stcl.TangentConsistency(stcl.Equation(residual, a, u) if ready else residual, form="residual")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss(Linear(1.1 * solve), a, u)
    assert torch.isfinite(loss.last.derivative)


@pytest.mark.parametrize("unit", [1e-9, 1e-16])
def test_lambda_is_the_ratio_of_the_losses_in_any_unit(unit):
    """Responses in metres and inputs in pascals give a derivative loss of 1e-35, which is no rounding."""
    equation, a, u, solve = linear_equation()

    def residual(u, a):
        return equation.function(u / unit, a)

    loss = stcl.TangentConsistency(stcl.Equation(residual, a, unit * u), form="krylov_target", lam=0.3)
    data = torch.tensor(2.0)
    torch.testing.assert_close(loss(Linear(1.2 * unit * solve), a, unit * u, data=data), 0.3 * data)


@pytest.mark.parametrize("update", ["before", "after"])
def test_a_derivative_loss_of_zero_adds_nothing(update):
    """A floor that suits all units lets γ become larger than any number of the type."""
    weight = KeptWeight(1.0, stcl.Weighting(update=update, floor=SMALLEST))
    for _ in range(2):
        assert weight(torch.tensor(100.0), torch.tensor(0.0)) * 0.0 == 0


def test_tangents_whose_squares_vanish_are_refused():
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form="residual", directions=1e-21 * a[:2])
    with pytest.raises(stcl.TangentError, match=r"squares of what is below 1\.1e-19 are zero in torch\.float32"):
        loss(Linear(1.2 * solve), a, u)
