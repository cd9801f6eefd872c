"""Every problem × every claim. A new problem adds a line to cases.py and its equation to tangent_equations.py."""

import numpy as np
import pytest
import tangent_equations
import torch
from cases import CASES, Case
from scipy.stats import ks_2samp

from stcl import problems
from stcl.runtime.stores import StoreError
from stcl.stages.bank import check_labels

RESOLUTIONS = {  # half, paper and double
    "diffusion": [{"n": 33}, {}, {"n": 129}],
    "helmholtz": [{"n": 33}, {}, {"n": 129}],
    "navier_stokes": [{"n": 32}, {}, {"n": 128}],
    "burgers": [
        {"nx": 32, "nt": 50, "solver_nx": 64, "solver_nt": 100},
        {},
        {"nx": 128, "nt": 200, "solver_nx": 256, "solver_nt": 400},
    ],
    "allen_cahn": [{"nx": 64, "nt": 20}, {}, {"nx": 256, "nt": 80}],
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request) -> Case:
    return request.param


@pytest.fixture(scope="module")
def problem(case):
    return problems.load(case.name, **case.options)


@pytest.fixture(scope="module")
def solved(problem):
    """Three inputs that pass the problem's filter, with their responses."""
    a = problem.inputs(problem.candidates(6), "train")
    u = problem.solve(a)
    kept = np.flatnonzero(problem.accept(u))[:3]
    assert len(kept) == 3
    return a[kept], u[kept]


@pytest.fixture(scope="module")
def directions(problem):
    return problem.directions(4, "test")


def blocks(residual) -> dict[str, torch.Tensor]:
    """The parts of a residual by name."""
    return residual._asdict() if hasattr(residual, "_asdict") else {"residual": residual}


def on_network(problem, *fields):
    return tuple(torch.from_numpy(np.ascontiguousarray(problem.network_input(f))) for f in fields)


def full_tangents(problem, a, u, v):
    """Tangents of every response; a problem that stores only the scored ones solves for all in `_full_tangents`."""
    if problem.layout.scored == problem.layout.responses:
        return problem.tangents(a, u, v)
    return np.stack([problem._full_tangents(state, v) for state in u])


# -- shapes and draws -------------------------------------------------------------------------------------------


def test_shapes_follow_the_layout(problem, solved, directions):
    layout, (a, u) = problem.layout, solved
    assert problem.network_input(a).shape == (3, *layout.input_shape)
    assert problem.network_input(directions).shape == (4, *layout.input_shape)
    assert u.shape == (3, *layout.response_shape)
    assert problem.tangents(a[:2], u[:2], directions).shape == (2, 4, *layout.tangent_shape)


def test_inputs_from_normals_are_those_of_a_split(problem):
    """Two samples of 2000: sizes, values at nodes and products of two nodes differ no more than chance lets them.

    By chance alone, the smallest of 22 p-values is below 1e-4 in one of 450 tests.
    """
    noise = np.random.default_rng(0).standard_normal((2000, *problem.input_noise_shape))
    ours, theirs = (problem.network_input(a) for a in (problem.input(noise), problem.inputs(2000, "train")))
    assert ours.shape == theirs.shape

    def measures(fields: np.ndarray) -> list[np.ndarray]:
        flat = fields.reshape(len(fields), -1)
        nodes = flat[:, np.flatnonzero(theirs.reshape(len(theirs), -1).std(0) > 1e-6)]
        first, second = (nodes[:, np.random.default_rng(k).integers(nodes.shape[1], size=10)] for k in (1, 2))
        return [np.linalg.norm(flat, axis=1), np.abs(flat).max(axis=1), *first.T, *(first * second).T]

    assert min(ks_2samp(x, y).pvalue for x, y in zip(measures(ours), measures(theirs), strict=True)) > 1e-4


@pytest.mark.parametrize("name", ["input", "whitened"])
def test_inputs_from_normals_are_the_same_in_torch(problem, name):
    draw = getattr(problem, name)
    noise = np.random.default_rng(1).standard_normal((2, 3, *problem.input_noise_shape))
    a = draw(noise)
    np.testing.assert_allclose(draw(torch.from_numpy(noise)), a, atol=1e-12 * np.abs(a).max())
    np.testing.assert_allclose(draw(noise[1, 2]), a[1, 2], atol=1e-12 * np.abs(a).max())


def test_the_whitened_prior_is_smooth_at_its_mean_and_as_large_as_the_inputs(problem):
    noise = torch.from_numpy(np.random.default_rng(2).standard_normal((400, *problem.input_noise_shape)))
    slope = torch.func.jvp(problem.whitened, (torch.zeros_like(noise[0]),), (noise[0],))[1]
    difference = (problem.whitened(1e-5 * noise[0]) - problem.whitened(-1e-5 * noise[0])) / 2e-5
    torch.testing.assert_close(slope, difference, rtol=1e-6, atol=1e-8)
    ours, theirs = (problem.whitened(noise) ** 2).mean(), (problem.input(noise) ** 2).mean()
    assert 0.8 < ours / theirs < 1.25


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_longer_draws_of_inputs_begin_the_same(problem, split):
    np.testing.assert_array_equal(problem.inputs(7, split)[:3], problem.inputs(3, split))


@pytest.mark.parametrize("stream", ["train", "val", "test", "sketch"])
def test_longer_draws_of_directions_begin_the_same(problem, stream):
    np.testing.assert_allclose(problem.directions(7, stream)[:3], problem.directions(3, stream), rtol=0, atol=1e-15)


def test_splits_and_streams_differ(problem):
    inputs = [problem.inputs(1, split) for split in ("train", "val", "test")]
    streams = [problem.directions(1, stream) for stream in ("train", "val", "test", "sketch")]
    for fields in (inputs, streams):
        for i, first in enumerate(fields):
            assert all(first.shape != other.shape or not np.allclose(first, other) for other in fields[:i])


def test_directions_drawn_in_torch_are_those_drawn_in_numpy(problem):
    noise = np.random.default_rng(0).standard_normal((2, 3, *problem.noise_shape))
    expected = problem.direction(noise)
    assert expected.shape == (2, 3, *problem.layout.input_shape)
    np.testing.assert_allclose(problem.direction(torch.from_numpy(noise)).numpy(), expected, rtol=0, atol=1e-14)
    single = problem.direction(torch.from_numpy(noise).float())
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_finer_grids_carry_the_same_fields(case, problem):
    assert case.finer, f"cases.py: give {case} options of a finer grid with common nodes"
    finer = problems.load(case.name, **(case.options | case.finer))
    common = [
        [int(np.argmin(np.abs(fine - x))) for x in coarse]
        for coarse, fine, axis in zip(
            problem.layout.coordinates, finer.layout.coordinates, problem.layout.axes, strict=True
        )
        if axis in problem.layout.input_axes
    ]

    def sampled(fields):
        return fields[(..., *np.ix_(*common))]

    a = problem.network_input(problem.inputs(2, "val"))
    np.testing.assert_allclose(sampled(finer.network_input(finer.inputs(2, "val"))), a, atol=1e-12 * np.abs(a).max())
    v = problem.network_input(problem.directions(2, "val"))
    fine_v = sampled(finer.network_input(finer.directions(2, "val")))
    for coarse, fine in zip(v, fine_v, strict=True):  # the same shape; the norm counts the nodes of its own grid
        fine = fine * np.linalg.norm(coarse) / np.linalg.norm(fine)
        np.testing.assert_allclose(fine, coarse, atol=1e-12 * np.abs(v).max())


# -- the equation -----------------------------------------------------------------------------------------------


def test_residual_vanishes_at_the_solution(case, problem, solved):
    if not case.shared_grid:
        pytest.skip("the network's coarser grid has a floor, measured in the problem's own tests")
    a, u = solved
    (a,), u = on_network(problem, a), torch.from_numpy(u)
    size = max(block.abs().max() for block in blocks(problem.residual(torch.zeros_like(u), a)).values())
    for name, block in blocks(problem.residual(u, a)).items():
        if name not in case.stabilised:
            assert block.abs().max() < 1e-9 * size, name


def test_jvp_of_the_residual_is_the_sensitivity_equation_of_the_paper(case, problem):
    equation = getattr(tangent_equations, case.name, None)
    assert equation is not None, f"tangent_equations.py: write A w + B v of {case}"
    layout, rng = problem.layout, np.random.default_rng(0)
    a = problem.network_input(problem.inputs(2, "val"))
    u, w = rng.standard_normal((2, 2, *layout.response_shape))
    v = rng.standard_normal((2, *layout.input_shape))
    primals, tangents = ((torch.from_numpy(x), torch.from_numpy(y)) for x, y in ((u, a), (w, v)))
    jvp = blocks(torch.func.jvp(problem.residual, primals, tangents)[1])
    for i in range(2):
        expected = equation(problem, u[i], a[i], w[i], v[i])
        assert len(expected) == len(jvp)
        for (name, block), values in zip(jvp.items(), expected, strict=True):
            np.testing.assert_allclose(block[i].numpy(), values, atol=1e-11 * np.abs(values).max(), err_msg=name)


def test_residual_follows_dtype_device_and_leading_axes(problem, solved):
    a, u = solved
    (a,), u = on_network(problem, a), torch.from_numpy(u)
    batch = blocks(problem.residual(u, a))
    single = blocks(problem.residual(u.float(), a.float()))
    stacked = blocks(problem.residual(u[:, None], a[:, None]))
    meta = blocks(problem.residual(u.to("meta"), a.to("meta")))  # fails on host reads and on stray devices
    for name, block in batch.items():
        assert single[name].dtype == torch.float32
        assert meta[name].shape == block.shape
        torch.testing.assert_close(stacked[name][:, 0], block, rtol=0, atol=0)


def test_jvps_of_the_residual_can_be_batched_over_directions(problem, solved):
    a, u = solved
    (a,), u = on_network(problem, a), torch.from_numpy(u)
    w, v = (torch.randn(2, *x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0)) for x in (u, a))

    def along(w, v):
        return torch.func.jvp(problem.residual, (u, a), (w, v))[1]

    together = blocks(torch.func.vmap(along)(w, v))
    for k in range(2):
        for name, block in blocks(along(w[k], v[k])).items():
            torch.testing.assert_close(together[name][k], block)


# -- tangents ---------------------------------------------------------------------------------------------------


def test_tangents_are_the_derivative_of_the_solver(case, problem, solved, directions):
    """Central differences converge to the tangent with the square of their step."""
    a, u = solved[0][:1], solved[1][:1]
    v = directions[:1]
    w = problem.tangents(a, u, v)[0, 0]
    step = case.step * np.linalg.norm(a) / np.linalg.norm(v)

    def difference(step):
        forward, backward = problem.layout.score(problem.solve(np.concatenate([a + step * v, a - step * v])))
        return (forward - backward) / (2 * step)

    coarse, fine = difference(step), difference(step / 2)
    ratio = np.linalg.norm(coarse - w) / np.linalg.norm(fine - w)
    assert 3.8 < ratio < 4.2
    extrapolated = (4 * fine - coarse) / 3
    assert np.linalg.norm(extrapolated - w) < 1e-5 * np.linalg.norm(w)


def test_tangents_are_linear_and_do_not_depend_on_their_batch(problem, solved, directions):
    a, u = solved
    together = problem.tangents(a, u, directions)
    alone = problem.tangents(a[1:2], u[1:2], directions[2:3])[0, 0]
    combined = problem.tangents(a[1:2], u[1:2], 2 * directions[2:3] - 3 * directions[:1])[0, 0]
    size = np.abs(together).max()
    np.testing.assert_allclose(together[1, 2], alone, rtol=0, atol=1e-11 * size)
    np.testing.assert_allclose(2 * together[1, 2] - 3 * together[1, 0], combined, rtol=0, atol=1e-10 * size)


def test_tangents_satisfy_the_sensitivity_equation(case, problem, solved, directions):
    """A w + B v = 0 for the torch residual: solver and loss have the same Jacobian, also for rough directions."""
    if not case.shared_grid:
        pytest.skip("the network's coarser grid has its own equation")
    a, u = solved
    rough = np.random.default_rng(0).standard_normal((2, *directions.shape[1:]))
    v = np.concatenate([directions, rough])
    w = torch.from_numpy(full_tangents(problem, a, u, v))
    (a, v), u = on_network(problem, a, v), torch.from_numpy(u)
    for k in range(len(v)):
        direction = v[k].expand_as(a)
        source = blocks(torch.func.jvp(problem.residual, (u, a), (torch.zeros_like(u), direction))[1])
        size = max(block.norm() for block in source.values())
        for name, block in blocks(torch.func.jvp(problem.residual, (u, a), (w[:, k], direction))[1]).items():
            if name not in case.stabilised:
                assert block.norm() < 1e-9 * size, name


# -- the guard of the banks ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labels(problem, solved, directions):
    """Tangents about inputs and states as they are stored."""
    a, u, v = (x.astype(np.float32).astype(np.float64) for x in (*solved, directions))
    return a, u, v, problem.tangents(a, u, v)


def test_the_guard_accepts_tangents(problem, labels):
    a, u, v, w = labels
    check_labels(problem, 0, a, u, v, w)
    defect = problem.tangent_defect(a, u, v[0], w[:, 0])
    assert defect.shape == (3,)
    assert (defect < 0.1 * problem.tangent_tolerance).all()


def test_the_defect_is_the_relative_error_of_a_scaled_tangent(problem, labels):
    a, u, v, w = labels
    np.testing.assert_allclose(problem.tangent_defect(a, u, v[0], 1.25 * w[:, 0]), 0.25, rtol=1e-3)


FAULTS = {  # what may be wrong with the second sample's third label
    "not a number": lambda w: w.flat.__setitem__(w.size // 3, np.nan),
    "infinite": lambda w: w.flat.__setitem__(w.size // 3, -np.inf),
    "one entry": lambda w: w.flat.__setitem__(w.size // 3, w.flat[w.size // 3] + 0.1 * w.std()),
    "first entry": lambda w: w.flat.__setitem__(0, w.flat[0] + 0.1 * w.std()),
    "last entry": lambda w: w.flat.__setitem__(-1, w.flat[-1] + 0.1 * w.std()),
    "one percent": lambda w: w.__imul__(1.01),
    "forgotten": lambda w: w.fill(0.0),
    "diverged": lambda w: w.__imul__(1e6),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_guard_refuses_a_bank_with_one_bad_label(problem, labels, fault):
    a, u, v, w = labels
    w = w.copy()
    FAULTS[fault](w[1, 2])
    with pytest.raises(StoreError, match=r"sample 101, .*Nothing of this chunk was stored"):
        check_labels(problem, 100, a, u, v, w)


def test_the_guard_refuses_labels_that_are_all_wrong_alike(problem, labels):
    a, u, v, w = labels
    with pytest.raises(StoreError, match=r"3 of 3 samples .* sample 0, relative defect"):
        check_labels(problem, 0, a, u, v, 1.01 * w)
    with pytest.raises(StoreError, match=r"3 of 3 samples .* sample 0, relative defect"):
        check_labels(problem, 0, a, u, v[::-1], w)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2], ids=["half", "paper", "double"])
def test_solver_and_tangents_work_at_every_resolution(case, size):
    """Also from states and inputs rounded to float32, as they are stored."""
    problem = problems.load(case.name, **RESOLUTIONS[case.name][size])
    a = problem.inputs(problem.candidates(2), "train").astype(np.float32).astype(np.float64)
    u = problem.solve(a)
    first = np.flatnonzero(problem.accept(u))[:1]
    a, u, v = a[first], u[first].astype(np.float32).astype(np.float64), problem.directions(2, "test")
    w = problem.tangents(a, u, v)[0, 1]
    step = 1e-3 * np.linalg.norm(a) / np.linalg.norm(v[1])
    forward, backward = problem.layout.score(problem.solve(np.concatenate([a + step * v[1:], a - step * v[1:]])))
    difference = (forward - backward) / (2 * step)
    assert np.linalg.norm(difference - w) < 1e-3 * np.linalg.norm(w)


# -- bad input --------------------------------------------------------------------------------------------------


def test_fields_that_are_not_finite_are_refused(problem, solved, directions):
    a, u = (x.copy() for x in solved)
    a[1].flat[5] = np.nan
    with pytest.raises(ValueError, match=r"\[1\] have non-finite values"):
        problem.solve(a)
    with pytest.raises(ValueError, match=r"\[1\] have non-finite values"):
        problem.tangents(a, u, directions)


def test_fields_of_another_shape_are_refused(problem, solved, directions):
    a, u = solved
    with pytest.raises(ValueError, match=r"expected .* of shape .*, got"):
        problem.solve(a[..., :-1])
    with pytest.raises(ValueError, match=r"expected .* of shape .*, got"):
        problem.solve(a[0])
    with pytest.raises(ValueError, match=r"expected .* of shape .*, got"):
        problem.tangents(a, u, directions[0])


def test_constants_without_meaning_are_refused(case):
    assert case.refused, f"cases.py: give {case} options that it must refuse"
    for options in case.refused:
        with pytest.raises(ValueError, match=r"got|must|needs"):
            problems.load(case.name, **options)
