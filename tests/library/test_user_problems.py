"""The six problems of users with their own models: the loss is worth its epochs, and a kept inverse its memory."""

import pytest
import torch
from user_problems import PROBLEMS

import stcl

EPOCHS = {"three_scalars": 60, "damped_helmholtz": 40, "fitzhugh_nagumo": 15}
LONG = {"nonlinear_heat": 40, "advection_diffusion_reaction": 12, "fisher_kpp": 15}


def jacobian_error(problem, epochs: int, lam: float) -> float:
    """‖DS_θ[v] − w‖/‖w‖ over unseen samples and directions together, after training on 32 samples."""
    torch.manual_seed(0)
    (a, u), model = problem.data(32, seed=1), problem.model()
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    tangents = stcl.TangentConsistency(problem.equation(), lam=lam) if lam else None
    for _ in range(epochs):
        for rows in torch.arange(32).split(16):
            data = torch.nn.functional.mse_loss(model(a[rows]), u[rows])
            term = 0.0 if tangents is None else tangents(model, a[rows], u[rows], data=data)
            optimiser.zero_grad()
            (data + term).backward()
            optimiser.step()
    test, v = problem.inputs(8, 2).double(), problem.inputs(3, 3).double() - problem.inputs(3, 4).double()
    step = 1e-4
    truth = torch.stack([problem.solve(test + step * d) - problem.solve(test - step * d) for d in v], 1) / (2 * step)
    with torch.no_grad():
        _, w = stcl.value_and_tangents(model, test.float(), v.float())
    return float((w - truth).norm() / truth.norm())


@pytest.mark.parametrize(
    "name", [*EPOCHS, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)], ids=[*EPOCHS, *LONG]
)
def test_the_jacobian_is_better_after_as_many_epochs(name):
    problem, epochs = PROBLEMS[name](), {**EPOCHS, **LONG}[name]
    assert jacobian_error(problem, epochs, lam=1.0) < jacobian_error(problem, epochs, lam=0.0)


def test_the_page_has_the_price_of_an_update_with_the_users_model():
    """Twenty GMRES steps or one product with a kept inverse, measured on the same model."""
    problem = PROBLEMS["damped_helmholtz"]()
    page = stcl.diagnose(problem.equation(), model=problem.model())
    (kept_name, kept), (name, other) = page.price.ratios
    assert kept_name.startswith("solved_target, inverses kept for labels, up to 1 GiB")
    assert name == "krylov_target, nothing kept"
    assert 1 < kept < other / 2
    assert "here with Sequential" in str(page)
