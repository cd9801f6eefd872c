"""An inverse problem: the input behind a few noisy observations, found with a surrogate in place of the solver.

The equation is that of existing_loop.py. `stcl.inverse` finds the most probable input (MAP) with the derivatives of the
model; the same minimisation with the solver itself says what it should have found, and how sure the data are.
"""

import torch
from existing_loop import NODES, N, inputs, residual, solve
from torch import nn

import stcl
from stcl.inverse import Prior, Sensors, map_point

SENSORS = Sensors(NODES[4:-1:4, None].numpy(), [NODES.numpy()])  # seven of the nodes
NOISE = 0.01  # of the mean response
K = torch.arange(1, 6)
PRIOR = Prior.gaussian(torch.zeros(N), torch.cos(torch.pi * K[:, None] * NODES) / K[:, None])


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


def inversions(*models):
    """The inverse problems of 32 unseen inputs, all at once, solved with each of the models."""
    exact = SENSORS(solve(inputs(32, seed=2)))
    noise = float(NOISE * exact.abs().mean())
    data = exact + noise * torch.randn(exact.shape, generator=torch.Generator().manual_seed(3))
    return [map_point(model, SENSORS, data, noise, PRIOR) for model in models]


def distances(*models):
    """Relative distance of each model's MAP from the solver's: mean over the inverse problems."""
    wanted, *found = (point.a for point in inversions(solve, *models))
    return [((a - wanted).norm(dim=1) / wanted.norm(dim=1)).mean() for a in found]


if __name__ == "__main__":
    print("from the solver's MAP: data alone {:.1%}, with sTCL {:.1%}".format(*distances(train(lam=0), train(lam=1))))
    print(f"the data hold {inversions(solve)[0].spectrum.information_gain.mean():.1f} nats of information")
