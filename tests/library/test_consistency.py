"""The drop-in loss: the built-in one on the five problems, its weights, its directions, and what it refuses."""

import copy

import equations
import pytest
import torch
from torch import nn

import stcl
from stcl import problems
from stcl.losses import rule, settings
from stcl.losses.data import DataLoss
from stcl.losses.settings import Weighting
from stcl.operators.fno import FNO
from stcl.operators.surrogate import Surrogate
from stcl.stages.methods import Setup
from stcl.stages.methods import stcl as built_in

PROBLEMS = sorted(equations.OPTIONS)


def surrogate(problem) -> Surrogate:
    layout = problem.layout
    return Surrogate(FNO(len(layout.channels), len(layout.responses), 4, modes=3, layers=2, head=6), layout)


class Outsider(nn.Module):
    """A model that knows nothing of this package: no value_and_tangents of its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.hidden = [model]  # not a submodule whose methods could be found

    def forward(self, a):
        return self.hidden[0](a)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.usefixtures("float64")
def test_the_generic_loss_is_the_built_in_one(name):
    """A residual function, a model without own tangents and given directions, against the workflow's method."""
    problem = problems.load(name, **equations.OPTIONS[name])
    a, u = problem.states(4)
    form = rule.default_form(problem)
    if name == "helmholtz":  # a bare residual has no wave number
        form = form.model_copy(update={"metric": settings.ShiftedLaplacian(shift=problem.kappa**2 / 2)})
    model = surrogate(problem)
    setup = Setup(
        problem=problem,
        data_loss=DataLoss(problem.layout, 0.05),
        settings={"form": form.model_dump(), "q": 3},
        lam=0.7,
        basis="prior",
        n_train=4,
        seed=0,
        device=torch.device("cpu"),
        bank=None,
        responses=u,
    )
    objective = built_in.build(setup)
    sketch = copy.deepcopy(objective.term.directions)
    losses = objective(model, a, u, objective.draw(torch.arange(4)))

    axes = problem.layout.axes
    equation = stcl.Equation(
        problem.residual,
        a,
        u,
        walls="free",  # as published: nothing pins the walls of Burgers
        axes=axes,
        lengths=problem.layout.lengths,
        time_axis=axes.index("t") if "t" in axes else None,
        check=name != "burgers",  # whose grid is coarse
    )
    if name == "navier_stokes":
        form = form.model_copy(update={"metric": form.metric.model_copy(update={"viscosity": problem.mu})})
    drawn = sketch.draw(4).flatten(0, 1)
    generic = stcl.TangentConsistency(equation, form=form, directions=lambda count: drawn, q=3, lam=0.7)
    term = generic(Outsider(model), a, u, data=losses.data)
    torch.testing.assert_close(generic.last.derivative, losses.derivative.detach(), rtol=1e-9, atol=0)
    torch.testing.assert_close(term, losses.gamma * losses.derivative, rtol=1e-9, atol=0)

    parameters = list(model.parameters())
    ours = torch.autograd.grad(term, parameters, materialize_grads=True)
    theirs = torch.autograd.grad(losses.gamma * losses.derivative, parameters, materialize_grads=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.filterwarnings("ignore::stcl.core.errors.EquationWarning")  # the grid of Burgers is coarse
def test_a_problem_of_the_package_can_be_given_as_it_is(name):
    problem = problems.load(name, **equations.OPTIONS[name])
    a, u = (x.float() for x in problem.states(3))
    loss = stcl.TangentConsistency(problem, form=rule.default_form(problem))
    assert torch.isfinite(loss(surrogate(problem), a, u))


def linear_equation(n: int = 17) -> tuple[stcl.Equation, torch.Tensor, torch.Tensor, torch.Tensor]:
    """−u'' = a, with its solution operator as a matrix."""
    second = (2 * torch.eye(n - 2) - torch.eye(n - 2).roll(1, 0).tril() - torch.eye(n - 2).roll(-1, 0).triu()) * (
        n - 1
    ) ** 2
    solve = torch.zeros(n, n)
    solve[1:-1, 1:-1] = torch.linalg.inv(second)

    def residual(u, a):
        return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (n - 1) ** 2 - a[:, 1:-1]

    a = equations.smooth(8, n).to(solve)
    return stcl.Equation(residual, a, a @ solve.T), a, a @ solve.T, solve


class Linear(nn.Module):
    def __init__(self, matrix):
        super().__init__()
        self.matrix = nn.Parameter(matrix.clone())

    def forward(self, a):
        return a @ self.matrix.T


@pytest.mark.parametrize(
    "form", ["residual", "normalized_residual", "preconditioned_residual", "krylov_target", "solved_target", "auto"]
)
@pytest.mark.usefixtures("float64")
def test_every_form_vanishes_for_the_true_operator_and_only_there(form):
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form=form)
    wrong = loss(Linear(1.1 * solve), a, u)
    reference = float(loss.last.derivative)
    assert wrong > 0
    loss(Linear(solve), a, u)
    assert float(loss.last.derivative) < 1e-20 * reference


@pytest.mark.usefixtures("float64")
def test_the_weight_is_the_ratio_of_moving_averages():
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form="residual", lam=0.3, weighting=Weighting(decay=0.5))
    model = Linear(1.2 * solve)
    data, derivative = [], []
    for scale in (1.0, 4.0):
        term = loss(model, a, u, data=scale * (model(a) - u).square().mean())
        data.append(float(loss.last.data))
        derivative.append(float(loss.last.derivative))
    gamma = 0.3 * (data[0] + data[1]) / (derivative[0] + derivative[1])
    torch.testing.assert_close(term.item(), gamma * derivative[1])


@pytest.mark.usefixtures("float64")
def test_the_data_loss_is_the_mean_square_unless_given():
    equation, a, u, solve = linear_equation()
    loss = stcl.TangentConsistency(equation, form="residual")
    model = Linear(1.2 * solve)
    loss(model, a, u)
    torch.testing.assert_close(loss.last.data, (model(a) - u).square().mean().detach())
    loss(model, a)  # no labels: the weight is λ itself
    assert float(loss.last.gamma) == 1.0
    prediction, term = loss.with_prediction(model, a, u, data=lambda found: (found - u).abs().mean())
    torch.testing.assert_close(prediction, model(a))
    torch.testing.assert_close(loss.last.data, (model(a) - u).abs().mean().detach())
    assert term.requires_grad


@pytest.mark.usefixtures("float64")
def test_directions_of_every_kind():
    equation, a, u, solve = linear_equation()
    model = Linear(1.1 * solve)
    seen = []

    def own(count):
        seen.append(count)
        return torch.eye(17)[torch.arange(count) % 17]

    for directions in (None, "white", torch.randn(50, 17), own):
        loss = stcl.TangentConsistency(equation, form="residual", directions=directions, q=2)
        drawn = []
        form = loss.tangent_form
        loss.tangent_form = lambda a, u, v, w, label, form=form, drawn=drawn: drawn.append(v) or form(a, u, v, w, label)
        loss(model, a, u)
        assert drawn[0].shape == (8, 2, 17)
        if directions in (None, "white"):
            torch.testing.assert_close(drawn[0].norm(dim=-1), torch.ones(8, 2))
    assert seen == [16]
    # by default, directions lie in the span of what the inputs differ by
    loss = stcl.TangentConsistency(equation, form="residual")
    loss.directions.inputs = a
    v = loss.directions.draw(8).reshape(-1, 17)
    basis = torch.linalg.svd(a - a.mean(0))[2][:7]
    torch.testing.assert_close(v @ basis.T @ basis, v)


@pytest.mark.usefixtures("float64")
def test_state_goes_through_a_checkpoint():
    equation, a, u, solve = linear_equation()
    model = Linear(1.2 * solve)
    first, second = (
        stcl.TangentConsistency(equation, form="residual", directions=torch.eye(17)[5:6]) for _ in range(2)
    )
    first(model, a, u)
    second.load_state_dict(first.state_dict())
    data = 9 * (model(a) - u).square().mean()
    torch.testing.assert_close(second(model, a, u, data=data), first(model, a, u, data=data))


def test_a_bare_residual_becomes_an_equation_of_its_first_batch():
    equation, a, u, _ = linear_equation()
    loss = stcl.TangentConsistency(equation.function)
    with pytest.raises(ValueError, match="first call needs labels"):
        loss(nn.Linear(17, 17), a)
    loss(nn.Linear(17, 17), a, u)
    assert (loss.form.name, loss.form.solver.otherwise.method) == ("solved_target", "cg")
    assert len(loss.equation.unknowns) == 15


class NoForwardMode(torch.autograd.Function):
    """x² with a backward pass only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(17, 9), nn.Linear(9, 17)

    def forward(self, a):
        return self.second(NoForwardMode.apply(self.first(a)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Custom(), "Custom has no forward-mode derivative: .*stcl.ReverseTangents"),
        (nn.Sequential(nn.Linear(17, 17), nn.Dropout(0.5)), r"draws random numbers .* model.eval\(\)"),
        (lambda a: a.detach() * 2, "tangents that are all zero: it ignores its input, or detaches it"),
        (lambda a: torch.ones_like(a), "tangents that are all zero"),
        (lambda a: (2 * a, None), r"returns a tuple where one tensor is needed.*lambda a: model\(a\)\[0\]"),
        (lambda a: {"u": 2 * a}, "returns a dict where one tensor is needed"),
    ],
    ids=["custom function", "dropout", "detached", "constant", "tuple", "dict"],
)
def test_models_without_tangents_are_explained(model, message):
    equation, a, u, _ = linear_equation()
    with pytest.raises(stcl.TangentError, match=message):
        stcl.TangentConsistency(equation, form="residual")(model, a, u)


def test_an_error_of_the_model_itself_stays_its_own():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        stcl.value_and_tangents(nn.Linear(5, 5), torch.zeros(2, 4), torch.zeros(3, 4))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.usefixtures("float64")
def test_reverse_tangents_are_the_forward_ones(shared):
    """Values, tangents, and gradients of a loss on them in the weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
    a, v = torch.randn(3, 5), torch.randn(2, 5) if shared else torch.randn(3, 2, 5)
    results = []
    for form in (model, stcl.ReverseTangents(model)):
        u, w = stcl.value_and_tangents(form, a, v)
        gradients = torch.autograd.grad(w.square().sum() + u.sum(), list(model.parameters()), allow_unused=True)
        results.append([u, w, *(g for g in gradients if g is not None)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        assert not stcl.value_and_tangents(stcl.ReverseTangents(model), a, v)[1].requires_grad


def test_a_model_without_forward_mode_trains_through_the_wrapper():
    equation, a, u, _ = linear_equation()
    model = Custom()
    term = stcl.TangentConsistency(equation)(stcl.ReverseTangents(model), a, u)
    term.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in (model.first.weight, model.second.weight))


def test_jacobian_error_of_inputs_whose_entries_differ_in_size():
    """A step relative to the whole input would move the viscosity, 1e-3, by the size of the forcing, 1e3."""
    a, v = torch.tensor([[1e-3, 1e3], [2e-3, 3e3]]), torch.tensor([[1e-3, 0.0], [0.0, 1e3], [2e-3, 1e3]])
    error = stcl.jacobian_error(lambda a: a[:, 1:] / a[:, :1], a, v, lambda a: a[:, 1:] / a[:, :1])
    assert float(error.max()) < 1e-4


def test_complex_fields_are_refused():
    """They would lose their imaginary part on the way."""
    equation, a, u, _ = linear_equation()
    waves = lambda a: a * torch.exp(1j * a)  # noqa: E731
    for compared in (
        lambda: stcl.jacobian_error(waves, a, a[:2], waves),
        lambda: stcl.jacobian_error(u.add, a, a, waves),
    ):
        with pytest.raises(ValueError, match="tangents are complex; give real and imaginary part as two fields"):
            compared()
    with pytest.raises(ValueError, match="u is complex; give real and imaginary part"):
        stcl.TangentConsistency(equation)(nn.Linear(17, 17), a, u * 1j)
    with pytest.raises(ValueError, match="the model's output has complex values"):
        stcl.TangentConsistency(equation, form="residual")(waves, a, u)


@pytest.mark.usefixtures("float64")
def test_jacobian_error_against_tangents_and_against_a_solver():
    _, a, _, solve = linear_equation()
    v = torch.randn(3, 17)
    model = lambda a: a @ (0.8 * solve.T)  # noqa: E731
    by_solver = stcl.jacobian_error(model, a, v, lambda a: a @ solve.T + 5)
    exact = stcl.jacobian_error(model, a, v, (v @ solve.T).expand(8, 3, 17))
    torch.testing.assert_close(exact, torch.full((8, 3), 0.2))
    torch.testing.assert_close(by_solver, exact)
    by_array = stcl.jacobian_error(model, a, v, (v @ solve.T).expand(8, 3, 17).numpy())
    torch.testing.assert_close(by_array, exact)
    with pytest.raises(ValueError, match=r"reference tangents of shape \(8, 3, 17\)"):
        stcl.jacobian_error(model, a, v, torch.zeros(8, 2, 17))


@pytest.mark.parametrize("zeros", [slice(0, 1), slice(None)], ids=["one", "all"])
@pytest.mark.usefixtures("float64")
def test_the_solver_is_differenced_at_inputs_of_zero_too(zeros):
    """exp has the derivative 1 there. A step relative to the input would be zero, and the difference rounding."""
    a, v = torch.rand(3, 5) + 0.5, torch.eye(5)
    a[zeros] = 0
    error = stcl.jacobian_error(lambda a: 2 * a.exp(), a, v, torch.exp)
    torch.testing.assert_close(error, torch.ones(3, 5), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "best"}, "form must be 'auto', one of residual"),
        ({"q": 0}, "expected q ≥ 1"),
        ({"lam": -1.0}, "a positive lam"),
        ({"directions": "smooth"}, "directions must be None, 'white'"),
    ],
)
def test_wrong_settings_are_refused_at_once(change, message):
    with pytest.raises(ValueError, match=message):
        stcl.TangentConsistency(linear_equation()[0], **change)


def test_a_metric_is_not_made_up():
    with pytest.raises(ValueError, match="needs a metric, and none fits: this operator is parabolic"):
        stcl.TangentConsistency(equations.advection(), form="preconditioned_residual")


@pytest.mark.parametrize(
    ("model", "a", "u", "options", "message"),
    [
        (nn.Linear(17, 16), (8, 17), (8, 17), {}, r"the model's output of shape \(B, 17\), .* got \(8, 16\)"),
        (nn.Linear(16, 17), (8, 16), (8, 17), {}, r"inputs a of shape \(B, 17\), .* got \(8, 16\)"),
        (nn.Linear(17, 17), (8, 17), (8, 16), {}, r"labels u of shape \(B, 17\), .* got \(8, 16\)"),
        (nn.Linear(33, 33), (8, 33), (8, 33), {}, r"got \(8, 33\). For another grid make another stcl.TangentCons"),
        (nn.Linear(17, 17), (8, 17), (7, 17), {}, r"as many labels as inputs, got a \(8, 17\) and u \(7, 17\)"),
        (nn.Linear(17, 17), (17,), (17,), {}, r"a as a batch \[B, ...\], got shape \(17,\)"),
        (nn.Linear(17, 17), (8, 17), (8, 17), {"directions": torch.randn(4, 16)}, "directions of shape .* got"),
    ],
)
def test_wrong_shapes_are_named(model, a, u, options, message):
    """In the shapes of the user, with the batch."""
    equation = linear_equation()[0]
    equation.check = False  # the data are noise
    loss = stcl.TangentConsistency(equation, form="residual", **options)
    with pytest.raises(ValueError, match=message):
        loss(model, torch.randn(a), torch.randn(u))


def test_wrong_directions_of_a_tangent_are_named():
    with pytest.raises(ValueError, match=r"expected directions of shape \(q, 5\), or \(B, q, 5\) with B = 2"):
        stcl.value_and_tangents(torch.sin, torch.zeros(2, 5), torch.zeros(3, 2, 5))
