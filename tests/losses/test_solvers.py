"""The solvers of targets against dense matrices, against the problems' own tangents, and at the paper's grids."""

import pytest
import torch
from reference import Reference, reference

from stcl import problems
from stcl.losses import forms, settings, solvers
from stcl.tangent.operator import TangentOperator

FITTED = settings.Krylov()
CASES = {
    "diffusion": FITTED,
    "helmholtz": FITTED,
    "allen_cahn": settings.SpaceTime(),
    "navier_stokes": settings.Stokes(),
}


def target_errors(ref: Reference, solver, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """‖ŵ − w‖/‖w‖ in the scored responses at the true states, [samples, directions]; first frames are the input's."""
    layout = ref.problem.layout
    form = forms.load(ref.problem, settings.SolvedTarget(solver=solver))
    target = form.target(*(x.to(dtype) for x in (ref.a, ref.u, ref.v)))
    assert target.solved.all()
    found = layout.score(target.x).double()
    if layout.initial_axis is not None:
        found[..., 0, :] = ref.v
    exact = layout.score(ref.w)
    return (found - exact).flatten(2).norm(dim=2) / exact.flatten(2).norm(dim=2)


@pytest.mark.parametrize("name", CASES)
def test_many_steps_solve_what_a_dense_matrix_solves(name):
    """Any right-hand side of the residual's shape, not only −B v: Newton corrections have their own."""
    ref = reference(name)
    solver = solvers.load(ref.problem, CASES[name].model_copy(update={"steps": 60}))
    operators = [TangentOperator(ref.problem, u, a) for u, a in zip(ref.u, ref.a, strict=True)]
    unknowns = operators[0].unknowns
    g = torch.stack([op.product(torch.randn(2, len(unknowns))) for op in operators])
    found = solver.at(ref.u, ref.a)(unknowns.split(g))
    x = unknowns.restrict(found.x)
    left = torch.stack([g[i] - op.product(x[i]) for i, op in enumerate(operators)])
    relative = left.norm(dim=2) / g.norm(dim=2)
    torch.testing.assert_close(found.residual, relative, rtol=0.01, atol=1e-9)
    assert relative.max() < (1e-4 if name == "navier_stokes" else 1e-6)
    if name != "navier_stokes":  # whose pressure is not unique
        exact = torch.stack([torch.linalg.solve(op.matrix(), g[i].T).T for i, op in enumerate(operators)])
        assert ((x - exact).norm(dim=2) / exact.norm(dim=2)).max() < 1e-4
    assert (unknowns.embed(x) == found.x).all()  # zero elsewhere


@pytest.mark.parametrize(
    ("name", "options", "floor"),
    [
        ("diffusion", {"n": 33}, 0.0),
        ("helmholtz", {"n": 33}, 0.0),
        ("allen_cahn", {"nx": 32, "nt": 30, "time_step": 0.02}, 0.01),  # frames 0.17 apart
        ("navier_stokes", {"n": 24}, 0.001),  # the solver stabilises the divergence
    ],
)
def test_default_steps_give_the_tangents_of_the_problem(name, options, floor):
    assert target_errors(reference(name, count=4, directions=4, **options), CASES[name]).mean() < 0.02 + floor


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_targets_at_the_papers_grids_are_within_two_percent(name):
    """The mean over training inputs and directions, in single precision."""
    count = {"navier_stokes": 8}.get(name, 32)
    options = {"nx": 128, "nt": 40} if name == "allen_cahn" else {"n": problems.load(name).n}
    assert target_errors(reference(name, count=count, directions=6, **options), CASES[name]).mean() < 0.02
