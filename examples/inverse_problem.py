"""An inverse problem: the input behind a few noisy observations, found with a surrogate in place of the solver.

The equation is that of existing_loop.py. The most probable input (MAP) minimises misfit and prior by L-BFGS, with the
gradient through the model; the same minimisation with the solver itself says what it should have found.
"""

import torch
from existing_loop import NODES, N, inputs, residual, solve
from torch import nn

import stcl

OBSERVED, NOISE = slice(4, -1, 4), 0.01  # seven of the nodes; of the mean response
K = torch.arange(1, 6)


def field(z):
    """The input with coefficients z, which are standard normal in the prior."""
    return z / K @ torch.cos(torch.pi * K[:, None] * NODES)


def train(lam, samples=32, epochs=200):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(N, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, N))
    a, optimiser = inputs(samples, seed=1), torch.optim.Adam(model.parameters(), 3e-3)
    u, tangents = solve(a), stcl.TangentConsistency(residual, lam=lam) if lam else lambda *_, data: 0.0
    for rows in [rows for _ in range(epochs) for rows in torch.randperm(samples).split(16)]:
        loss = nn.functional.mse_loss(model(a[rows]), u[rows])
        optimiser.zero_grad()
        (loss + tangents(model, a[rows], u[rows], data=loss)).backward()
        optimiser.step()
    return model.requires_grad_(False)


def most_probable(forward, observations, sigma):
    """All inverse problems at once: the sum of their objectives has the same minimisers."""
    z = torch.zeros(len(observations), len(K), requires_grad=True)
    optimiser = torch.optim.LBFGS([z], max_iter=300, history_size=50, line_search_fn="strong_wolfe")

    def objective():
        optimiser.zero_grad()
        total = ((forward(field(z))[:, OBSERVED] - observations) / sigma).square().sum() + z.square().sum()
        total.backward()
        return total

    optimiser.step(objective)
    return field(z.detach())


def distances(*models):
    """Relative distance of each model's MAP from the solver's: mean over 32 problems with unseen inputs."""
    exact = solve(inputs(32, seed=2))[:, OBSERVED]
    sigma = NOISE * exact.abs().mean()
    observations = exact + sigma * torch.randn(exact.shape, generator=torch.Generator().manual_seed(3))
    wanted, *found = (most_probable(forward, observations, sigma) for forward in (solve, *models))
    return [((a - wanted).norm(dim=1) / wanted.norm(dim=1)).mean() for a in found]


if __name__ == "__main__":
    print("from the solver's MAP: data alone {:.1%}, with sTCL {:.1%}".format(*distances(train(lam=0), train(lam=1))))
