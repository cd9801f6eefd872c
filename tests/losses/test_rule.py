"""Which form each problem gets, and which are refused by name."""

import re

import pytest
from reference import OPTIONS

from stcl import problems
from stcl.losses import rule, settings
from stcl.problems.base import Problem

LERAY = settings.PreconditionedResidual(metric=settings.LerayOseen())
LAPLACE = settings.PreconditionedResidual(metric=settings.InverseLaplacian())
KRYLOV = settings.KrylovTarget(metric=settings.ShiftedLaplacian())
PAPER = {
    "diffusion": LAPLACE,
    "helmholtz": KRYLOV,
    "burgers": settings.NormalizedResidual(),
    "allen_cahn": settings.Residual(),
    "navier_stokes": LERAY,
}


@pytest.mark.parametrize("name", sorted(PAPER))
def test_the_default_is_the_papers_and_is_not_refused(name):
    problem = problems.load(name, **OPTIONS[name])
    assert rule.default_form(problem) == PAPER[name]
    assert list(rule.refusals(PAPER[name], problem)) == []


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("burgers", KRYLOV, "krylov_target needs an elliptic"),
        ("navier_stokes", KRYLOV, "krylov_target needs an elliptic"),
        ("burgers", settings.SolvedTarget(solver=settings.Krylov()), "spd or indefinite, .* parabolic; use space_time"),
        ("helmholtz", settings.SolvedTarget(solver=settings.Krylov(method="cg")), "cg may only be used for definite"),
        ("diffusion", settings.SolvedTarget(solver=settings.SpaceTime()), "parabolic, this one is spd; use krylov"),
        ("allen_cahn", settings.SolvedTarget(solver=settings.Stokes()), "saddle, this one is parabolic"),
        ("burgers", settings.SolvedTarget(solver=settings.March(), warm_start=True), "leave warm_start out"),
        ("helmholtz", KRYLOV.model_copy(update={"solver": "cg"}), "cg may only be used for definite operators"),
        ("navier_stokes", settings.Residual(), "residual does not weigh the blocks"),
        ("navier_stokes", LAPLACE, "preconditioned_residual does not weigh the blocks"),
        ("diffusion", LERAY, "leray_oseen weighs the blocks of a saddle residual"),
        ("allen_cahn", LAPLACE, "inverse_laplacian acts in space alone"),
    ],
)
def test_what_cannot_work_is_refused(name, form, message):
    assert any(re.search(message, reason) for reason in rule.refusals(form, problems.load(name, **OPTIONS[name])))


SOLVED = settings.SolvedTarget(solver=settings.Krylov(metric=settings.InverseLaplacian()), state="corrected")


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("diffusion", {"value": "corrected"}, "value: it is for inputs without labels"),
        ("diffusion", {"pool": 8}, "pool: it is for inputs without labels"),
        ("diffusion", {"inputs": "unlabelled", "value": "corrected"}, "preconditioned_residual has none"),
        ("diffusion", {"inputs": "both", "form": SOLVED.model_copy(update={"state": "label"})}, "at the label, which"),
        ("helmholtz", {"inputs": "unlabelled"}, "form.state: krylov_target linearises at the label"),
        ("helmholtz", {"inputs": "both", "form": settings.Residual()}, "near-resonant inputs"),
    ],
)
def test_what_cannot_use_inputs_without_labels_is_refused(name, chosen, message):
    stcl = settings.Stcl(**({"form": PAPER[name]} | chosen))
    reasons = list(rule.input_refusals(stcl, problems.load(name, **OPTIONS[name])))
    assert len(reasons) == 1
    assert message in reasons[0]


def test_a_problem_that_cannot_draw_on_the_device_has_no_unlabelled_inputs():
    class Mine(type(problems.load("diffusion"))):
        input = Problem.input

    stcl = settings.Stcl(form=SOLVED, inputs="unlabelled", value="corrected")
    assert list(rule.input_refusals(stcl, problems.load("diffusion", n=13))) == []
    assert "give the problem `input(noise)`" in next(rule.input_refusals(stcl, Mine(n=13)))


@pytest.mark.parametrize("name", sorted(PAPER))
@pytest.mark.parametrize("inputs", ["unlabelled", "both"])
def test_forms_that_know_no_label_take_inputs_without_one(name, inputs):
    form = PAPER[name] if name != "helmholtz" else KRYLOV.model_copy(update={"state": "prediction"})
    stcl = settings.Stcl(form=form, inputs=inputs, value="residual")
    assert list(rule.input_refusals(stcl, problems.load(name, **OPTIONS[name]))) == []


@pytest.mark.parametrize("name", sorted(PAPER))
def test_the_control_is_allowed_everywhere(name):
    assert list(rule.refusals(settings.JacobianPenalty(), problems.load(name, **OPTIONS[name]))) == []


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("diffusion", settings.Residual()),
        ("helmholtz", settings.Residual()),
        ("helmholtz", settings.PreconditionedResidual(metric=settings.ShiftedLaplacian())),
        ("navier_stokes", settings.PreconditionedResidual(metric=settings.LerayOseen(project=False))),
        ("navier_stokes", settings.PreconditionedResidual(metric=settings.LerayOseen(weigh=False))),
    ],
)
def test_what_is_only_badly_conditioned_is_allowed(name, form):
    """The ablation of conditioning trains such forms."""
    assert list(rule.refusals(form, problems.load(name, **OPTIONS[name]))) == []


def test_an_unknown_class_is_named():
    class Other:
        tangent_class = "hyperbolic"

    with pytest.raises(ValueError, match="got 'hyperbolic'"):
        rule.default_form(Other())
