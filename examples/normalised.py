"""A model that works with normalised fields, and an equation that does not.

Diffusion, −(k u')' = s with u = 0 at both ends. The two input fields k and s are of very different size.
"""

import torch
from torch import nn
from torch.nn.functional import mse_loss

import stcl

N = 33
NODES = torch.linspace(0, 1, N)


def residual(u, a):
    """In physical units: k around 400, s around 1e5, u around 30."""
    k, s = a[:, 0], a[:, 1]
    flux = (k[:, 1:] + k[:, :-1]) / 2 * (u[:, 1:] - u[:, :-1]) * (N - 1)
    return -(flux[:, 1:] - flux[:, :-1]) * (N - 1) - s[:, 1:-1]


def inputs(count, seed):
    waves = torch.cos(torch.pi * torch.arange(1, 6)[:, None] * NODES)
    noise = torch.randn(count, 2, 5, generator=torch.Generator().manual_seed(seed)) / torch.arange(1, 6)
    k, s = (noise @ waves).unbind(1)
    return torch.stack([400 * (k / 2).exp(), 1e5 * (1 + s / 2)], 1)


def solve(a):
    """The residual is affine in u, and its matrix is tridiagonal."""
    k = (a[:, 0, 1:] + a[:, 0, :-1]) / 2 * (N - 1) ** 2
    matrix = torch.diag_embed(k[:, 1:] + k[:, :-1])
    matrix = matrix - torch.diag_embed(k[:, 1:-1], 1) - torch.diag_embed(k[:, 1:-1], -1)
    return nn.functional.pad(torch.linalg.solve(matrix, a[:, 1, 1:-1]), (1, 1))


def train(lam, steps=300):
    """Relative errors of the field and of the Jacobian, both in physical units, on unseen inputs."""
    torch.manual_seed(0)
    a, test, v = inputs(64, seed=1), inputs(64, seed=2), inputs(4, seed=3) - inputs(4, seed=4)
    u, truth = solve(a), solve(test)
    a_mean, a_std, u_mean, u_std = a.mean((0, 2))[:, None], a.std((0, 2))[:, None], u.mean(), u.std()
    a, u = (a - a_mean) / a_std, (u - u_mean) / u_std  # what the model sees from here on
    scale = stcl.Scale(a=(a_mean, a_std), u=(u_mean, u_std))
    tangents = stcl.TangentConsistency(residual, lam=lam, scale=scale) if lam else lambda *_: 0.0
    model = nn.Sequential(nn.Flatten(), nn.Linear(2 * N, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, N))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for rows in torch.randint(64, (steps, 16)):
        optimiser.zero_grad()
        (mse_loss(model(a[rows]), u[rows]) + tangents(model, a[rows], u[rows])).backward()
        optimiser.step()
    physical = lambda a: u_mean + u_std * model((a - a_mean) / a_std)  # noqa: E731
    field = (physical(test) - truth).norm() / truth.norm()
    return field.item(), stcl.jacobian_error(physical, test, v, solve).mean().item()


if __name__ == "__main__":
    for lam in (0, 1):
        print("lambda {}: field error {:.1%}, Jacobian error {:.1%}".format(lam, *train(lam)))
