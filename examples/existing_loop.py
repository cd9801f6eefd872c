"""An existing training loop, with the loss added. Two lines are new; they end with `# new`.

Poisson's equation with a variable coefficient, −(eᵃ u')' = 1 on an interval, u = 0 at both ends.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stcl

N = 33
NODES = torch.linspace(0, 1, N)


def residual(u, a):
    """The equation: what the data came from, as a function of prediction and input."""
    faces = (a[:, 1:].exp() + a[:, :-1].exp()) / 2 * (u[:, 1:] - u[:, :-1]) * (N - 1)
    return -(faces[:, 1:] - faces[:, :-1]) * (N - 1) - 1


def dataset(count, seed):
    """Inputs, and responses by integrating the flux: eᵃ u' = c − x."""
    generator, k = torch.Generator().manual_seed(seed), torch.arange(1, 6)
    a = torch.randn(count, 5, generator=generator) / k @ torch.cos(torch.pi * k[:, None] * NODES)
    resistance = 2 / (a[:, 1:].exp() + a[:, :-1].exp())
    faces = (NODES[1:] + NODES[:-1]) / 2
    flux = (resistance * faces).sum(1, keepdim=True) / resistance.sum(1, keepdim=True) - faces
    return a, nn.functional.pad((resistance * flux / (N - 1)).cumsum(1), (1, 0))


def main(epochs=60):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(N, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, N))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    tangents = stcl.TangentConsistency(residual, lam=1.0)  # new
    for _ in range(epochs):
        for a, u in DataLoader(TensorDataset(*dataset(64, seed=1)), batch_size=16, shuffle=True):
            loss = nn.functional.mse_loss(model(a), u)
            loss = loss + tangents(model, a, u, data=loss)  # new
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model


def errors(model):
    """Relative errors of the field and of its derivative along the difference of two inputs, on unseen inputs."""
    a, u = dataset(65, seed=2)
    between, step = a[1:] - a[:-1], 1e-2
    tangents = stcl.value_and_tangents(model, a[:-1], between[:, None])[1][:, 0]
    return (model(a) - u).norm() / u.norm(), tangents


if __name__ == "__main__":
    print("field error {:.1%}".format(errors(main())[0]))
