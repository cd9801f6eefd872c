"""Metrics against dense matrices that are built from their definitions, and against published values."""

import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from reference import reference

from stcl import problems
from stcl.core.layout import Layout
from stcl.losses import metrics, settings
from stcl.losses.metrics._sines import ShiftedInverse
from stcl.problems.navier_stokes import NavierStokesResidual


def dense_laplacian(m1: int, m2: int, h1: float, h2: float) -> np.ndarray:
    """−Δₕ on m1×m2 interior nodes with zero boundary values."""

    def second(m: int, h: float) -> np.ndarray:
        return (2 * np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1)) / h**2

    return np.kron(second(m1, h1), np.eye(m2)) + np.kron(np.eye(m1), second(m2, h2))


def test_inverse_laplacian_is_the_dense_matrix():
    ref = reference("diffusion")
    metric = metrics.load(ref.problem, settings.InverseLaplacian())
    m, h = ref.problem.n - 2, ref.problem.h
    scale = np.exp(-0.5 * ref.a[0, 1:-1, 1:-1].numpy().ravel())
    expected = scale[:, None] * np.linalg.inv(dense_laplacian(m, m, h, h)) * scale
    np.testing.assert_allclose(dense_metric(ref.problem, metric, ref.a[0]), expected, rtol=1e-8, atol=1e-12)


def test_shifted_laplacian_is_the_dense_matrix():
    ref = reference("helmholtz")
    metric = metrics.load(ref.problem, settings.ShiftedLaplacian(shift=7.0))
    m, h = ref.problem.n - 2, ref.problem.h
    expected = np.linalg.inv(dense_laplacian(m, m, h, h) + 7.0 * np.eye(m * m))
    np.testing.assert_allclose(dense_metric(ref.problem, metric, ref.a[0]), expected, atol=1e-13)


def test_sides_of_different_length():
    axes = (np.linspace(0, 1, 8), np.linspace(0, 3, 11))
    layout = Layout(("x", "y"), axes, (1.0, 3.0), ("a",), ("u",), ("x", "y", "a"), ("x", "y"), ("u",))
    inverse = ShiftedInverse(layout, shift=2.0)
    columns = torch.eye(6 * 9).unflatten(1, (6, 9))
    expected = np.linalg.inv(dense_laplacian(6, 9, 1 / 7, 0.3) + 2.0 * np.eye(54))
    np.testing.assert_allclose(inverse.apply(columns).flatten(1), expected, atol=1e-13)


def dense_leray_oseen(
    n: int, mu: float, speed: float, shift: float, project: bool = True, weigh: bool = True
) -> np.ndarray:
    """Re Σ_k M(k) F(k)ᴴ P(k) F(k) / count over the half spectrum, wave by wave; unknowns (r1, r2) at rows x2, x1."""
    m, h = n - 2, 1 / (n - 1)
    node2, node1 = np.meshgrid(np.arange(m), np.arange(m), indexing="ij")
    waves = [(l2, l1) for l2 in range(-(m // 2), m - m // 2) for l1 in range(m // 2 + 1)]
    lengths = [2 * np.pi / (m * h) * np.hypot(*wave) for wave in waves]
    symbols = [np.sqrt((mu * k * k) ** 2 + (speed * k) ** 2) for k in lengths]
    weights = [1 / (symbol + shift * max(symbols)) for symbol in symbols]
    if not weigh:
        weights = [sum(weights) / len(weights)] * len(waves)
    matrix = np.zeros((2, m * m, 2, m * m))
    for (l2, l1), weight in zip(waves, weights, strict=True):
        wave = np.exp(-2j * np.pi * (l2 * node2 + l1 * node1) / m).ravel() / m
        k = np.array([l1, l2])
        kept = np.eye(2) - (np.outer(k, k) / (k @ k) if project and k.any() else 0)
        matrix += weight / len(waves) * np.einsum("ij,x,y->ixjy", kept, wave.conj(), wave).real
    return matrix.reshape(2 * m * m, 2 * m * m)


SWITCHES = [{}, {"project": False}, {"weigh": False}, {"project": False, "weigh": False}]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("n", [8, 9])
def test_leray_oseen_is_the_dense_matrix(n, switches):
    problem = problems.load("navier_stokes", n=n)
    metric = metrics.load(problem, settings.LerayOseen(**switches))
    expected = dense_leray_oseen(n, mu=0.1, speed=3.0, shift=0.005, **switches)
    found = dense_metric(problem, metric, problem.states(1)[0][0])[: len(expected), : len(expected)]  # of the momentum
    np.testing.assert_allclose(found, expected, atol=1e-15 + 1e-12 * np.abs(expected).max())


def blocks(problem, lead=(2, 3)) -> NavierStokesResidual:
    m = problem.n - 2
    return NavierStokesResidual(torch.randn(*lead, 2, m, m), torch.randn(*lead, m, m), torch.randn(*lead, 8 * (m + 1)))


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("diffusion", settings.InverseLaplacian()),
        ("helmholtz", settings.ShiftedLaplacian()),
        *(("navier_stokes", settings.LerayOseen(**switches)) for switches in SWITCHES),
    ],
)
def test_energy_is_the_inner_product_with_what_is_applied(name, chosen):
    ref = reference(name)
    metric = metrics.load(ref.problem, chosen)
    a = ref.a[:2]
    r = blocks(ref.problem) if name == "navier_stokes" else torch.randn(2, 3, ref.problem.n - 2, ref.problem.n - 2)
    applied, energy = metric.at(a)(r), metric.energy(r, a)
    pairs = zip(r, applied, strict=True) if name == "navier_stokes" else [(r, applied)]
    torch.testing.assert_close(energy, sum((x * y).flatten(2).sum(-1) for x, y in pairs))
    assert energy.shape == (2, 3)
    assert (energy > 0).all()


def weights_of(problem) -> np.ndarray:
    """The weight of each mode over their number, where nothing is projected out."""
    *_, own, _ = metrics.load(problem, settings.LerayOseen(project=False))._energy_tables
    return own[0, ::2]  # real and imaginary parts take turns


def test_leray_oseen_has_the_published_constants_and_scales():
    """Wave numbers and weights at n = 64, and the energy of r = −s for unit directions, as measured for the paper."""
    problem = problems.load("navier_stokes")
    metric = metrics.load(problem, settings.LerayOseen())
    e1, e2, _ = map(torch.as_tensor, metric._tables)
    weight = weights_of(problem)
    weight = weight * weight.size
    assert weight.shape == (62, 32)
    np.testing.assert_allclose([weight[0, 0], weight[0, 1], weight.min()], [0.025383, 0.016955, 1.2628e-4], rtol=1e-4)
    torch.testing.assert_close((e1**2 + e2**2).flatten()[1:], torch.ones(62 * 32 - 1))
    s = torch.as_tensor(problem.directions(16, "train"))[None, :, :, 1:-1, 1:-1]
    zero = torch.zeros(1, 16, 62, 62)
    energy = metric.energy(NavierStokesResidual(-s, zero, zero.flatten(2)), s)
    np.testing.assert_allclose(energy.mean(), 4.3e-6, rtol=0.1)
    assert energy.min() > 2.5e-6
    assert energy.max() < 5.8e-6


def test_a_gradient_costs_almost_nothing():
    """The projector removes what a pressure can balance: exactly for a periodic potential."""
    problem = problems.load("navier_stokes", n=18)
    metric = metrics.load(problem, settings.LerayOseen())
    x = torch.arange(16) * 2 * torch.pi / 16
    gradient = torch.stack([torch.cos(x) * torch.ones(16, 1), torch.cos(x)[:, None] * torch.ones(16)])[None, None]
    rotation = torch.stack([torch.cos(x)[:, None] * torch.ones(16), torch.cos(x) * torch.ones(16, 1)])[None, None]
    zero = torch.zeros(1, 1, 16, 16)
    energies = [metric.energy(NavierStokesResidual(r, zero, zero.flatten(2)), x) for r in (gradient, rotation)]
    assert energies[0] < 1e-25
    assert energies[1] > 1e-4
    unprojected = metrics.load(problem, settings.LerayOseen(project=False))
    whole = [unprojected.energy(NavierStokesResidual(r, zero, zero.flatten(2)), x) for r in (gradient, rotation)]
    torch.testing.assert_close(whole[0], whole[1])  # both fields have the same wave numbers
    torch.testing.assert_close(whole[1], energies[1])  # of a rotation there is nothing to take out


def test_without_weights_the_energy_is_a_multiple_of_the_mean_square():
    """The waves below have two conjugate coefficients in the half spectrum or one, so each has a factor of its own."""
    problem = problems.load("navier_stokes", n=18)
    metric = metrics.load(problem, settings.LerayOseen(weigh=False))
    weights = weights_of(problem)
    x = torch.arange(16) * 2 * torch.pi / 16
    zero = torch.zeros(1, 1, 16, 16)
    for l1 in (1, 2, 5):
        for l2 in (1, 3, 7):
            wave = torch.cos(l1 * x + l2 * x[:, None])
            rotation = torch.stack([l2 * wave, -l1 * wave])[None, None]
            energy = metric.energy(NavierStokesResidual(rotation, zero, zero.flatten(2)), x)
            # orthonormal coefficients have the sum of squares, and one of each pair is in the half spectrum
            torch.testing.assert_close(energy[0, 0], weights.mean() * rotation.square().sum() / 2)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.parametrize("n", [16, 17])
def test_the_energy_is_the_published_formula(n, dtype, tolerance):
    """Term by term, with a fast transform, for a half spectrum with and without a Nyquist column."""
    problem = problems.load("navier_stokes", n=n)
    r = NavierStokesResidual(*(block.to(dtype) for block in blocks(problem)))
    metric = metrics.load(problem, settings.LerayOseen())
    m, h = n - 2, 1 / (n - 1)
    k1, k2 = 2 * np.pi * np.fft.rfftfreq(m, h), 2 * np.pi * np.fft.fftfreq(m, h)[:, None]
    square = k1**2 + k2**2
    symbol = np.sqrt((problem.viscosity * square) ** 2 + 3.0**2 * square)
    weight = 1 / (symbol + 0.005 * symbol.max()) / square.size
    length = np.sqrt(np.where(square == 0, 1, square))
    e1, e2, weight = (torch.as_tensor(t, dtype=dtype) for t in (k1 / length, k2 / length, weight))
    first, second = torch.fft.rfft2(r[0], norm="ortho").unbind(-3)

    def power(z):
        return z.real.square() + z.imag.square()

    expected = ((power(first) + power(second) - power(e1 * first + e2 * second)) * weight).sum((-2, -1))
    expected = expected + 0.05 * r[1].square().mean((-2, -1))
    expected = expected + (0 + 1.0 * r[2].square().flatten(2).mean(-1))
    torch.testing.assert_close(metric.energy(r, r[1]), expected, rtol=tolerance, atol=0.0)


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("burgers", settings.InverseLaplacian(), "needs one log-coefficient on the grid"),
        ("navier_stokes", settings.ShiftedLaplacian(shift=1.0), "needs one response"),
        ("diffusion", settings.ShiftedLaplacian(), "no wave number κ .* give `shift`"),
        ("diffusion", settings.LerayOseen(), "needs two scored velocities"),
    ],
)
def test_what_does_not_fit_is_refused(name, chosen, message):
    with pytest.raises(ValueError, match=message):
        metrics.load(reference(name).problem, chosen)


def test_tables_are_converted_once(monkeypatch):
    metric = metrics.load(reference("helmholtz").problem, settings.ShiftedLaplacian())
    r = torch.randn(1, 1, 11, 11, dtype=torch.float32)
    assert metric.at(r)(r).dtype == torch.float32
    monkeypatch.setattr(torch, "from_dlpack", None)  # by which tables become tensors
    metric.at(r)(r)
