"""The solvers against scipy's on dense systems, and where others break down."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch

from stcl.tangent import krylov

N = 24
SPECTRA = {
    "definite": np.linspace(1, 50, N),
    "indefinite": np.concatenate([np.linspace(-20, -2, 5), np.linspace(1, 50, N - 5)]),
    "near-singular": np.concatenate([[1e-6, -3.0], np.linspace(1, 50, N - 2)]),
}
PAIRS = [("minres", k) for k in SPECTRA] + [("cg", "definite")]
ALL_PAIRS = PAIRS + [("gmres", k) for k in SPECTRA]  # scipy's gmres gives no iterates to compare with


def systems(kind: str, count: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Symmetric matrices [count, N, N] of a given spectrum, right-hand sides [count, 2, N], a positive diagonal."""
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((count, N, N)))[0]
    matrices = (q * SPECTRA[kind]) @ q.transpose(0, 2, 1)
    return tuple(map(torch.as_tensor, (matrices, rng.standard_normal((count, 2, N)), rng.uniform(0.5, 2, N))))


def solve(name: str, matrices, g, diagonal, steps: int) -> krylov.Solution:
    def operator(x):
        return (matrices[:, None] @ x[..., None])[..., 0]

    return getattr(krylov, name)(operator, g, lambda r: diagonal * r, steps=steps, axes=1)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_every_step_is_scipys(name, kind, steps):
    matrices, g, diagonal = systems(kind)
    ours = solve(name, matrices, g, diagonal, steps)
    for i in range(len(g)):
        for k in range(2):
            theirs = []
            getattr(scipy.sparse.linalg, name)(
                matrices[i].numpy(),
                g[i, k].numpy(),
                M=np.diag(diagonal.numpy()),
                maxiter=steps,
                rtol=0.0,
                callback=lambda x, kept=theirs: kept.append(x.copy()),
            )
            np.testing.assert_allclose(ours.x[i, k], theirs[-1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("name", "kind"), ALL_PAIRS)
def test_many_steps_solve_and_the_residual_is_that_of_x(name, kind):
    matrices, g, diagonal = systems(kind)
    exact = torch.linalg.solve(matrices, g.mT).mT
    solution = solve(name, matrices, g, diagonal, steps=6 * N)
    # a residual of rounding, 1e-15, means an error of up to the condition number times that
    tolerance = 1e-6 if kind == "near-singular" else 1e-11
    assert ((solution.x - exact).norm(dim=-1) / exact.norm(dim=-1)).max() < tolerance
    for steps in (1, 4, 8):
        x, residual, solved = solve(name, matrices, g, diagonal, steps)
        assert solved.all()
        left = g - (matrices[:, None] @ x[..., None])[..., 0]
        torch.testing.assert_close(residual, left.norm(dim=-1) / g.norm(dim=-1))


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_gmres_leaves_the_smallest_residual_of_its_space(steps):
    """Over the span of M (A M)^k g, k < m, found by least squares."""
    rng = np.random.default_rng(3)
    matrices = torch.as_tensor(np.diag(np.linspace(-5, 20, N)) + rng.standard_normal((3, N, N)))
    g, diagonal = torch.as_tensor(rng.standard_normal((3, 2, N))), torch.as_tensor(rng.uniform(0.5, 2, N))
    ours = solve("gmres", matrices, g, diagonal, steps)
    for i in range(3):
        a, m = matrices[i].numpy(), diagonal.numpy()
        for k in range(2):
            space = [m * g[i, k].numpy()]
            for _ in range(steps - 1):
                space.append(m * (a @ space[-1]))
                space[-1] /= np.linalg.norm(space[-1])
            images = a @ np.array(space).T
            best = np.array(space).T @ np.linalg.lstsq(images, g[i, k].numpy(), rcond=None)[0]
            np.testing.assert_allclose(ours.x[i, k], best, rtol=1e-6, atol=1e-8)


def test_a_non_symmetric_system_needs_gmres():
    rng = np.random.default_rng(2)
    matrices = torch.as_tensor(np.diag(np.linspace(1, 20, N)) + rng.standard_normal((3, N, N)))
    g, identity = torch.as_tensor(rng.standard_normal((3, 2, N))), torch.ones(N)
    exact = torch.linalg.solve(matrices, g.mT).mT
    errors = {
        name: float((solve(name, matrices, g, identity, 3 * N).x - exact).norm() / exact.norm())
        for name in ("minres", "gmres")
    }
    assert errors["gmres"] < 1e-10
    assert errors["minres"] > 0.1


@pytest.mark.parametrize("name", ["minres", "cg", "gmres"])
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_a_zero_right_hand_side_stays_zero_and_leaves_the_others_alone(name, steps):
    matrices, g, diagonal = systems("definite")
    alone = solve(name, matrices, g, diagonal, steps)
    g = g.clone()
    g[1, 0] = 0
    solution = solve(name, matrices, g, diagonal, steps)
    assert solution.x[1, 0].abs().max() == 0
    assert solution.residual[1, 0] == 0
    assert solution.solved[1, 0]
    others = torch.tensor([[True, True], [False, True], [True, True]])
    assert torch.equal(solution.x[others], alone.x[others])


@pytest.mark.parametrize(("name", "kind"), ALL_PAIRS)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("steps", [5, 500])
def test_float32_at_any_scale_never_overflows(name, kind, scale, steps):
    matrices, g, diagonal = systems(kind)
    exact = torch.linalg.solve(matrices, g.mT).mT
    steps = min(steps, 2 * N) if name == "gmres" else steps  # its space is full after N
    x, residual, _ = solve(name, matrices.float(), (scale * g).float(), diagonal.float(), steps)
    assert torch.isfinite(x).all()
    assert residual.max() < 1.5
    if steps > N and kind == "definite":
        assert ((x.double() / scale - exact).norm(dim=-1) / exact.norm(dim=-1)).max() < 1e-4


@pytest.mark.parametrize(("name", "kind"), ALL_PAIRS)
def test_an_eigenvector_is_solved_in_one_step(name, kind):
    """The Krylov space ends there: recurrences divide by zero."""
    matrices, _, _ = systems(kind)
    g = torch.linalg.eigh(matrices)[1][:, :, -1:].mT.expand(-1, 2, -1).contiguous()
    for steps in (1, 3):
        solution = solve(name, matrices, g, torch.ones(N), steps)
        torch.testing.assert_close(solution.x, g / SPECTRA[kind].max(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["minres", "cg", "gmres"])
def test_a_system_that_cannot_be_solved_is_named_and_leaves_the_others_alone(name):
    """One matrix is not finite: its x is finite all the same, so that a loss can leave it out by a weight of zero."""
    matrices, g, diagonal = systems("definite")
    alone = solve(name, matrices, g, diagonal, 5)
    matrices = matrices.clone()
    matrices[1, 3, 4] = torch.nan
    solution = solve(name, matrices, g, diagonal, 5)
    assert solution.solved.tolist() == [[True, True], [False, False], [True, True]]
    assert torch.equal(solution.x[[0, 2]], alone.x[[0, 2]])
    assert torch.isfinite(solution.x).all()


def test_cg_does_not_call_a_blown_up_system_solved():
    """Of an A that is not definite a step may meet next to no curvature, and x is a million times too large."""
    matrices = torch.diag(torch.tensor([1.0, -1 + 1e-6, *[1.0] * (N - 2)]))[None]
    g = torch.zeros(1, 2, N)
    g[..., :2] = 1.0
    g[0, 1, 1] = 0.0
    solution = solve("cg", matrices, g, torch.ones(N), 1)
    assert solution.solved.tolist() == [[False, True]]
    assert solution.x[0, 0].abs().max() == 0


def test_cg_names_systems_of_negative_curvature():
    """For g along an eigenvector the sign of the eigenvalue decides."""
    values, vectors = torch.linalg.eigh(systems("indefinite")[0][0])
    g = vectors[:, [0, -1]].mT[None]
    solution = solve("cg", systems("indefinite")[0][:1], g, torch.ones(N), 3)
    assert solution.solved.tolist() == [[bool(values[0] > 0), bool(values[-1] > 0)]] == [[False, True]]


def test_gmres_gives_zero_where_the_residual_grew():
    """Of a singular A in single precision x becomes so large that some residuals are rounding, above the start's."""
    diagonal = torch.linspace(1, 2, N, dtype=torch.float32)
    diagonal[0] = 0.0
    g = torch.randn(1024, 1, N, dtype=torch.float32)
    x, residual, solved = krylov.gmres(lambda x: diagonal * x, g, lambda r: r, steps=40, axes=1)
    assert solved.any()
    assert not solved.all()
    assert (x[~solved] == 0).all()
    assert (residual[~solved] == 1).all()
    assert (residual[solved] <= 1.01).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gmres_survives_zeros_and_an_exhausted_space(dtype):
    """g = 0; g in a space of two dimensions; a singular operator. The others do not notice."""
    diagonal = torch.linspace(1, 2, N).repeat(4, 1)
    diagonal[3, 0] = 0.0
    g = torch.randn(4, 1, N)
    g[0], g[1, :, 2:] = 0.0, 0.0
    diagonal, g = diagonal.to(dtype), g.to(dtype)
    # In single precision, more steps make the singular system's x so large that its residual is rounding.
    steps = 8 if dtype == torch.float32 else 12
    found = krylov.gmres(lambda x: diagonal[:, None] * x, g, lambda r: r, steps=steps, axes=1)
    small = 1e-4 if dtype == torch.float32 else 1e-8
    assert found.solved.all()
    assert (found.x[0] == 0).all()
    assert found.residual[0] == 0
    torch.testing.assert_close(found.x[1:3], g[1:3] / diagonal[1:3, None], rtol=small, atol=small)
    assert found.residual[3] == pytest.approx(float(g[3, 0, 0].abs() / g[3].norm()), rel=0.01)
