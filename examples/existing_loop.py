"""An existing training loop, with the loss added. Two lines are new; they end with `# new`.

Diffusion with a variable coefficient, −(eᵃ u')' = 1 on an interval, u = 0 at both ends.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stcl

N = 33
NODES = torch.linspace(0, 1, N)


def residual(u, a):
    """The equation that the data obey, as a function of prediction and input."""
    flux = (a[:, 1:].exp() + a[:, :-1].exp()) / 2 * (u[:, 1:] - u[:, :-1]) * (N - 1)
    return -(flux[:, 1:] - flux[:, :-1]) * (N - 1) - 1


def inputs(count, seed):
    k = torch.arange(1, 6)
    noise = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return noise / k @ torch.cos(torch.pi * k[:, None] * NODES)


def solve(a):
    """eᵃ u' = c − x between the nodes; c is such that u ends with zero."""
    resistance, x = 2 / (a[:, 1:].exp() + a[:, :-1].exp()), (NODES[1:] + NODES[:-1]) / 2
    flux = (resistance * x).sum(1, keepdim=True) / resistance.sum(1, keepdim=True) - x
    return nn.functional.pad((resistance * flux / (N - 1)).cumsum(1), (1, 0))


def train(epochs=30):
    torch.manual_seed(0)
    a = inputs(64, seed=1)
    loader = DataLoader(TensorDataset(a, solve(a)), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(N, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, N))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    tangents = stcl.TangentConsistency(residual, lam=1.0)  # new
    for _ in range(epochs):
        for a, u in loader:
            loss = nn.functional.mse_loss(model(a), u)
            loss = loss + tangents(model, a, u, data=loss)  # new
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model


if __name__ == "__main__":
    model, test = train(), inputs(64, seed=2)
    field = (model(test) - solve(test)).norm() / solve(test).norm()
    print(f"field error {field:.1%}, Jacobian error {stcl.jacobian_error(model, test, inputs(4, 3), solve).mean():.1%}")
