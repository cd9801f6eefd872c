"""Every example is short, runs, and gains what it says: one number each."""

import importlib.util
from pathlib import Path

import pytest
import torch

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
