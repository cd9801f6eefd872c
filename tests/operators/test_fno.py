"""The fast FNO is the textbook FNO: value, tangents and gradients of a tangent loss, to rounding."""

import copy

import pytest
import torch
from textbook import TextbookFNO, loop_of_jvps, textbook_of, textbook_weights
from torch import Tensor
from torch.autograd import forward_ad

from stcl.operators.fno import FNO

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}

# nx, ny, modes, c_in, c_out, q, directions
CASES = [
    (9, 9, 3, 3, 1, 4, "shared"),
    (8, 12, 4, 3, 1, 1, "per sample"),
    (13, 6, 4, 4, 3, 2, "per sample"),  # modes reach the Nyquist column
    (6, 11, 3, 4, 3, 8, "shared"),  # modes reach every row
    (8, 9, 3, 3, 1, 3, "per sample, constant in x"),
    (9, 8, 3, 2, 2, 5, "shared, constant in y"),
]


def draw(case: tuple, width: int = 6, head: int = 10) -> tuple[FNO, Tensor, Tensor]:
    nx, ny, modes, c_in, c_out, q, kind = case
    network = FNO(c_in, c_out, width, modes, 3, head)
    for parameter in network.parameters():  # default spectral weights are so small that an error in them could hide
        parameter.data.copy_(1.2 / width**0.5 * torch.randn(parameter.shape))
    nodes = (1 if "in x" in kind else nx, 1 if "in y" in kind else ny)
    lead = (3, q) if "per sample" in kind else (q,)
    return network, torch.randn(3, nx, ny, c_in), torch.randn(*lead, *nodes, c_in)


def gradients(network: torch.nn.Module, y: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """Of a loss in which value and tangents are coupled, as in a tangent residual."""
    weight = torch.linspace(-1, 1, dy.numel()).reshape(dy.shape)
    loss = (weight * dy * y.unsqueeze(1)).sum() + dy.square().sum() + y.pow(3).sum()
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("width", [6, 37])  # less and more than the vectors of a processor
@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_function_as_textbook(case: tuple, width: int, passes: str) -> None:
    network, x, dx = draw(case, width, width + 4)
    textbook = textbook_of(network)
    y, dy = network.value_and_tangents(x, dx)
    full = dx.expand(*dx.shape[: dx.ndim - 3], *x.shape[1:])
    expected, tangents = loop_of_jvps(textbook, x, full)
    torch.testing.assert_close(network(x), expected, **TOLERANCE)
    torch.testing.assert_close(y, expected, **TOLERANCE)
    torch.testing.assert_close(dy, tangents, **TOLERANCE)
    ours = textbook_weights(network, gradients(network, y, dy))
    for name, gradient in gradients(textbook, expected, tangents).items():
        scale = gradient.abs().max()
        torch.testing.assert_close(ours[name] / scale, gradient.reshape(ours[name].shape) / scale, **TOLERANCE)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_value_alone(case: tuple, passes: str) -> None:
    """Without directions: the value, its gradients in weights and input, and the value without gradients."""
    network, x, _ = draw(case)
    textbook = textbook_of(network)
    x.requires_grad_()
    expected, y = textbook(x), network(x)
    torch.testing.assert_close(y, expected, **TOLERANCE)
    with torch.no_grad():
        torch.testing.assert_close(network(x), expected, **TOLERANCE)

    def bars(module: torch.nn.Module, y: Tensor) -> dict[str, Tensor]:
        named = {"x": x} | dict(module.named_parameters())
        return dict(zip(named, torch.autograd.grad(y.pow(3).sum(), list(named.values())), strict=True))

    ours = textbook_weights(network, bars(network, y))
    for name, gradient in bars(textbook, expected).items():
        scale = gradient.abs().max()
        torch.testing.assert_close(ours[name] / scale, gradient.reshape(ours[name].shape) / scale, **TOLERANCE)


def test_gradients_of_gradients(passes: str) -> None:
    """Of the value and of tangents: autograd differentiates the backward pass again."""
    network, x, dx = draw(CASES[4])
    network.requires_grad_(False)
    assert torch.autograd.gradgradcheck(lambda x: network(x).pow(2).sum(), (x.requires_grad_(),), fast_mode=True)
    both = lambda x, dx: sum(out.pow(2).sum() for out in network.value_and_tangents(x, dx))  # noqa: E731
    assert torch.autograd.gradgradcheck(both, (x, dx.requires_grad_()), fast_mode=True)


def test_every_transform_applies_to_the_value() -> None:
    """vmap over inputs, forward over reverse, and dual numbers: each against plain loops or differences."""
    network, x, dx = draw(CASES[1])
    network.requires_grad_(False)
    single = torch.func.vmap(lambda a: network(a.unsqueeze(0)).squeeze(0))(x)
    torch.testing.assert_close(single, network(x), **TOLERANCE)
    loss = lambda a: network(a).pow(2).sum()  # noqa: E731
    _, curved = torch.func.jvp(torch.func.grad(loss), (x,), (dx[:, 0],))
    step = 1e-5
    difference = (torch.func.grad(loss)(x + step * dx[:, 0]) - torch.func.grad(loss)(x - step * dx[:, 0])) / (2 * step)
    torch.testing.assert_close(curved, difference, rtol=1e-6, atol=1e-8)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(network(forward_ad.make_dual(x, dx[:, 0]))).tangent
    torch.testing.assert_close(tangent, network.value_and_tangents(x, dx)[1][:, 0], **TOLERANCE)


def test_gradient_against_double_backward(passes: str) -> None:
    """Tangents by reverse mode twice, with no forward mode anywhere: w = ∂/∂c ⟨vjp(c), v⟩."""
    network, x, dx = draw(CASES[2])
    textbook = textbook_of(network)
    x.requires_grad_()
    y = textbook(x)
    cotangent = torch.zeros_like(y, requires_grad=True)
    (pulled,) = torch.autograd.grad(y, x, cotangent, create_graph=True)
    tangents = [torch.autograd.grad((pulled * v).sum(), cotangent, create_graph=True)[0] for v in dx.unbind(1)]
    expected = gradients(textbook, y, torch.stack(tangents, 1))
    found = gradients(network, *network.value_and_tangents(x.detach(), dx))
    for name, gradient in textbook_weights(network, found).items():
        scale = gradient.abs().max()
        torch.testing.assert_close(gradient / scale, expected[name].reshape(gradient.shape) / scale, **TOLERANCE)


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=str)
def test_gradient_with_respect_to_input_and_directions(case: tuple, passes: str) -> None:
    network, x, dx = draw(case)

    def loss(x: Tensor, dx: Tensor) -> Tensor:
        y, dy = network.value_and_tangents(x, dx)
        return (y.unsqueeze(1) * dy).sum()

    assert torch.autograd.gradcheck(loss, (x.requires_grad_(), dx.requires_grad_()), fast_mode=True)


def test_first_order_taylor() -> None:
    """u(a + εv) = u + ε w + O(ε²): halving ε quarters the remainder."""
    network, x, dx = draw(CASES[1])
    with torch.no_grad():
        y, dy = network.value_and_tangents(x, dx)
        remainders = [(network(x + e * dx[:, 0]) - y - e * dy[:, 0]).norm().item() for e in (2e-4, 1e-4)]
    assert remainders[0] / remainders[1] == pytest.approx(4, rel=1e-2)


@pytest.mark.parametrize("init", ["normal", "uniform"])
def test_initial_weights_are_the_published_ones(init: str) -> None:
    """Same draws in the same order as the published network, which has 1x1 convolutions."""
    torch.manual_seed(3)
    ours = textbook_weights(FNO(3, 1, width=8, modes=3, layers=2, head=16, init=init))
    torch.manual_seed(3)
    published = TextbookFNO(3, 1, width=8, modes=3, layers=2, head=16, init=init).state_dict()
    assert list(ours) == list(published)
    assert all(torch.equal(ours[name].flatten(), w.flatten()) for name, w in published.items())


@pytest.mark.parametrize(("modes", "c_in", "c_out", "count"), [(8, 3, 1, 1_057_281), (12, 4, 3, 2_368_291)])
def test_number_of_parameters(modes: int, c_in: int, c_out: int, count: int) -> None:
    assert sum(p.numel() for p in FNO(c_in, c_out, 32, modes, 4, 128).parameters()) == count


def test_weights_survive_copies_and_files(tmp_path) -> None:
    network, x, _ = draw(CASES[0])
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    loaded = FNO(3, 1, width=6, modes=3, layers=3, head=10)
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(loaded(x), network(x))
    assert torch.equal(copy.deepcopy(network)(x), network(x))


def test_evaluates_on_another_grid() -> None:
    """A band-limited input sampled on two grids: layer by layer the same function where the nodes coincide.

    One linear spectral layer commutes with sampling exactly; GELU aliases, by less the finer the grid.
    """
    network = FNO(1, 1, width=4, modes=2, layers=2, head=6)

    def response(n: int) -> Tensor:
        grid = torch.arange(n) / n
        wave = torch.sin(2 * torch.pi * grid)[:, None] * torch.cos(2 * torch.pi * grid)
        return network(wave[None, ..., None])[0, :: n // 16, :: n // 16, 0]

    coarse, fine, finest = response(16), response(32), response(64)
    # ortho transforms scale modes by the number of nodes both ways, so that values do not depend on the grid
    torch.testing.assert_close(fine, finest, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(coarse, finest, rtol=1e-3, atol=1e-5)


def test_result_does_not_depend_on_the_batch() -> None:
    network, x, dx = draw(CASES[0])
    y, dy = network.value_and_tangents(x, dx)
    for i in range(len(x)):
        yi, dyi = network.value_and_tangents(x[i : i + 1], dx)
        torch.testing.assert_close(yi[0], y[i], **TOLERANCE)
        torch.testing.assert_close(dyi[0], dy[i], **TOLERANCE)


def test_deterministic(passes: str) -> None:
    network, x, dx = draw(CASES[0])
    first, second = (gradients(network, *network.value_and_tangents(x, dx)) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("width", [6, 37])
def test_single_precision_agrees_with_double(width: int, passes: str) -> None:
    network, x, dx = draw(CASES[3], width, 2 * width)
    y, dy = network.value_and_tangents(x, dx)
    y32, dy32 = network.float().value_and_tangents(x.float(), dx.float())
    assert (y32 - y).norm() / y.norm() < 1e-5
    assert (dy32 - dy).norm() / dy.norm() < 1e-5


def test_matrices_built_inside_a_transform_can_be_used_outside() -> None:
    """They are cached: nothing of the context of the first call may stay with them."""
    network = FNO(1, 1, width=4, modes=2, layers=2, head=6)
    x = torch.randn(2, 7, 10, 1)
    _, inside = torch.func.jvp(network, (x,), (x,))
    with torch.inference_mode():
        network(x[:, :6])
    y, dy = network.value_and_tangents(x, x.unsqueeze(1))
    (y.sum() + dy.sum()).backward()
    torch.testing.assert_close(dy[:, 0], inside, **TOLERANCE)
    network(x[:, :6]).sum().backward()


@pytest.mark.parametrize("grid", [(7, 16), (8, 5)])
def test_refuses_a_grid_too_small_for_the_modes(grid: tuple[int, int]) -> None:
    network = FNO(3, 1, width=4, modes=4, layers=2, head=6)
    x = torch.randn(1, *grid, 3)
    with pytest.raises(ValueError, match=f"4 modes need a grid of at least 8 x 6 nodes, got {grid[0]} x {grid[1]}"):
        network(x)
    with pytest.raises(ValueError, match="use fewer modes or a finer grid"):
        network.value_and_tangents(x, x)


def test_refuses_an_unknown_initialisation() -> None:
    with pytest.raises(ValueError, match="init must be"):
        FNO(3, 1, init="xavier")
