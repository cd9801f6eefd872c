"""Transforms, the operator's own diagonal, the fit, and the metric made of them, against dense matrices."""

import numpy as np
import pytest
import torch
from dense_metric import dense_metric
from reference import reference

from stcl import problems
from stcl.core.layout import Layout
from stcl.losses import forms, metrics, settings
from stcl.losses.metrics.fitted_laplacian import complete
from stcl.tangent.laplacian_fit import fit_laplacian
from stcl.tangent.operator import TangentOperator
from stcl.tangent.stencil import diagonal
from stcl.tangent.transforms import KINDS, basis, laplacian_diagonal


def second_difference(kind: str, m: int) -> np.ndarray:
    matrix = 2 * np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1)
    if kind == "cosine":
        matrix[0, 0] = matrix[-1, -1] = 1
    if kind == "fourier":
        matrix[0, -1] = matrix[-1, 0] = -1
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [5, 8])
def test_modes_are_orthonormal_eigenvectors(kind, m):
    modes, values = basis(kind, m)
    np.testing.assert_allclose(modes @ modes.T, np.eye(m), atol=1e-14)
    np.testing.assert_allclose(modes @ second_difference(kind, m) @ modes.T, np.diag(values), atol=1e-13)
    assert (np.diff(values) > -1e-14).all()


def test_the_diagonal_of_a_fitted_laplacian():
    kinds, weights = ("cosine", "sine"), (3.0, 0.5)
    matrix = 3 * np.kron(second_difference("cosine", 5), np.eye(6)) + 0.5 * np.kron(
        np.eye(5), second_difference("sine", 6)
    )
    expected = (np.diag(matrix) + 0.7).reshape(5, 6)
    np.testing.assert_allclose(laplacian_diagonal(kinds, weights, 0.7, (5, 6)), expected)


@pytest.mark.parametrize("name", ["diffusion", "helmholtz"])
def test_the_operators_diagonal_is_that_of_its_matrix(name):
    ref = reference(name)
    found = diagonal(ref.problem, ref.u, ref.a, torch.Size((11, 11)))
    for i in range(3):
        matrix = TangentOperator(ref.problem, ref.u[i], ref.a[i]).matrix()
        torch.testing.assert_close(found[i].flatten(), matrix.diagonal())


@pytest.mark.parametrize(
    "grids",
    [[(n,) for n in range(5, 40)], [(n, m) for n in (5, 6, 9, 11) for m in (5, 6, 8, 11)], [(5, 6, 8), (8, 5, 5)]],
    ids=["1d", "2d", "3d"],
)
def test_the_diagonal_on_periodic_grids_of_any_size(grids):
    """The first and the last node of an axis are neighbours, too, and must not be probed together."""
    for nodes in grids:
        axes = tuple("xyz"[: len(nodes)])
        size = int(np.prod(nodes))
        matrix = torch.zeros(size, size)
        index = torch.arange(size).reshape(nodes)
        matrix[index.flatten(), index.flatten()] = torch.rand(size)
        for axis in range(len(nodes)):
            for shift in (1, -1):
                matrix[index.flatten(), index.roll(shift, axis).flatten()] = torch.rand(size)

        class Periodic:
            layout = Layout(
                axes,
                tuple(np.arange(n) / n for n in nodes),
                (1.0,) * len(nodes),
                ("a",),
                ("u",),
                (*axes, "a"),
                axes,
                ("u",),
            )

            def residual(self, u, a, matrix=matrix):
                return (u.flatten(1) @ matrix.T).reshape(u.shape) - a

        found = diagonal(Periodic(), torch.rand(1, *nodes), torch.rand(1, *nodes), torch.Size(nodes))
        torch.testing.assert_close(found.flatten(), matrix.diagonal())


class TwoSpecies:
    """−3 u1'' + u1 u2 and −u2'' + u2² with walls: fields of their own."""

    layout = type(problems.load("diffusion", n=9).layout)(
        ("x",), (np.linspace(0, 1, 9),), (1.0,), ("a",), ("u1", "u2"), ("x", "a"), ("x",), ("u1", "u2")
    )

    def residual(self, u, a):
        bent = -(u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2])
        inner = u[..., 1:-1]
        reaction = torch.stack([inner[:, 0] * inner[:, 1], inner[:, 1] ** 2], 1)
        return torch.tensor([3.0, 1.0])[:, None] * bent + reaction - a[:, None, 1:-1]


def test_the_diagonal_of_several_fields():
    u, a = torch.randn(2, 2, 9), torch.randn(2, 9)
    found = diagonal(TwoSpecies(), u, a, torch.Size((2, 7)))
    expected = torch.stack([6 + u[:, 1, 1:-1], 2 + 2 * u[:, 1, 1:-1]], 1)
    torch.testing.assert_close(found, expected)


def test_the_metric_is_the_dense_matrix():
    """With a diagonal that follows the input, at the mean response of the first four states."""
    ref = reference("diffusion", count=4)
    chosen = settings.FittedLaplacian(transforms=["sine", "sine"], weights=[100.0, 150.0], shift=2.0, scaled=True)
    metric = metrics.load(ref.problem, chosen)
    inner = 100 * np.kron(second_difference("sine", 11), np.eye(11)) + 150 * np.kron(
        np.eye(11), second_difference("sine", 11)
    )
    inner += 2 * np.eye(121)
    for a in ref.a[:2]:
        own = TangentOperator(ref.problem, ref.u.mean(0), a).matrix().diagonal().numpy()
        scale = (own / np.diag(inner)) ** -0.5
        expected = scale[:, None] * np.linalg.inv(inner) * scale
        np.testing.assert_allclose(dense_metric(ref.problem, metric, a), expected, rtol=1e-9, atol=1e-14)
    r = torch.randn(2, 3, 11, 11)
    applied = metric.at(ref.a[:2])(r)
    torch.testing.assert_close(metric.energy(r, ref.a[:2]), (r * applied).flatten(2).sum(-1))
    torch.testing.assert_close(metric.inverse_at(ref.a[:2])(applied), r)


@pytest.mark.parametrize("kinds", [["fourier"], ["cosine"], ["sine", "fourier", "cosine"]])
def test_any_number_of_axes(kinds):
    nodes = (6, 5, 7)[: len(kinds)]

    class Any:
        layout = type(problems.load("diffusion", n=9).layout)(
            tuple("xyz"[: len(nodes)]),
            tuple(np.linspace(0, 1, n) for n in nodes),
            (1.0,) * len(nodes),
            ("a",),
            ("u",),
            (*"xyz"[: len(nodes)], "a"),
            tuple("xyz"[: len(nodes)]),
            ("u",),
        )

        def states(self, count):
            return torch.ones(1, *nodes), torch.ones(1, *nodes)

        def residual(self, u, a):
            return u - a

    weights = [2.0, 3.0, 5.0][: len(nodes)]
    chosen = settings.FittedLaplacian(transforms=kinds, weights=weights, shift=0.5, scaled=False)
    equation = Any()
    metric = metrics.load(equation, chosen)
    matrix = np.array(0.5 * np.eye(int(np.prod(nodes))))
    for axis, (kind, weight) in enumerate(zip(kinds, weights, strict=True)):
        left, right = np.eye(int(np.prod(nodes[:axis]))), np.eye(int(np.prod(nodes[axis + 1 :])))
        matrix += weight * np.kron(np.kron(left, second_difference(kind, nodes[axis])), right)
    found = dense_metric(equation, metric, torch.ones(nodes))
    np.testing.assert_allclose(found, np.linalg.inv(matrix), atol=1e-12)


def test_what_is_left_out_is_fitted_and_what_is_given_stays():
    problem = reference("helmholtz").problem
    fitted = complete(problem, settings.FittedLaplacian())
    assert fitted.transforms == ["sine", "sine"]
    np.testing.assert_allclose(fitted.weights, 144, rtol=0.01)
    assert complete(problem, settings.FittedLaplacian(shift=99.0)).shift == 99.0
    assert complete(problem, fitted) is fitted


def test_targets_with_the_fitted_metric_solve_helmholtz():
    ref = reference("helmholtz")
    form = forms.load(ref.problem, settings.KrylovTarget(metric=settings.FittedLaplacian(), steps=15))
    assert float(form(ref.a, ref.u, ref.v, ref.w, label=ref.u)) < 1e-16 * float(ref.w.square().mean())


def test_a_diagonal_that_probing_cannot_see_is_not_used():
    """A spectral derivative couples all nodes: its probed diagonal is wrong, and left alone."""

    class Spectral:
        layout = problems.load("allen_cahn", nx=16, nt=8).layout

        def residual(self, u, a):
            k = 2 * torch.pi * torch.fft.fftfreq(16, 1 / 16)
            bent = torch.fft.ifft(k**2 * torch.fft.fft(u)).real
            return (1 + a[:, None] ** 2) * bent + u

    a, u = torch.randn(1, 16), torch.randn(1, 8, 16)
    assert fit_laplacian([TangentOperator(Spectral(), u[0], a[0])]).scaled is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [1.0]}, "a weight and a transform for each of the axes"),
        ({"weights": [0.0, 0.0]}, "is not positive"),
    ],
)
def test_settings_that_make_no_metric_are_refused(changes, message):
    given = settings.FittedLaplacian(transforms=["sine", "sine"], weights=[1.0, 1.0], shift=0.0, scaled=False)
    with pytest.raises(ValueError, match=message):
        metrics.load(reference("diffusion").problem, given.model_copy(update=changes))
