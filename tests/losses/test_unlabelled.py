"""Inputs without labels: where they come from, and what is learnt there, against dense solves and the form alone."""

import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from reference import OPTIONS, reference, surrogate
from torch.nn.functional import mse_loss

from stcl import problems
from stcl.losses import forms, settings
from stcl.losses.beyond_labels import BeyondLabels
from stcl.losses.judged_weight import JudgedWeight
from stcl.losses.newton import Newton
from stcl.losses.unlabelled_inputs import UnlabelledInputs
from stcl.losses.unlabelled_tangents import Judged, UnlabelledTangents
from stcl.problems._square import zero_boundary
from stcl.stages.seeds import stream_seed
from stcl.tangent.operator import TangentOperator

CPU = torch.device("cpu")
METRIC = {"diffusion": settings.InverseLaplacian(), "helmholtz": settings.ShiftedLaplacian()}


def solved_target(name: str, state: str, steps: int = 30) -> settings.SolvedTarget:
    return settings.SolvedTarget(solver=settings.Krylov(metric=METRIC[name], steps=steps), state=state)


def term(name: str, form: settings.FormSettings, problem=None, **options) -> UnlabelledTangents:
    problem = problem or problems.load(name, **OPTIONS[name])
    return UnlabelledTangents(problem, forms.load(problem, form), mse_loss, **options)


def newton(problem, u: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """The Newton correction with a dense A, sample by sample, of fields that vanish at the walls."""
    found = zero_boundary(u)
    for i in range(len(a)):
        operator = TangentOperator(problem, u[i], a[i])
        step = torch.linalg.solve(operator.matrix(), -problem.residual(u[i : i + 1], a[i : i + 1]).flatten())
        found[i] += operator.unknowns.embed(step)
    return found


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", sorted(METRIC))
def test_values_and_tangents_are_those_of_a_dense_newton_step(name):
    ref = reference(name)
    model = surrogate(ref.problem)
    u, w = model.value_and_tangents(ref.a, ref.v)
    exact = newton(ref.problem, u.detach(), ref.a)
    found = Newton(ref.problem, forms.load(ref.problem, solved_target(name, "label")).solver)(u.detach(), ref.a)
    torch.testing.assert_close(found.x, exact)
    assert found.solved.all()

    judge = term(name, solved_target(name, "label"), ref.problem, value="corrected", correct=True)
    losses = judge(model, ref.a, ref.v)
    torch.testing.assert_close(losses.value, (u - exact).square().mean())
    assert losses.kept == 1
    own = forms.load(ref.problem, solved_target(name, "corrected"))  # it corrects by itself
    torch.testing.assert_close(losses.derivative, own(ref.a, u, ref.v, w, label=torch.full_like(u, torch.nan)))
    # The value is drawn to a fixed field: the gradient is that of the distance alone.
    weights = list(model.parameters())
    gradients = [torch.autograd.grad(x, weights, retain_graph=True) for x in (losses.value, mse_loss(u, exact))]
    torch.testing.assert_close(*gradients)


@pytest.mark.usefixtures("float64")
def test_a_prediction_that_solves_the_equation_has_no_loss_of_value():
    ref = reference("diffusion")

    class Exact:
        def value_and_tangents(self, a, v):
            return ref.u.clone(), ref.w.clone()

    for value in ("residual", "corrected"):
        losses = term("diffusion", solved_target("diffusion", "label"), ref.problem, value=value, correct=True)(
            Exact(), ref.a, ref.v
        )
        assert losses.value < 1e-18
        assert losses.derivative < 1e-18


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("form", [settings.PreconditionedResidual(metric=METRIC["diffusion"]),
                                  solved_target("diffusion", "prediction")], ids=["metric", "solver"])  # fmt: skip
def test_the_residual_of_the_value_is_its_energy_in_the_forms_metric(form):
    ref = reference("diffusion")
    model = surrogate(ref.problem)
    judge = term("diffusion", form, ref.problem, value="residual")
    energies = []
    for a in ref.a:
        r = ref.problem.residual(model(a[None]), a[None]).flatten()
        energies.append(r @ dense_metric(ref.problem, judge.metric, a) @ r)
    torch.testing.assert_close(judge(model, ref.a, ref.v).value, torch.stack(energies).mean())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", ["burgers", "allen_cahn", "navier_stokes"])
def test_the_residual_of_the_value_without_a_metric_is_its_mean_square(name):
    ref = reference(name)
    model = surrogate(ref.problem)
    judge = term(name, settings.JacobianPenalty(), ref.problem, value="residual")
    residual = ref.problem.residual(model(ref.a), ref.a)
    blocks = [residual] if isinstance(residual, torch.Tensor) else residual
    torch.testing.assert_close(
        judge(model, ref.a, ref.v).value, sum((block.square().mean() for block in blocks), torch.zeros(()))
    )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("value", ["none", "residual", "corrected"])
def test_near_resonant_inputs_are_recognised_and_do_not_count(value):
    """Against the norms of solved responses. The losses are those of the other inputs alone."""
    problem = problems.load("helmholtz", **OPTIONS["helmholtz"])
    numpy_inputs = problem.inputs(40, "train")
    norms = np.linalg.norm(problem.solve(numpy_inputs).reshape(40, -1), axis=1)
    limit = np.sort(norms)[-6:-4].mean()  # five are above it
    a = torch.as_tensor(numpy_inputs)
    v = torch.as_tensor(problem.directions(2, "train"))
    model, form = surrogate(problem), solved_target("helmholtz", "label", steps=60)
    judge = term("helmholtz", form, problem, value=value, correct=True, largest=torch.tensor(limit))
    found = judge(model, a, v)
    assert found.kept == pytest.approx(35 / 40)
    others = term("helmholtz", form, problem, value=value, correct=True)(model, a[norms <= limit], v)
    torch.testing.assert_close(found.derivative, others.derivative)
    torch.testing.assert_close(found.value, others.value)


@pytest.mark.usefixtures("float64")
def test_what_few_steps_do_not_solve_does_not_count():
    """The step's own residual decides, too; where no input counts, the losses are zero and not undefined."""
    problem = problems.load("helmholtz", **OPTIONS["helmholtz"])
    a, v = torch.as_tensor(problem.inputs(4, "train")), torch.as_tensor(problem.directions(2, "train"))
    form = solved_target("helmholtz", "label", steps=1)
    model = surrogate(problem)
    found = term("helmholtz", form, problem, value="corrected", largest=torch.tensor(1e9))(model, a, v)
    assert (found.kept, found.derivative, found.value) == (0, 0, 0)
    (found.derivative + found.value).backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


@pytest.mark.usefixtures("float64")
def test_a_step_that_leads_away_is_not_taken():
    """Allen-Cahn half way between two responses, where Newton's method diverges, beside one that is 2 % off."""
    ref = reference("allen_cahn")
    newton_step = Newton(
        ref.problem, forms.load(ref.problem, settings.SolvedTarget(solver=settings.SpaceTime())).solver
    )
    other = ref.u.roll(1, 0)
    far, near = ref.u + 0.5 * (other - ref.u), ref.u + 0.02 * (other - ref.u)
    u = torch.cat([far, near])
    found = newton_step(u, torch.cat([ref.a, ref.a]))
    assert found.solved.tolist() == [False] * 3 + [True] * 3
    torch.testing.assert_close(found.x[:3], far)
    assert ((found.x[3:] - ref.u).norm(dim=(1, 2)) < 0.5 * (near - ref.u).norm(dim=(1, 2))).all()


def test_updates_that_judge_nothing_do_not_move_the_weight():
    """The first update has no input with a Newton step. γ is then that of the inputs that had one."""
    judged = iter([Judged(*torch.tensor([0.0, 0.0, 0.0])), Judged(*torch.tensor([0.5, 0.0, 0.1]))])
    model, weight = torch.nn.Identity(), JudgedWeight(2.0, settings.Weighting(), CPU)
    objective = BeyondLabels(mse_loss, lambda *_: next(judged), None, None, None, weight, None)
    a, u = torch.ones(4, 5), torch.zeros(4, 5)
    first, second = (objective(model, a, u, (a, a)) for _ in range(2))
    assert (first.gamma, first.total) == (0, 1)
    torch.testing.assert_close(second.gamma, torch.tensor(2.0 * 1.0 / 0.5))
    torch.testing.assert_close(second.total, torch.tensor(1 + 4 * 0.5))


def test_a_correction_needs_a_solver():
    for options in ({"value": "corrected"}, {"correct": True}):
        with pytest.raises(ValueError, match="a form with a solver"):
            term("allen_cahn", settings.Residual(), **options)


# -- where the inputs come from -----------------------------------------------------------------------------------


def source(name: str, seed: int = 0, batch: int | None = None, pool: int | None = None) -> UnlabelledInputs:
    problem = problems.load(name, **OPTIONS[name])
    return UnlabelledInputs(problem, batch, pool, CPU, stream_seed(seed, "inputs"))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_no_input_is_one_of_a_split(name):
    """In float64 all draws are different numbers, so the smallest distance tells whether two are the same draw."""
    problem = problems.load(name, **OPTIONS[name])
    drawn = torch.cat([source(name, seed).draw(64) for seed in range(3)]).flatten(1)
    assert len(drawn.unique(dim=0)) == len(drawn)
    for split in ("train", "val", "test"):
        stored = torch.as_tensor(problem.network_input(problem.inputs(2100, split))).flatten(1)
        assert torch.cdist(drawn, stored).min() > 1e-3 * stored.norm(dim=1).mean()


def test_a_pool_is_taken_in_turn_and_fresh_inputs_never_come_again():
    pool, fresh = source("burgers", pool=7), source("burgers")
    rows = torch.cat([pool.draw(3) for _ in range(7)])
    assert len(rows.unique(dim=0)) == 7
    assert torch.equal(rows[:7], rows[7:14])
    assert torch.equal(rows[:7], rows[14:])
    assert len(torch.cat([fresh.draw(3) for _ in range(7)]).unique(dim=0)) == 21
    assert len(source("burgers", batch=5).draw(3)) == 5


@pytest.mark.parametrize("pool", [None, 7])
def test_a_source_goes_on_where_it_was(pool):
    first, second = source("allen_cahn", pool=pool), source("allen_cahn", pool=pool)
    first.draw(3)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.draw(3), second.draw(3))
