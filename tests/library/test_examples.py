"""Every example is short, runs, and gains what it says: one number each."""

import copy
import importlib.util
from pathlib import Path

import pytest
import torch
from library.conftest import build

import stcl

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str, source: str | None = None):
    """An example as a module, or a changed version of it."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    module = importlib.util.module_from_spec(spec)
    exec(compile(source or path.read_text(), str(path), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) <= 60


def test_darcy_with_an_fno():
    """Against as much plain training, the Jacobian error falls by a quarter at least."""
    example = load("darcy")
    a = example.inputs(3, seed=5).double()
    assert example.residual(example.solve(a), a).abs().max() < 1e-10
    (_, plain), (_, ours) = (example.train(lam, epochs=20) for lam in (0, 1))
    assert ours < 0.75 * plain


def test_reaction_diffusion_with_a_deeponet():
    """Both errors fall by a third at least."""
    example = load("reaction_diffusion")
    a = example.inputs(3, seed=5)
    assert example.residual(example.solve(a).double(), a.double()).abs().max() < 1e-2  # solved, then rounded to float32
    (field, jacobian), (our_field, our_jacobian) = (example.train(lam, steps=100) for lam in (0, 1))
    assert our_field < 0.67 * field
    assert our_jacobian < 0.67 * jacobian


def test_normalised_fields():
    """In physical units, which the model never sees, the Jacobian error falls by a third at least."""
    example = load("normalised")
    a = example.inputs(3, seed=5).double()
    assert example.residual(example.solve(a), a).abs().max() < 1e-6 * a[:, 1].abs().max()
    (_, plain), (_, ours) = (example.train(lam) for lam in (0, 1))
    assert ours < 0.67 * plain


def test_an_inverse_problem(monkeypatch):
    """The input that the surrogate finds is at most two thirds as far from the one the solver finds."""
    monkeypatch.syspath_prepend(EXAMPLES)
    example = load("inverse_problem")
    z = torch.randn(1, 5, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(example.PRIOR(z), example.inputs(1, seed=4))
    exact = example.SENSORS(example.solve(example.inputs(2, seed=2)))
    found = example.map_point(example.solve, example.SENSORS, exact, 1e-5, example.PRIOR)  # next to no noise, no prior
    torch.testing.assert_close(found.a, example.inputs(2, seed=2), atol=0.02, rtol=0)
    plain, ours = example.distances(example.train(lam=0, epochs=60), example.train(lam=1, epochs=60))
    assert ours < 0.67 * plain


def test_two_lines_change_an_existing_loop():
    """The same file without them is the plain loop; with them the Jacobian error falls by a third at least."""
    lines = (EXAMPLES / "existing_loop.py").read_text().splitlines()
    new = [line for line in lines if line.endswith("# new")]
    assert len(new) == 2
    plain = load("existing_loop", "\n".join(line for line in lines if line not in new))
    ours = load("existing_loop")
    test, v = ours.inputs(64, seed=2), ours.inputs(4, seed=3)
    torch.testing.assert_close(ours.residual(ours.solve(test), test), torch.zeros(64, 31), atol=1e-3, rtol=0)
    errors = [stcl.jacobian_error(m.train(), test, v, m.solve).mean() for m in (plain, ours)]
    assert errors[1] < 0.67 * errors[0]


def test_a_reloaded_network(tmp_path):
    """Its gradient is that of finite differences. Inputs are inferred from sixteen noisy values of a response each."""
    settings = {
        "options": {"n": 13},
        "samples": {"train": 48, "val": 16, "test": 16},
        "train_sizes": [48],
        "bank": {"test": 1},
        "network": {"modes": 4, "width": 12, "layers": 2, "head": 24},
        "training": {"epochs": 25, "batch": 16, "learning_rate": 0.005},
        "methods": {"fno": {}},
    }
    (folder,) = build(tmp_path / "results/test", tmp_path / "work", {"diffusion": settings})
    example, run = load("reload_network"), stcl.load_run(folder)
    a, u = run.pairs("test")
    network, step = copy.deepcopy(run.network).double(), 1e-5 * torch.randn(a.shape).double()
    change = network(a.double() + step).mean((1, 2)) - network(a.double() - step).mean((1, 2))
    torch.testing.assert_close(
        (example.sensitivity(network, a.double()) * step).sum((1, 2)) * 2, change, rtol=1e-5, atol=0
    )
    run.network.requires_grad_(False)
    found, distance = example.infer(run, a, u)
    responses = torch.from_numpy(run.problem.solve(found.double().numpy()))
    assert distance < 0.9
    assert (responses - u).norm() < 0.6 * (u.mean(0) - u).norm()  # of the solver: it knows nothing of the network


def test_the_most_probable_input_of_a_linear_map():
    """Misfit and prior are squares then, and the minimiser solves (MMᵀ + σ²) z = M (d − mean)."""
    example, sigma = load("reload_network"), 0.3
    generator = torch.Generator().manual_seed(0)
    a, d = torch.randn(40, 6, 4, generator=generator), torch.randn(3, 6, 4, generator=generator)
    field = example.prior(a)
    mean = field(torch.zeros(1, example.MODES)).flatten(1)
    modes = field(torch.eye(example.MODES)).flatten(1) - mean
    z = torch.linalg.solve(modes @ modes.T + sigma**2 * torch.eye(example.MODES), modes @ (d.flatten(1) - mean).T).T
    found = example.most_probable(lambda a: a, field, lambda u: u, d, sigma)
    torch.testing.assert_close(found, field(z), rtol=1e-3, atol=1e-3)
    spread = (
        (field(torch.randn(4000, example.MODES, generator=generator)) - field(torch.zeros(1, example.MODES)))
        .var(0)
        .sum()
    )
    largest = torch.linalg.svdvals((a - a.mean(0)).flatten(1))[: example.MODES]
    assert spread == pytest.approx(largest.square().sum().item() / 40, rel=0.1)
