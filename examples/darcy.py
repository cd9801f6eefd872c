"""Darcy flow from scratch: −∇·(eᵃ ∇u) = 1 on the unit square, u = 0 on its boundary, learned by an FNO."""

import torch
from torch.func import jacfwd, vmap
from torch.nn.functional import mse_loss, pad

import stcl
from stcl.operators.fno import FNO

N, H = 17, 1 / 16  # nodes a side, and their distance
NODES = torch.linspace(0, 1, N)


def residual(u, a):
    """Fluxes on the faces between nodes, and their divergence at the interior nodes."""
    k = a.exp()
    flux1 = (k[:, 1:, 1:-1] + k[:, :-1, 1:-1]) / 2 * (u[:, 1:, 1:-1] - u[:, :-1, 1:-1]) / H
    flux2 = (k[:, 1:-1, 1:] + k[:, 1:-1, :-1]) / 2 * (u[:, 1:-1, 1:] - u[:, 1:-1, :-1]) / H
    return -(flux1[:, 1:] - flux1[:, :-1] + flux2[:, :, 1:] - flux2[:, :, :-1]) / H - 1


def inputs(count, seed):
    k = torch.arange(6)
    noise = torch.randn(count, 6, 6, generator=torch.Generator().manual_seed(seed))
    cosines = torch.cos(torch.pi * k[:, None] * NODES)
    return cosines.T @ (noise * 9 / (9 + torch.pi**2 * (k[:, None] ** 2 + k**2))) @ cosines


def solve(a):
    """One Newton step from zero: the residual is affine in u."""
    at_interior = lambda x, a: residual(pad(x.reshape(1, N - 2, N - 2), (1, 1, 1, 1)), a[None]).flatten()  # noqa: E731
    zero = a.new_zeros(len(a), (N - 2) ** 2)
    interior = -torch.linalg.solve(vmap(jacfwd(at_interior))(zero, a), vmap(at_interior)(zero, a))
    return pad(interior.reshape(-1, N - 2, N - 2), (1, 1, 1, 1))


def train(lam, epochs=60, samples=64):
    """Relative errors of the field and of the Jacobian on unseen inputs."""
    torch.manual_seed(0)
    a, test = inputs(samples, seed=1), inputs(32, seed=2)
    u = solve(a)
    fno, mesh = (
        FNO(3, 1, width=16, modes=6, layers=3, head=32),
        torch.stack([NODES.expand(N, N).T, NODES.expand(N, N)], -1),
    )
    model = lambda a: fno(torch.cat([a[..., None], mesh.expand(len(a), N, N, 2)], -1))[..., 0]  # noqa: E731
    tangents = stcl.TangentConsistency(residual, lam=lam) if lam else None
    optimiser = torch.optim.Adam(fno.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(samples).split(16):
            loss = mse_loss(model(a[rows]), u[rows])
            if tangents:
                loss = loss + tangents(model, a[rows], u[rows], data=loss)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    field = (model(test) - solve(test)).norm() / solve(test).norm()
    return field.item(), stcl.jacobian_error(model, test, inputs(8, seed=3), solve).mean().item()


if __name__ == "__main__":
    for lam in (0, 1):
        print("lambda {}: field error {:.1%}, Jacobian error {:.1%}".format(lam, *train(lam)))
