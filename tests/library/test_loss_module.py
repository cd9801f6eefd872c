"""The loss as a module of a training: checkpoints, validation, what it says, and batches as they come."""

import copy
import logging

import numpy as np
import pytest
import torch
from dispatch import OneDevice
from test_consistency import Linear, linear_equation
from torch import nn

import stcl
from stcl.losses.kept_weight import KeptWeight


class Trainer(nn.Module):
    """What a framework saves: model and loss as parts of one module."""

    def __init__(self, matrix, equation, form="residual") -> None:
        super().__init__()
        self.model = Linear(matrix)
        self.tangents = stcl.TangentConsistency(equation, form=form, directions=torch.eye(17)[5:6], lam=0.3)

    def term(self, a, u, factor=1.0):
        return self.tangents(self.model, a, u, data=factor * (self.model(a) - u).square().mean())


@pytest.mark.parametrize("updated", [False, True])
@pytest.mark.usefixtures("float64")
def test_a_checkpoint_of_the_module_above_keeps_gamma(updated, tmp_path):
    """Loaded before the first update or after another one, γ is the ratio of the averages that were saved."""
    equation, a, u, solve = linear_equation()
    first, second = (Trainer(1.2 * solve, equation) for _ in range(2))
    first.term(a, u)
    first.term(a, u, factor=4.0)
    torch.save(first.state_dict(), tmp_path / "last.ckpt")
    if updated:
        second.term(a, u, factor=50.0)
    second.load_state_dict(torch.load(tmp_path / "last.ckpt", weights_only=True))
    copied = copy.deepcopy(second)
    data, derivative = (first.tangents.last.data / 4 * (0.99 + 0.01 * 4), first.tangents.last.derivative)
    torch.testing.assert_close(first.tangents.last.gamma, 0.3 * data / derivative)
    for trainer in (first, second, copied):
        trainer.term(a, u, factor=9.0)
        expected = 0.3 * (0.99 * data + 0.01 * trainer.tangents.last.data) / derivative
        torch.testing.assert_close(trainer.tangents.last.gamma, expected)


def test_averages_are_loaded_in_the_precision_that_they_were_saved_with():
    first, second = (KeptWeight(1.0, stcl.Weighting()) for _ in range(2))
    losses = torch.tensor([[1 / 3, 1 / 7], [1 / 9, 1 / 11]], dtype=torch.float64)
    first(*losses[0])
    second.load_state_dict(first.state_dict())
    assert second(*losses[1]) == first(*losses[1])


@pytest.mark.usefixtures("float64")
def test_averages_stand_still_outside_of_training():
    equation, a, u, solve = linear_equation()
    trainer = Trainer(1.2 * solve, equation)
    with torch.no_grad():
        trainer.term(a, u)  # before training: the ratio of this batch, which is not kept
    assert not trainer.tangents.weight.started
    trainer.term(a, u)
    gamma, averages = trainer.tangents.last.gamma, trainer.tangents.weight.averages.clone()
    with torch.no_grad():
        trainer.term(a, u, factor=100.0)
    torch.testing.assert_close(trainer.tangents.last.gamma, gamma)
    with torch.inference_mode():
        trainer.term(a, u, factor=100.0)
    trainer.eval()
    trainer.term(a, u, factor=100.0)
    torch.testing.assert_close(trainer.tangents.last.gamma, gamma)
    torch.testing.assert_close(trainer.tangents.weight.averages, averages)
    trainer.train()
    trainer.term(a, u, factor=100.0)
    torch.testing.assert_close(trainer.tangents.weight.averages[0], averages[0] * (0.99 + 0.01 * 100))


@pytest.mark.parametrize("form", ["residual", "krylov_target"])
def test_the_module_may_change_its_type_between_updates(form):
    """A form that solves remembers the residuals of its targets, which change their type, too."""
    equation, a, u, solve = linear_equation()
    trainer = Trainer(1.2 * solve, equation, form)
    trainer.term(a, u)
    gamma = trainer.tangents.last.gamma
    trainer.double()
    trainer.term(a.double(), u.double())
    assert trainer.tangents.weight.averages.dtype == torch.float64
    torch.testing.assert_close(trainer.tangents.last.gamma, gamma.double(), rtol=1e-4, atol=0)


def test_the_first_update_says_what_was_chosen(caplog, capsys, monkeypatch):
    """By logging where that is set up, as here by pytest, and on stderr elsewhere; once."""
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation.function, lam=0.5)
    assert repr(loss) == "TangentConsistency(auto; q = 4, λ = 0.5; no equation yet)"
    with caplog.at_level(logging.INFO, logger="stcl"):
        loss(Linear(solve * 1.1), a, u)
        loss(Linear(solve * 1.1), a, u)
    (line,) = caplog.messages
    assert line.startswith("stcl: TangentConsistency(solved_target, direct; q = 4, λ = 0.5; u on x (17 nodes)): ")
    assert "the eigenvalues of MA go down to" in line
    assert repr(loss) in line
    monkeypatch.setattr(logging.getLogger("stcl"), "propagate", False)
    stcl.TangentConsistency(equation, form="residual")(Linear(solve * 1.1), a, u)
    assert capsys.readouterr().err.strip().endswith("u on x (17 nodes)): as asked for")


# -- batches as they come -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("float64")
def test_a_last_batch_of_one_takes_the_differences_of_the_batch_before():
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation.function, form="residual")
    loss(Linear(1.1 * solve), a[:4], u[:4])
    assert loss(Linear(1.1 * solve), a[7:], u[7:]) > 0
    loss.directions.inputs = a[7:]
    v = loss.directions.draw(1).reshape(-1, 17)
    basis = torch.linalg.svd(a[:4] - a[:4].mean(0))[2][:3]
    torch.testing.assert_close(v @ basis.T @ basis, v)


@pytest.mark.parametrize("rows", [[0], [0, 0]], ids=["one", "equal"])
@pytest.mark.usefixtures("float64")
def test_a_first_batch_without_differences(rows):
    """It works where the equation has states of its own. A bare residual says what to do."""
    equation, a, u, solve = linear_equation()
    model = Linear(1.1 * solve)
    assert stcl.TangentConsistency(equation)(model, a[rows], u[rows]) > 0
    one = stcl.Equation(equation.function, a[:1], u[:1])
    with pytest.raises(ValueError, match="differences between inputs, and this first batch has none; start with"):
        stcl.TangentConsistency(one)(model, a[rows], u[rows])
    assert stcl.TangentConsistency(one, directions="white")(model, a[rows], u[rows]) > 0
    with pytest.raises(ValueError, match=r"one sample or equal ones.* equation = stcl.Equation\(residual, a, u\)"):
        stcl.TangentConsistency(equation.function, directions="white")(model, a[rows], u[rows])


@pytest.mark.usefixtures("float64")
def test_a_later_batch_of_equal_inputs_costs_nothing():
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form="residual")
    loss(Linear(1.1 * solve), a, u)
    zero = torch.zeros(2, 17)
    assert loss(Linear(1.1 * solve), zero, zero) == 0


def test_arrays_and_types_that_are_mixed():
    """numpy goes to the model's type, and labels follow the inputs."""
    equation, a, u, solve = linear_equation()
    model = Linear(1.1 * solve)
    loss = stcl.TangentConsistency(equation, directions=torch.eye(17)[5:6])
    expected = loss(model, a, u)
    for inputs, labels in [(a.numpy(), u.numpy()), (a, u.double()), (a.double().numpy(), u), (a, np.float64(u))]:
        torch.testing.assert_close(loss(model, inputs, labels), expected)
    bare = stcl.TangentConsistency(equation.function)
    assert torch.isfinite(bare(model, a, u.double()))
    with pytest.raises(ValueError, match=r"expected a as a floating-point batch .* torch.int64"):
        loss(torch.sin, torch.ones(3, 17, dtype=torch.long))


class WithChannel(Linear):
    """A model whose output has a channel axis."""

    def forward(self, a):
        return super().forward(a).unsqueeze(1)


class WithChannels(WithChannel):
    def forward(self, a):
        return super().forward(a[:, 0])


@pytest.mark.usefixtures("float64")
def test_axes_of_length_one_may_be_there_or_not():
    """The same term, and the same data loss: labels [B, N] do not broadcast against outputs [B, 1, N]."""
    equation, a, u, solve = linear_equation()
    expected = None
    for model, inputs, labels in [
        (Linear(1.2 * solve), a, u),
        (WithChannel(1.2 * solve), a, u),
        (WithChannels(1.2 * solve), a[:, None], u),
        (WithChannels(1.2 * solve), a[:, None], u[:, None]),
        (Linear(1.2 * solve), a, u[..., None]),
    ]:
        for given in (equation, equation.function if labels.ndim == 2 == inputs.ndim else equation):
            loss = stcl.TangentConsistency(given, form="residual", directions=torch.eye(17)[5:6])
            term = loss(model, inputs, labels)
            expected = term if expected is None else expected
            torch.testing.assert_close(term, expected)


# -- attention ----------------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift, self.drop = nn.Linear(1, 8), nn.Linear(8, 1)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, a):
        return self.drop(self.layers(self.lift(a[..., None])))[..., 0]


@pytest.mark.parametrize("wrapper", [lambda model: model, stcl.ReverseTangents], ids=["forward", "reverse"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.usefixtures("float64")
def test_attention_has_tangents(training, wrapper):
    """Against central differences, in training and on the fast path of evaluation."""
    torch.manual_seed(0)
    model = Transformer().train(training)
    a, v = torch.randn(2, 17), torch.randn(2, 3, 17)
    with torch.set_grad_enabled(training):
        _, w = stcl.value_and_tangents(wrapper(model), a, v)
    if training:
        w.square().sum().backward()
        assert model.lift.weight.grad.norm() > 0
    with torch.no_grad():
        differences = torch.stack([(model(a + 1e-5 * v_k) - model(a - 1e-5 * v_k)) / 2e-5 for v_k in v.unbind(1)], 1)
    torch.testing.assert_close(w.detach(), differences, rtol=1e-6, atol=1e-8)
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


class Once(torch.autograd.Function):
    """x² that can be differentiated once, in reverse mode."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class Square(nn.Module):
    def forward(self, a):
        return Once.apply(a)


def test_no_advice_leads_back_to_itself():
    with pytest.raises(stcl.TangentError, match=r"stcl.ReverseTangents\(model\)"):
        stcl.value_and_tangents(Square(), torch.ones(2, 3), torch.ones(1, 3))
    with pytest.raises(stcl.TangentError, match="Square cannot be differentiated twice in reverse mode") as raised:
        stcl.value_and_tangents(stcl.ReverseTangents(Square()), torch.ones(2, 3), torch.ones(1, 3))
    assert "stcl.ReverseTangents(" not in str(raised.value)


@pytest.mark.usefixtures("float64")
def test_jacobian_error_along_directions_of_each_sample():
    _, a, _, solve = linear_equation()
    v = torch.randn(8, 3, 17)
    factors = torch.linspace(0.5, 0.9, 8)
    found = stcl.jacobian_error(lambda x: (x @ solve.T) * factors[:, None], a, v, lambda x: x @ solve.T)
    torch.testing.assert_close(found, (1 - factors)[:, None].expand(8, 3))


# -- scale --------------------------------------------------------------------------------------------------------


class Normalised(nn.Module):
    """The operator of a matrix, for inputs and outputs that are other numbers than the equation's."""

    def __init__(self, matrix, into, back) -> None:
        super().__init__()
        self.physical, self.into, self.back = Linear(matrix), into, back

    def forward(self, x):
        return self.back(self.physical(self.into(x)))


@pytest.mark.parametrize(
    ("scale", "into", "back", "inverse"),
    [
        (
            stcl.Scale(a=(2.0, np.full((1, 17), 3.0)), u=(torch.tensor(-1.0), 0.01)),
            lambda x: 2 + 3 * x,
            lambda u: (u + 1) / 0.01,
            lambda a: (a - 2) / 3,
        ),
        (stcl.Scale(a=torch.sinh, u=lambda y: y.sinh() / 9), torch.sinh, lambda u: (9 * u).asinh(), torch.asinh),
    ],
    ids=["mean and deviation", "functions"],
)
@pytest.mark.usefixtures("float64")
def test_a_scaled_model_has_the_term_of_the_physical_one(scale, into, back, inverse):
    """The same operator has the same derivative loss along the directions that belong to each other."""
    equation, a, u, solve = linear_equation()
    x, y = inverse(a), back(u)
    dx = torch.randn(8 * 4, 17)
    plain = stcl.TangentConsistency(equation, form="normalized_residual", directions=lambda count: dv)
    scaled = stcl.TangentConsistency(equation, form="normalized_residual", directions=lambda count: dx, scale=scale)
    step = 1e-6
    dv = (into(x[:, None] + step * dx.view(8, 4, 17)) - into(x[:, None] - step * dx.view(8, 4, 17))) / (2 * step)
    dv = dv.reshape(32, 17)
    plain(Linear(1.2 * solve), a, u)
    scaled(Normalised(1.2 * solve, into, back), x, y)
    torch.testing.assert_close(scaled.last.derivative, plain.last.derivative, rtol=1e-6, atol=0)
    torch.testing.assert_close(scaled.last.data, (back(1.2 * u) - y).square().mean())
    # a bare residual becomes an equation of physical fields
    bare = stcl.TangentConsistency(equation.function, form="residual", scale=scale)
    bare(Normalised(1.2 * solve, into, back), x, y)
    torch.testing.assert_close(bare.equation.states(8)[0], a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": (0.0, 0.0)}, "a finite deviation that is nowhere zero"),
        ({"u": 3.0}, r"scale of u must be a pair \(mean, deviation\) or a function, got 3.0"),
        ({"u": (1.0, 2.0, 3.0)}, "scale of u must be a pair"),
    ],
)
def test_wrong_scales_are_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        stcl.Scale(**arguments)


def test_a_scale_that_does_not_fit_is_named():
    equation, a, u, solve = linear_equation()
    scale = stcl.Scale(a=(torch.zeros(2, 1), torch.ones(2, 1)))
    loss = stcl.TangentConsistency(equation, form="residual", scale=scale)
    with pytest.raises(ValueError, match=r"mean of shape \(2, 1\) .* do not broadcast to samples of shape \(17,\)"):
        loss(Linear(solve), a, u)
    with pytest.raises(ValueError, match=r"scale must be a stcl.Scale"):
        stcl.TangentConsistency(equation, scale=(0, 1))


def test_an_update_after_the_first_reads_nothing_back():
    """On a device that has no numbers: averages, directions, walls and a residual form ask for none, and stay there."""
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form="residual", scale=stcl.Scale(u=(0.5, 2.0)))
    model = Linear(1.2 * solve)
    u = (u - 0.5) / 2
    loss(model, a, u)
    loss.to("meta")
    model, a, u = model.to("meta"), a.to("meta"), u.to("meta")
    loss.directions.inputs = a
    with OneDevice("meta"):
        for _ in range(2):
            loss(model, a, u).backward()
    assert loss.weight.averages.device.type == model.matrix.grad.device.type == "meta"


def test_an_output_layer_that_starts_at_zero_can_learn():
    equation, a, u, _ = linear_equation()
    model = Linear(torch.zeros(17, 17))
    loss = stcl.TangentConsistency(equation, form="solved_target")(model, a, u)
    assert torch.autograd.grad(loss, model.matrix)[0].abs().max() > 0


def test_directions_may_be_an_array():
    equation, a, u, solve = linear_equation()
    found = []
    for directions in (a[:1], a[:1].numpy()):
        loss = stcl.TangentConsistency(equation, directions=directions)
        loss(Linear(1.1 * solve), a, u)
        found.append(loss.last.derivative)
    torch.testing.assert_close(*found)
    with pytest.raises(ValueError, match=r"directions must be .* an array or a function, got \[1.0\]"):
        stcl.TangentConsistency(equation, directions=[1.0])


@pytest.mark.usefixtures("float64")
def test_an_input_may_be_one_number():
    """−u'' = a for a constant a, whose tangent along 1 is x (1 − x)/2, exact on nodes."""
    x = torch.linspace(0, 1, 17)
    a = torch.linspace(1, 2, 5)[:, None]

    def residual(u, a):
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 16**2 - a

    u = Outer(x * (1 - x) / 2)(a).detach()
    loss = stcl.TangentConsistency(stcl.Equation(residual, a, u), form="solved_target")
    loss(Outer(1.1 * x * (1 - x) / 2), a, u, data=torch.tensor(1.0))
    torch.testing.assert_close(loss.last.derivative, ((0.1 * x * (1 - x) / 2) ** 2).mean())
    wrong = loss.last.derivative
    loss(Outer(x * (1 - x) / 2), a, u, data=torch.tensor(1.0))
    assert loss.last.derivative < 1e-20 * wrong


class Outer(nn.Module):
    """a ↦ a g for one number a and a field g."""

    def __init__(self, field):
        super().__init__()
        self.field = nn.Parameter(field)

    def forward(self, a):
        return a * self.field
