"""Darcy flow from scratch: −∇·(eᵃ ∇u) = 1 on the unit square, u = 0 on its boundary, learned by an FNO."""

import torch
from torch.func import jacfwd, vmap
from torch.nn.functional import mse_loss, pad

import stcl

N, NODES = 13, torch.linspace(0, 1, 13)  # of each side
MESH = torch.cartesian_prod(NODES, NODES).reshape(1, N, N, 2)


def residual(u, a):
    """Fluxes on the faces between nodes, and their divergence at the interior nodes."""
    k, h = a.exp(), 1 / (N - 1)
    flux1 = (k[:, 1:, 1:-1] + k[:, :-1, 1:-1]) / 2 * (u[:, 1:, 1:-1] - u[:, :-1, 1:-1]) / h
    flux2 = (k[:, 1:-1, 1:] + k[:, 1:-1, :-1]) / 2 * (u[:, 1:-1, 1:] - u[:, 1:-1, :-1]) / h
    return -(flux1[:, 1:] - flux1[:, :-1] + flux2[:, :, 1:] - flux2[:, :, :-1]) / h - 1


def inputs(count, seed):
    k, noise = torch.arange(6), torch.randn(count, 6, 6, generator=torch.Generator().manual_seed(seed))
    cosines = torch.cos(torch.pi * k[:, None] * NODES)
    return cosines.T @ (noise * 4 / (9 + torch.pi**2 * (k[:, None] ** 2 + k**2))) @ cosines


def solve(a):
    """One Newton step from zero: the residual is affine in u."""
    at_interior = lambda x, a: residual(pad(x.reshape(1, N - 2, N - 2), (1, 1, 1, 1)), a[None]).flatten()  # noqa: E731
    zero = a.new_zeros(len(a), (N - 2) ** 2)
    interior = -torch.linalg.solve(vmap(jacfwd(at_interior))(zero, a), vmap(at_interior)(zero, a))
    return pad(interior.reshape(-1, N - 2, N - 2), (1, 1, 1, 1))


class Model(stcl.FNO):
    def forward(self, a):
        return super().forward(torch.cat([a[..., None], MESH.expand(len(a), N, N, 2)], -1))[..., 0]

    def value_and_tangents(self, a, v):  # any model works without; this FNO has a faster way than forward mode
        channels = torch.cat([a[..., None], MESH.expand(len(a), N, N, 2)], -1)
        return tuple(y[..., 0] for y in super().value_and_tangents(channels, pad(v[..., None], (0, 2))))


def train(lam, epochs=30):
    """Relative errors of the field and of the Jacobian on unseen inputs."""
    torch.manual_seed(0)
    a, test, model = inputs(64, seed=1), inputs(32, seed=2), Model(3, 1, width=16, modes=5, layers=3, head=32)
    u, truth, optimiser = solve(a), solve(test), torch.optim.Adam(model.parameters(), 2e-3)
    tangents = stcl.TangentConsistency(residual, lam=lam) if lam else lambda *_: 0.0
    for rows in [rows for _ in range(epochs) for rows in torch.randperm(64).split(16)]:
        optimiser.zero_grad()
        (mse_loss(model(a[rows]), u[rows]) + tangents(model, a[rows], u[rows])).backward()
        optimiser.step()
    return (model(test) - truth).norm() / truth.norm(), stcl.jacobian_error(model, test, inputs(4, 3), solve).mean()


if __name__ == "__main__":
    for lam in (0, 1):
        print("lambda {}: field error {:.1%}, Jacobian error {:.1%}".format(lam, *train(lam)))
