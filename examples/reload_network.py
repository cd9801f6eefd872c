"""A trained network of the workflow, loaded again: predict, take a gradient, infer inputs from a few observations.

After `snakemake diffusion`:  python examples/reload_network.py results/quick/runs/diffusion/N128/stcl/lam0.25/seed0
"""

import sys

import torch

import stcl

NOISE, MODES = 0.02, 10  # of the mean response; how many modes of the inputs are inferred


def sensitivity(network, a):
    """The gradient of a scalar of the response, here its mean, with respect to the input."""
    a = a.clone().requires_grad_()
    return torch.autograd.grad(network(a).mean((-2, -1)).sum(), a)[0]


def prior(a):
    """The map z ↦ mean + z · modes for standard normal z, from training inputs by a singular value decomposition."""
    mean = a.mean(0)
    _, sizes, modes = torch.linalg.svd((a - mean).flatten(1), full_matrices=False)
    modes = sizes[:MODES, None] * modes[:MODES] / len(a) ** 0.5
    return lambda z: mean + (z @ modes).reshape(-1, *mean.shape)


def most_probable(forward, field, observe, observations, sigma):
    """The inputs whose z minimise misfit and prior, by L-BFGS with the gradient through `forward`."""
    z = torch.zeros(len(observations), MODES, requires_grad=True)
    optimiser = torch.optim.LBFGS([z], max_iter=200, history_size=20, line_search_fn="strong_wolfe")

    def objective():
        optimiser.zero_grad()
        total = ((observe(forward(field(z))) - observations) / sigma).square().sum() + z.square().sum()
        total.backward()
        return total

    optimiser.step(objective)
    return field(z.detach())


def infer(run, a, u, observe=lambda u: u[:, 1:-1:3, 1:-1:3]):
    """Inputs from noisy observations of u, and their distance from the true a; the prior's mean has distance 1."""
    field, (val_a, val_u) = prior(run.pairs("train")[0]), run.pairs("val")
    noise = NOISE * u.abs().mean()
    observations = observe(u) + noise * torch.randn(observe(u).shape, generator=torch.Generator().manual_seed(0))
    sigma = (noise**2 + observe(run.network(val_a) - val_u).square().mean()).sqrt()  # the network is not exact either
    found = most_probable(run.network, field, observe, observations, sigma)
    return found, (found - a).norm() / (field(torch.zeros(1, MODES)) - a).norm()


if __name__ == "__main__":
    run = stcl.load_run(sys.argv[1])
    run.network.requires_grad_(False)
    a, u = run.pairs("test")
    print(f"{run.problem}\nfield error {(run.network(a) - u).norm() / u.norm():.1%}")
    print(f"largest sensitivity of the mean response {sensitivity(run.network, a).abs().max():.1e}")
    print(f"distance of the inferred inputs {infer(run, a, u)[1]:.2f}")
