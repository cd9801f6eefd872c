"""This module measures how much the gradient of each part of the loss varies from update to update."""

import torch
from torch import Tensor, nn

from stcl.losses.data import Losses
from stcl.losses.flat_gradient import flat_gradient

PARTS = ("data", "raw", "weighted", "total")


class GradientVariance:
    """The variance V = Σ_i ‖g_i − ḡ‖² / (n − 1) over the n updates of an epoch, where g_i are the gradients of

    data      L_data                  raw    L_deriv
    weighted  γ L_deriv, γ fixed      total  L_data + γ L_deriv, and the value term at unlabelled inputs

    before clipping. Mean and spread are updated as the gradients come (Welford), and they stay on the device until the
    epoch ends. The extra backward passes leave the graph and the parameters' own gradients as they are.
    """

    mean: Tensor | float  # mean gradient of each part, [4, parameters]; 0 before the first update of an epoch
    spread: Tensor | float  # Σ ‖g_i − ḡ‖², [4]

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self._clear()

    def add(self, losses: Losses) -> None:
        """Counts one update. It must come before the update's own backward pass."""
        data, raw = (flat_gradient(loss, self.parameters) for loss in (losses.data, losses.derivative))
        weighted = losses.gamma.detach() * raw
        total = data + weighted
        if losses.value is not None:
            total = total + flat_gradient(losses.value, self.parameters)
        gradients = torch.stack([data, raw, weighted, total])
        self.count += 1
        deviation = gradients - self.mean
        self.mean = self.mean + deviation / self.count
        self.spread = self.spread + (deviation * (gradients - self.mean)).sum(1)

    def finish(self) -> dict[str, float]:
        """The variances of the epoch, which ends here. The next update starts a new one."""
        if self.count < 2:
            raise ValueError(f"a variance needs two updates an epoch, got {self.count}; use a smaller batch")
        values = torch.as_tensor(self.spread / (self.count - 1)).tolist()
        self._clear()
        return {f"variance_{part}": value for part, value in zip(PARTS, values, strict=True)}

    def _clear(self) -> None:
        self.count = 0
        self.mean, self.spread = 0.0, 0.0
