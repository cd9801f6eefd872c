"""Any torch module can be the surrogate: the generic path against finite differences, over a table of networks."""

import pytest
import torch
from textbook import TextbookFNO, loop_of_jvps
from torch import Tensor, nn

from stcl.operators.fno import FNO
from stcl.operators.forward_mode import value_and_tangents

GRID = (8, 9)


class DeepONet(nn.Module):
    """Σ_k branch_k(input at all nodes) trunk_k(coordinates), for x [B, nx, ny, 3] = (coordinates, input)."""

    def __init__(self, grid: tuple[int, int], rank: int = 5) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(grid[0] * grid[1], 12), nn.Tanh(), nn.Linear(12, rank))
        self.trunk = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, rank))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bk,bxyk->bxy", self.branch(x[..., 2].flatten(1)), self.trunk(x[..., :2])).unsqueeze(-1)


class ForwardOnly(nn.Module):
    """The package's FNO without its own tangents."""

    def __init__(self) -> None:
        super().__init__()
        self.network = FNO(3, 1, width=5, modes=3, layers=2, head=8)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


def neuraloperator_fno() -> nn.Module:
    models = pytest.importorskip("neuralop.models", reason="neuraloperator is not installed")
    network = models.FNO(n_modes=(4, 4), in_channels=3, out_channels=1, hidden_channels=5, n_layers=2)

    class ChannelsLast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x.movedim(-1, 1)).movedim(1, -1)

    return ChannelsLast().float()  # its transforms are single precision whatever the weights are


NETWORKS = {
    "deeponet": lambda: DeepONet(GRID),
    "textbook": lambda: TextbookFNO(3, 1, width=5, modes=3, layers=2, head=8),
    "fno": lambda: FNO(3, 1, width=5, modes=3, layers=2, head=8),
    "fno, generic path": ForwardOnly,
    "neuraloperator": neuraloperator_fno,
}


@pytest.mark.parametrize("lead", [(2,), (3, 2)], ids=["shared", "per sample"])
@pytest.mark.parametrize("name", NETWORKS)
def test_tangents_against_differences(name: str, lead: tuple[int, ...]) -> None:
    network = NETWORKS[name]()
    dtype = next(network.parameters()).dtype
    step, tolerance = (1e-5, 1e-7) if dtype == torch.float64 else (1e-2, 1e-2)
    x, dx = torch.randn(3, *GRID, 3, dtype=dtype), torch.randn(*lead, *GRID, 3, dtype=dtype)
    y, dy = value_and_tangents(network, x, dx)
    assert dy.shape == (3, 2, *GRID, 1)
    torch.testing.assert_close(y, network(x))
    for j in range(2):
        v = dx[j].expand_as(x) if len(lead) == 1 else dx[:, j]
        with torch.no_grad():
            difference = (network(x + step * v) - network(x - step * v)) / (2 * step)
        assert (dy[:, j] - difference).norm() < tolerance * difference.norm()


@pytest.mark.parametrize("name", ["deeponet", "textbook", "fno, generic path"])
def test_gradients_of_a_tangent_loss(name: str) -> None:
    """All directions together equal q separate passes, in the weight gradients too."""
    network = NETWORKS[name]()
    x, dx = torch.randn(2, *GRID, 3), torch.randn(3, *GRID, 3)
    found, expected = (
        torch.autograd.grad(
            sum(out.square().sum() for out in both(network, x, dx)), list(network.parameters()), allow_unused=True
        )
        for both in (value_and_tangents, loop_of_jvps)
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_directions_constant_along_an_axis() -> None:
    network = DeepONet(GRID)
    x, dx = torch.randn(3, *GRID, 3), torch.randn(3, 2, 1, GRID[1], 3)
    _, dy = value_and_tangents(network, x, dx)
    _, expected = value_and_tangents(network, x, dx.expand(3, 2, *GRID, 3))
    torch.testing.assert_close(dy, expected)
