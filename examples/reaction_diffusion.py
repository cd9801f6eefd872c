"""A DeepONet for steady reaction-diffusion, −0.05 u'' + u³ + u = a on an interval, u = 0 at both ends."""

import torch
from torch.func import jacfwd, vmap
from torch.nn import GELU, Linear, Module, Sequential
from torch.nn.functional import mse_loss, pad

import stcl

N, NODES = 33, torch.linspace(0, 1, 33)
WAVES = torch.sin(torch.pi * NODES[:, None] * torch.arange(1, 9))


def residual(u, a):
    diffusion = -0.05 * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * (N - 1) ** 2
    return diffusion + u[:, 1:-1] ** 3 + u[:, 1:-1] - a[:, 1:-1]


def inputs(count, seed):
    k, noise = torch.arange(1, 9), torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
    return 5 * (noise / k) @ torch.sin(torch.pi * k[:, None] * NODES + k[:, None])


def solve(a):
    """Newton's method."""
    at_interior = lambda x, a: residual(pad(x, (1, 1))[None], a[None])[0]  # noqa: E731
    a, x = a.double(), torch.zeros(len(a), N - 2, dtype=torch.float64)
    for _ in range(12):
        x = x - torch.linalg.solve(vmap(jacfwd(at_interior))(x, a), vmap(at_interior)(x, a))
    return pad(x, (1, 1)).float()


class DeepONet(Module):
    """u(x) = Σ_k branch_k(a) trunk_k(sin πx, sin 2πx, …)."""

    def __init__(self):
        super().__init__()
        self.branch = Sequential(Linear(N, 64), GELU(), Linear(64, 64), GELU(), Linear(64, 32))
        self.trunk = Sequential(Linear(8, 64), GELU(), Linear(64, 32))

    def forward(self, a):
        return self.branch(a) @ self.trunk(WAVES).T


def train(lam, steps=200):
    """Relative errors of the field and of the Jacobian on unseen inputs."""
    torch.manual_seed(0)
    a, test, model = inputs(64, seed=1), inputs(64, seed=2), DeepONet()
    u, truth, optimiser = solve(a), solve(test), torch.optim.Adam(model.parameters(), 4e-3)
    tangents = stcl.TangentConsistency(residual, lam=lam) if lam else lambda *_: 0.0
    for rows in [torch.randperm(64)[:16] for _ in range(steps)]:
        optimiser.zero_grad()
        (mse_loss(model(a[rows]), u[rows]) + tangents(model, a[rows], u[rows])).backward()
        optimiser.step()
    return (model(test) - truth).norm() / truth.norm(), stcl.jacobian_error(model, test, inputs(4, 3), solve).mean()


if __name__ == "__main__":
    for lam in (0, 1):
        print("lambda {}: field error {:.1%}, Jacobian error {:.1%}".format(lam, *train(lam)))
