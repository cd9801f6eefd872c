"""What only the Allen-Cahn problem claims."""

import itertools

import numpy as np
import pytest
import torch
from covariances import covariance_z_scores

from stcl.problems._torch_normals import torch_normals
from stcl.problems.allen_cahn import AllenCahn
from stcl.problems.base import SolveError

SMALL = {"nx": 32, "nt": 10, "time_step": 2e-2}


def rms(field):
    return float(np.sqrt(np.mean(np.square(np.asarray(field)))))


def spectrum():
    """(k² + ℓ⁻²)⁻² for the 128 frequencies in FFT order, without the mean."""
    k = 2 * np.pi * np.fft.fftfreq(128, 1 / 128)
    return np.where(k == 0, 0, (k**2 + 0.07**-2) ** -2.0)


def tangent_residual(problem, a, u, v, w):
    """[samples, directions, nt-1, nx]"""
    state, field = torch.from_numpy(u), torch.from_numpy(a)
    return torch.stack(
        [
            torch.func.jvp(
                problem.residual,
                (state, field),
                (torch.from_numpy(w[:, k]), torch.from_numpy(v[k]).expand_as(field)),
            )[1]
            for k in range(len(v))
        ],
        dim=1,
    ).numpy()


# -- prior ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1234])
def test_normals_are_those_of_torch(seed):
    generator = torch.Generator().manual_seed(seed)
    draws = [torch.randn(n, 128, dtype=torch.float64, generator=generator).ravel() for n in (64, 64, 3)]
    np.testing.assert_allclose(torch_normals(seed, 131 * 128, "float64"), torch.cat(draws).numpy(), rtol=0, atol=1e-14)


def test_published_inputs():
    """One generator for train, val and test in blocks of 64 rows; real, then imaginary parts; Re ifft; std; tanh."""
    generator = torch.Generator().manual_seed(0)
    fields = []
    for _ in range(2304 // 64):
        re, im = (torch.randn(64, 128, dtype=torch.float64, generator=generator).numpy() for _ in range(2))
        gaussian = np.fft.ifft((re + 1j * im) * spectrum()).real
        fields.append(np.tanh(gaussian / gaussian.std(axis=1, ddof=1, keepdims=True)))
    fields, first = np.concatenate(fields), 0
    for split, count in (("train", 2048), ("val", 128), ("test", 128)):
        inputs = AllenCahn().inputs(count, split)
        np.testing.assert_allclose(inputs, fields[first : first + count], rtol=0, atol=1e-13)
        first += count
    assert rms(fields) == pytest.approx(0.6665, abs=5e-4)


def test_published_directions():
    """One generator for train, val and test, 200 rows each; unit Euclidean norm, no tanh."""
    generator = torch.Generator().manual_seed(1234)
    for stream in ("train", "val", "test"):
        re, im = (torch.randn(200, 128, dtype=torch.float64, generator=generator).numpy() for _ in range(2))
        expected = np.fft.ifft((re + 1j * im) * spectrum()).real
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(AllenCahn().directions(200, stream), expected, rtol=0, atol=1e-14)


def test_draws_go_on_beyond_the_published_split():
    problem = AllenCahn(**SMALL)
    longer = problem.inputs(140, "test")
    np.testing.assert_array_equal(problem.inputs(131, "test"), longer[:131])
    assert len(np.unique(longer[:, 3])) == 140
    assert len(np.unique(problem.directions(210, "train")[:, 3])) == 210


def test_fields_have_the_covariance_of_the_spectrum():
    """Before scaling and tanh: Σ_k S(k) cos(k(x − y)) / 128²."""
    problem = AllenCahn(nx=8)
    noise = np.random.default_rng(0).standard_normal((4000, *problem.noise_shape))
    x, k = np.arange(8) / 8, 2 * np.pi * np.fft.fftfreq(128, 1 / 128)
    covariance = np.cos((x[:, None] - x)[..., None] * k) @ spectrum() ** 2 / 128**2
    z = covariance_z_scores(noise @ problem._fields, covariance)
    assert np.abs(z).max() < 5
    assert z.std() == pytest.approx(1, abs=0.5)


# -- solver -----------------------------------------------------------------------------------------------------


def test_steps_are_the_published_ones():
    """û' = (û + δ FFT(u − u³)) / (1 + δ ε² k²) with û carried, and the tangent beside it."""
    problem = AllenCahn(nt=4, time_step=2e-2)
    step = 5 / 3 / problem.steps_per_frame
    damping = 1 / (1 + step * 0.03**2 * (2 * np.pi * np.fft.fftfreq(128, 1 / 128)) ** 2)
    a, v = problem.inputs(2, "train"), problem.directions(140, "train")
    u = problem.solve(a)
    np.testing.assert_array_equal(u[:, 0], a)
    many, few = problem.tangents(a, u, v), problem.tangents(a, u, v[:3])  # the Jacobian, or the directions themselves
    np.testing.assert_allclose(many[:, :3], few, rtol=0, atol=1e-13)
    for i in range(2):
        state, w = a[i], v[:3]
        state_hat, w_hat = np.fft.fft(state), np.fft.fft(w)
        for frame in range(1, 4):
            for _ in range(problem.steps_per_frame):
                w_hat = (w_hat + step * np.fft.fft((1 - 3 * state**2) * w)) * damping
                state_hat = (state_hat + step * np.fft.fft(state - state**3)) * damping
                state, w = np.fft.ifft(state_hat).real, np.fft.ifft(w_hat).real
            np.testing.assert_allclose(u[i, frame], state, rtol=0, atol=1e-12)
            np.testing.assert_allclose(few[i, :, frame], w, rtol=0, atol=1e-12)


def test_the_published_step():
    problem = AllenCahn()
    assert problem.steps_per_frame == 128
    assert problem._step == pytest.approx(1.001603e-3, abs=5e-10)


def test_the_solver_converges_with_first_order_in_time():
    u, w = [], []
    for step in (4e-3, 2e-3, 1e-3):
        problem = AllenCahn(nx=64, nt=11, time_step=step)
        a, v = problem.inputs(4, "test"), problem.directions(4, "test")
        u.append(problem.solve(a))
        w.append(problem.tangents(a, u[-1], v))
    for field in (u, w):
        order = np.log2(np.linalg.norm(field[0] - field[1]) / np.linalg.norm(field[1] - field[2]))
        assert order == pytest.approx(1, abs=0.05)
    # with first order, the last difference is what is left at the published step
    assert np.linalg.norm(u[1] - u[2]) / np.linalg.norm(u[2]) == pytest.approx(8e-5, rel=0.3)


def test_the_solver_converges_spectrally_in_space():
    """Doubling 32, 64 and 128 nodes changes u by about 2e-3, 1e-5 and 1e-10."""
    fields = []
    for nx in (32, 64, 128, 256):
        problem = AllenCahn(nx=nx, nt=5, time_step=5e-3)
        fields.append(problem.solve(problem.inputs(8, "test"))[:, :, :: nx // 32])
    changes = [np.linalg.norm(f - g) / np.linalg.norm(g) for f, g in itertools.pairwise(fields)]
    assert changes[0] < 1e-2
    assert changes[1] < 1e-4
    assert changes[2] < 1e-9


def test_tangents_grow_as_published():
    """Pointwise root mean square of w: 0.088 at t = 0, for unit vectors of 128 values, and more at the end."""
    problem = AllenCahn(time_step=1e-2)
    a, v = problem.inputs(64, "test"), problem.directions(8, "test")
    u = problem.solve(a)
    w = problem.tangents(a, u, v)
    assert rms(w[:, :, 0]) == pytest.approx(0.0884, abs=1e-4)
    assert 0.12 < rms(w[:, :, -1]) < 0.22
    assert 0.6 < np.mean(np.abs(u[:, -1]) > 0.9) < 0.8


def test_fields_that_overflow_are_not_returned():
    problem = AllenCahn(**SMALL)
    a = problem.inputs(3, "train")
    a[1] *= 1e4
    with pytest.raises(SolveError, match=r"samples \[1\]"), np.errstate(all="ignore"):
        problem.solve(a)


# -- the loss on the network's grid -----------------------------------------------------------------------------


def test_the_floor_of_the_loss():
    """At the true (u, w) the tangent residual is about 1 % of w_t, and falls with second order in the frames' distance.

    The floor of u's own residual lies in the first frames, where the initial field's short waves decay within a frame:
    it falls with an observed order of 1.5 here, which rises towards 2 with more frames.
    """
    state, tangent = [], []
    for nt in (40, 79):
        problem = AllenCahn(nx=64, nt=nt, time_step=5e-4)
        a, v = problem.inputs(4, "test"), problem.directions(2, "test")
        u = problem.solve(a)
        w = problem.tangents(a, u, v)
        state.append(rms(problem.residual(torch.from_numpy(u), torch.from_numpy(a))))
        tangent.append(rms(tangent_residual(problem, a, u, v, w)))
        if nt == 40:
            w_t = (w[:, :, 2:] - w[:, :, :-2]) / (2 * problem.frame_step)
            assert tangent[0] / rms(w_t) == pytest.approx(0.01, rel=0.5)
    assert np.log2(tangent[0] / tangent[1]) == pytest.approx(2, abs=0.1)
    assert 1.4 < np.log2(state[0] / state[1]) < 2


def test_the_residual_starts_from_the_input():
    """The first frame of u is not read: a network without the hard initial condition is held to a, too."""
    problem = AllenCahn(**SMALL)
    a = torch.from_numpy(problem.inputs(2, "train"))
    u = torch.from_numpy(problem.solve(a.numpy()))
    other = u.clone()
    other[:, 0] = 7.0
    torch.testing.assert_close(problem.residual(other, a), problem.residual(u, a), rtol=0, atol=0)
