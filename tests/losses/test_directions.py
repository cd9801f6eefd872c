"""Where the q directions of an update come from, and that they do not repeat or change by accident."""

import numpy as np
import pytest
import torch
from reference import OPTIONS

from stcl import problems
from stcl.losses.batch_directions import BatchDirections
from stcl.losses.directions import SketchDirections
from stcl.losses.settings import Sketch

CPU = torch.device("cpu")


def directions(name: str, basis: str = "prior", seed: int = 0, q: int = 3, **sketch) -> SketchDirections:
    problem = problems.load(name, **OPTIONS[name])
    return SketchDirections(problem, basis, q, Sketch(**sketch), CPU, seed)


@pytest.mark.parametrize("name", sorted(OPTIONS))
@pytest.mark.parametrize("basis", ["prior", "white"])
@pytest.mark.parametrize("source", ["fresh", "pool"])
@pytest.mark.parametrize("shared", [True, False])
def test_shapes(name, basis, source, shared):
    sketch = directions(name, basis, source=source, shared=shared, pool=8)
    shape = sketch.problem.layout.input_shape
    v = sketch.draw(batch=5)
    assert v.shape == ((3, *shape) if shared else (5, 3, *shape))
    assert v.dtype == torch.get_default_dtype()


def test_the_pool_is_the_problems_sketch_stream_in_order():
    sketch = directions("diffusion", source="pool", shared=True, pool=8)
    expected = torch.as_tensor(sketch.problem.directions(8, "sketch"))
    drawn = torch.cat([sketch.draw(batch=4) for _ in range(8)])
    torch.testing.assert_close(drawn, expected.repeat(3, 1, 1))


def test_the_pool_does_not_depend_on_the_seed_and_fresh_draws_do():
    for source, equal in (("pool", True), ("fresh", False)):
        first, second = (directions("diffusion", seed=seed, source=source).draw(2) for seed in (0, 1))
        assert torch.equal(first, second) == equal


def test_fresh_directions_are_new_at_every_update_and_follow_the_prior():
    sketch = directions("navier_stokes", q=200)
    v = torch.cat([sketch.draw(2) for _ in range(3)]).flatten(0, 1)
    assert len({float(x) for x in v.flatten(1)[:, 50]}) == len(v)
    torch.testing.assert_close(v.flatten(1).norm(dim=1), torch.ones(len(v)))
    stored = torch.as_tensor(sketch.problem.directions(1200, "sketch"))
    ours, theirs = (x.flatten(1).square().mean(0) for x in (v, stored))
    assert ((ours - theirs).norm() / theirs.norm()) < 0.15


@pytest.mark.parametrize("source", ["fresh", "pool"])
def test_state_is_restored(source):
    sketch, other = (directions("burgers", source=source, pool=64) for _ in range(2))
    sketch.draw(4)
    other.load_state_dict(sketch.state_dict())
    assert torch.equal(sketch.draw(4), other.draw(4))


def test_white_noise_is_isotropic():
    sketch = directions("burgers", basis="white", q=5000)
    v = sketch.draw(1)[0].numpy()
    np.testing.assert_allclose(v.T @ v / len(v) * v.shape[1], np.eye(v.shape[1]), atol=0.12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_later_batch_of_equal_inputs_has_directions_of_zero(dtype):
    """Not of the rounding in its mean, which would have unit norm."""
    drawn = BatchDirections(None, q=2)
    drawn.inputs = torch.rand(7, 50, dtype=dtype)
    torch.testing.assert_close(drawn.draw(7).norm(dim=-1), torch.ones(7, 2, dtype=dtype))
    drawn.inputs = drawn.inputs[:1].expand(7, 50) / 3
    assert not drawn.draw(7).any()


def test_directions_of_a_batch_have_the_covariance_of_its_inputs():
    """Up to their norm: in a plane in which the inputs spread twice as much one way as the other."""
    torch.manual_seed(0)
    drawn = BatchDirections(None, q=5000)
    drawn.inputs = torch.randn(4, 2, dtype=torch.float64) * torch.tensor([2.0, 1.0]) + 1e3
    v = drawn.draw(4).flatten(0, 1)
    v = v / v.norm(dim=1, keepdim=True)
    expected = torch.randn(20000, 2, dtype=torch.float64) @ torch.linalg.cholesky(torch.cov(drawn.inputs.T)).T
    expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(v.T @ v / len(v), expected.T @ expected / len(v), rtol=0, atol=0.01)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_a_parameter_of_another_size_does_not_decide_all_directions(size):
    """Without the bound, one direction of a hundred would carry nearly all of the smaller parameter's square."""
    torch.manual_seed(0)
    drawn = BatchDirections(None, q=5000)
    drawn.inputs = torch.randn(4, 2, dtype=torch.float64) * torch.tensor([size, 1.0])
    v = drawn.draw(4).flatten(0, 1)
    squares = v[:, 1].square().sort().values
    assert squares[-200:].sum() < 0.1 * squares.sum()
    plain = v[:, 1] / v.norm(dim=1)
    assert (plain.square().sort().values[-200:].sum() > 0.9 * plain.square().sum()) == (size > 1)
