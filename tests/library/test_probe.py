"""What the probe measures, against dense matrices: the large operators' way on operators small enough to check."""

import equations
import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from user_problems import fisher_kpp

from stcl import Equation, EquationError, TangentConsistency, probe, problems
from stcl.diagnosis import _spectrum, diagnose, histogram
from stcl.losses import metrics, rule
from stcl.tangent.operator import TangentOperator


@pytest.fixture
def large(monkeypatch):
    """No operator is small enough to be assembled."""
    monkeypatch.setattr(probe, "SMALL", 0)


def dense(problem) -> list[np.ndarray]:
    a, u = problem.states(probe.STATES)
    return [TangentOperator(problem, u[i], a[i]).matrix().numpy() for i in range(len(a))]


@pytest.mark.parametrize("name", ["diffusion", "helmholtz"])
@pytest.mark.usefixtures("large")
def test_condition_numbers_of_elliptic_operators_without_matrices(name):
    problem = problems.load(name, n=13)
    found = probe.probe(problem)
    matrices = dense(problem)
    metric = metrics.load(problem, found.metric)
    a, _ = problem.states(probe.STATES)
    raw = np.median([np.linalg.cond(m) ** 2 for m in matrices])
    weights = [dense_metric(problem, metric, x).numpy() for x in a]
    with_metric = np.median([np.linalg.cond(m.T @ w @ m) for m, w in zip(matrices, weights, strict=True)])
    np.testing.assert_allclose(found.condition_raw, raw, rtol=0.03)
    np.testing.assert_allclose(found.condition_metric, with_metric, rtol=0.03)
    assert not found.condition_raw_is_bound
    assert not found.condition_metric_is_bound
    values = [np.linalg.eigvals(w @ m) for m, w in zip(matrices, weights, strict=True)]
    np.testing.assert_allclose(found.lowest, min(v.real.min() / np.abs(v).max() for v in values), rtol=0.05)
    np.testing.assert_allclose(found.nearest, min(np.abs(v).min() / np.abs(v).max() for v in values), rtol=0.05)


def test_condition_numbers_of_a_saddle_are_of_the_same_unknowns_with_and_without_a_metric():
    """In the velocities, against dense matrices: M is applied to the equations, and the pressure is held."""
    problem = problems.load("navier_stokes", n=8)  # an odd number inside leaves a pressure unseen
    found = probe.probe(problem)
    metric = metrics.load(problem, found.metric)
    a, u = problem.states(probe.STATES)
    raw, weighed, joint = [], [], []
    for i in range(len(a)):
        operator = TangentOperator(problem, u[i], a[i])
        matrix, velocities = operator.matrix().numpy(), 2 * 6 * 6
        identity = torch.eye(len(matrix), dtype=torch.float64)[None]
        applied = metric.at(a[i][None])(operator.unknowns.split(identity))
        m = operator.unknowns.join(applied)[0].numpy()
        columns = matrix[:, :velocities]
        raw.append(np.linalg.cond(columns) ** 2)
        weighed.append(np.linalg.cond(columns.T @ m @ columns))
        joint.append(np.linalg.cond(matrix) ** 2)
    np.testing.assert_allclose(found.condition_raw, np.median(raw), rtol=1e-6)
    np.testing.assert_allclose(found.condition_metric, np.median(weighed), rtol=1e-4)
    np.testing.assert_allclose(found.condition_joint, np.median(joint), rtol=1e-6)
    assert found.condition_metric > found.condition_raw


@pytest.mark.usefixtures("large")
def test_without_a_solver_the_condition_number_is_a_bound():
    equation = equations.benchmark("allen_cahn")
    found = probe.probe(equation)
    exact = np.median([np.linalg.cond(m) ** 2 for m in dense(equation)])
    assert found.condition_raw_is_bound
    assert 0.5 * exact < found.condition_raw < 1.01 * exact


@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("name", sorted(equations.OPTIONS))
def test_the_symmetry_defect_is_that_of_the_matrix(name, assembled, monkeypatch):
    """Without a matrix from eight random sign vectors, up to their spread; the divergence of a saddle changes sign."""
    if not assembled:
        monkeypatch.setattr(probe, "SMALL", 0)
    equation = equations.benchmark(name)
    found = probe.probe(equation, conditions=False).symmetry_defect
    exact = []
    for matrix in dense(equation):
        signed = matrix.copy()
        if name == "navier_stokes":
            signed[200:] *= -1
        exact.append(np.linalg.norm(signed - signed.T) / np.linalg.norm(matrix))
    np.testing.assert_allclose(found, max(exact), rtol=1e-10 if assembled else 0.2, atol=1e-12)


@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_rounding_in_single_precision_is_not_a_symmetry_defect(share, assembled, monkeypatch):
    """A u = a with a dense matrix, whose type keeps the whole residual in single precision.

    Products with a symmetric A and with its transpose then differ by rounding alone, and MINRES may be used.
    """
    if not assembled:
        monkeypatch.setattr(probe, "SMALL", 0)
    root, other = torch.randn(2, 31, 31, generator=torch.Generator().manual_seed(0))
    symmetric, skew = root @ root.T + 31 * torch.eye(31), other - other.T
    matrix = symmetric + share * symmetric.norm() / skew.norm() * skew

    def residual(u, a):
        return u[:, 1:-1] @ matrix.T - a[:, 1:-1]

    u = torch.nn.functional.pad(torch.rand(8, 31), (1, 1))
    a = torch.nn.functional.pad(u[:, 1:-1] @ matrix.T, (1, 1))
    found = probe.probe(Equation(residual, a, u), conditions=False).symmetry_defect
    assert found == (pytest.approx(2 * share, rel=0.3) if share else 0)


def test_target_errors_are_those_of_the_papers_solver():
    """MINRES with this metric, against a dense solve."""
    equation = equations.benchmark("helmholtz")
    found = probe.probe(equation, conditions=False)
    assert [m for m, _ in found.target_errors] == [5, 10, 20]
    errors = [error for _, error in found.target_errors]
    assert errors[0] < 0.01
    assert errors[2] < 1e-3


@pytest.mark.parametrize("name", ["helmholtz", "navier_stokes"])
def test_the_pictures_of_a_large_and_of_a_small_spectrum_agree(name, monkeypatch):
    """Ritz values and weights have the moments of the eigenvalues, and the same range."""
    equation = equations.benchmark(name)
    exact = _spectrum(equation)
    monkeypatch.setattr(probe, "SMALL", 0)
    found = _spectrum(equation)
    for values in (exact, found):
        np.testing.assert_allclose(sum(share for _, share in values), 1)
    ranges = [(min(v for v, _ in values), max(v for v, _ in values)) for values in (exact, found)]
    np.testing.assert_allclose(ranges[1], ranges[0], rtol=0.02)
    means = [sum(v * share for v, share in values) for values in (exact, found)]
    np.testing.assert_allclose(means[1], means[0], rtol=0.15)


def test_the_histogram_counts_both_signs_and_zero():
    lines = histogram([(-50.0, 0.25), (0.0, 0.25), (2.0, 0.5)])
    assert [line.split()[-1] for line in lines] == ["25.00%", "25.00%", "50.00%"]
    assert "-1.0e+02 …  -3.2e+01" in lines[0]
    assert "1.0e+00 …   3.2e+00" in lines[2]
    assert lines[2].count("█") == 2 * lines[0].count("█")


def test_a_probe_gives_the_same_numbers_twice():
    equation = equations.benchmark("diffusion")
    torch.manual_seed(1)
    first = probe.probe(equation)
    torch.manual_seed(2)
    again = probe.probe(equation)
    for field in ("condition_raw", "condition_metric", "lowest", "nearest", "symmetry_defect", "alignment"):
        assert getattr(again, field) == pytest.approx(getattr(first, field), rel=1e-9)
    assert rule.choose(again)[0].solver == rule.choose(first)[0].solver


@pytest.mark.parametrize("equation", [equations.poisson, lambda: fisher_kpp().equation(count=1)])
def test_a_diagnosis_leaves_the_random_numbers_of_torch_alone(equation):
    """Also where a single state has no differences, and directions are white noise."""
    made, before = equation(), torch.get_rng_state()
    diagnose(made)
    assert torch.equal(torch.get_rng_state(), before)


def difference(f, axis, n):
    return (f.roll(-1, axis) - f.roll(1, axis)) * n / 2


def periodic_stokes(u, a):
    """−Δy + ∇p − a and ∇·y on a periodic square of n × n nodes, u = (y1, y2, p)."""
    y, p, n = u[:, :2], u[:, 2], u.shape[-1]
    bent = 4 * y - sum(y.roll(shift, axis) for shift in (1, -1) for axis in (-1, -2))
    gradient = torch.stack([difference(p, -2, n), difference(p, -1, n)], 1)
    return n**2 * bent + gradient - a, difference(y[:, 0], -2, n) + difference(y[:, 1], -1, n)


class PeriodicFlow(torch.nn.Module):
    """The exact solution for loads without a mean, mode by mode; the weight makes it a model."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, a):
        n = a.shape[-1]
        angle = 2 * torch.pi * torch.fft.fftfreq(n, dtype=torch.float64)
        waves = torch.stack(torch.meshgrid(1j * n * angle.sin(), 1j * n * angle.sin(), indexing="ij"))
        bent = 2 * n**2 * ((1 - angle.cos())[:, None] + 1 - angle.cos())
        square = waves.abs().square().sum(0)
        load = torch.fft.fft2(a)
        p = -(waves * load).sum(1) / torch.where(square > 1e-9, square, torch.inf)
        y = (load - waves * p[:, None]) / torch.where(bent > 1e-9, bent, torch.inf)
        return self.weight * torch.fft.ifft2(torch.cat([y, p[:, None]], 1)).real


def test_a_periodic_flow_is_refused_and_the_advice_works():
    """The metric is for walls. The exact solution has no loss with the form that is named instead."""
    n, exact = 16, PeriodicFlow()
    x = torch.arange(n, dtype=torch.float64) / n
    parts = [torch.sin(2 * torch.pi * (k * x[:, None] + m * x) + k) for k, m in ((1, 0), (0, 1), (1, 2), (2, -1))]
    shares = torch.randn(4, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = torch.einsum("bfk,kij->bfij", shares, torch.stack(parts))
    u = exact(a).detach()
    with pytest.raises(EquationError, match=r"14 × 14 nodes inside the grid .* got 256 .*form='normalized_residual'"):
        probe.probe(Equation(periodic_stokes, a, u))

    def stacked(u, a):
        momentum, divergence = periodic_stokes(u, a)
        return torch.cat([momentum, divergence[:, None]], 1)

    loss = TangentConsistency(Equation(stacked, a, u), form="normalized_residual")
    loss(exact, a, u)
    assert loss.last.derivative < 1e-24


POISSON_BLOCKS = {
    "walls": lambda u, a: (bent(u) - a[:, 1:-1], torch.stack([u[:, 0], u[:, -1]], 1)),
    "single": lambda u, a: (bent(u) - a[:, 1:-1], u[:, :1], u[:, -1:]),
    "fields": lambda u, a: (bent(u[:, 0]) - a[:, 1:-1], bent(u[:, 1]) - 2 * a[:, 1:-1]),
    "in time": lambda u, a: ((u[:, 1:] - u[:, :-1]) * 8 - a[:, 1:], u[:, :1]),
}


def bent(u):
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 64


@pytest.mark.parametrize("blocks", POISSON_BLOCKS)
@pytest.mark.parametrize("form", ["auto", "residual"])
def test_blocks_that_are_no_saddle_are_refused_with_what_to_do(blocks, form):
    shape = (2, 9) if blocks == "fields" else (9,)
    a, u = equations.smooth(4, 9), equations.walled(4, *shape, axes=1)
    equation = Equation(POISSON_BLOCKS[blocks], a, u, time_axis=0 if blocks == "in time" else None, check=False)
    model = torch.nn.Sequential(torch.nn.Linear(9, u[0].numel()), torch.nn.Unflatten(1, shape)).double()
    with pytest.raises(EquationError, match=r"stack the equations of several fields .* leave equations of walls out"):
        TangentConsistency(equation, form=form)(model, a, u)


@pytest.mark.parametrize("gauge", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_saddle_may_have_its_divergence_at_all_nodes_and_a_gauge(everywhere, gauge):
    """Velocities are scored, whatever nodes the blocks have; the metric's numbers are those of the momentum."""
    made = equations.stokes(9)
    a, u = made.states(4)

    def residual(u, a):
        momentum, divergence, boundary = made.function(u, a)
        if everywhere:
            slopes = [torch.gradient(u[:, i], spacing=1 / 8, dim=i + 1)[0] for i in range(2)]
            divergence = slopes[0] + slopes[1]
        return momentum, divergence, boundary, *([u[:, 2].mean((1, 2))[:, None]] if gauge else [])

    equation = Equation(residual, a, u, saddle=True, check=False)
    assert equation.layout.scored == ("u1", "u2")
    found, expected = (probe.probe(e, conditions=False).metric for e in (equation, made))
    assert found.viscosity == pytest.approx(expected.viscosity, rel=1e-10)
    metrics.load(equation, found)
