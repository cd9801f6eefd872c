"""Where the q directions of an update come from, and that they do not repeat or change by accident."""

import numpy as np
import pytest
import torch
from reference import OPTIONS

from stcl import problems
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
