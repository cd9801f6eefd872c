"""The gradient of a loss in a model's parameters as one real vector."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def flat_gradient(loss: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """∇_θ of a loss, [parameters], with real and imaginary parts of complex ones; zero for a loss without a graph.

    The graph is kept, and the parameters' own gradients stay as they are.
    """
    if loss.requires_grad:
        parts = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
    else:
        parts = tuple(torch.zeros_like(p) for p in parameters)
    return torch.cat([(torch.view_as_real(g) if g.is_complex() else g).flatten() for g in parts])
