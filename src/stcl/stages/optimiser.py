"""Adam with clipped gradients, and the schedule of its learning rate.

Both compute what torch.optim computes, to the last bit on a CPU, and the tests compare them with it. torch.optim is not
used because its first optimiser imports torch's compiler, which takes longer than all else at the start of a training,
and because its bookkeeping costs Python time in every update.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from stcl.study.protocol import Schedule

BETAS = (0.9, 0.999)
# An error must be lower than the lowest one by this share of it, or else the schedule sees no improvement.
THRESHOLD = 1e-4
# The schedule leaves out a reduction that is not larger than this, so a rate just above the minimum stays where it is.
SMALLEST_REDUCTION = 1e-8


class Adam:
    """Adam on parameters of one device and type, by torch's fused kernel.

    A parameter without a gradient is left as it is, and that update does not count for it. All state is on the device
    of the parameters and is changed in place: nothing here reads from the device, and a CUDA graph can hold an update.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float, eps: float) -> None:
        self.parameters, self.eps = list(parameters), eps
        first = self.parameters[0]
        # A graph repeats the numbers that it was made with, so on a device the kernel gets the rate as a tensor. It is
        # rounded to float32, because the kernel takes no other type. On a CPU the rate is a number of float64.
        self._device_rate = None if first.is_cpu else torch.empty((), device=first.device)
        self.rate = rate
        self._counts = torch.zeros(len(self.parameters), device=first.device)  # updates of each parameter
        self._steps = list(self._counts.unbind())
        self._means, self._squares = ([torch.zeros_like(p) for p in self.parameters] for _ in BETAS)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self._rate

    @rate.setter
    def rate(self, value: float) -> None:
        self._rate = value
        if self._device_rate is not None:
            self._device_rate.fill_(value)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def clip(self, limit: float) -> None:
        """Scales all gradients by one number, so that the norm of the total gradient is at most `limit`."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if gradients:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            torch._foreach_mul_(gradients, torch.clamp(limit / (norm + 1e-6), max=1.0))

    def step(self) -> None:
        """Makes one update with the gradients that the parameters have."""
        columns = (self.parameters, self._means, self._squares, self._steps)
        given = [(p.grad, p, *state) for p, *state in zip(*columns, strict=True) if p.grad is not None]
        if not given:
            return
        gradients, parameters, means, squares, steps = map(list, zip(*given, strict=True))
        rate: Any = self._rate if self._device_rate is None else self._device_rate
        with torch.no_grad():
            if len(given) == len(self.parameters):
                self._counts += 1
            else:
                torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                gradients,
                means,
                squares,
                [],
                steps,
                lr=rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=0.0,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        return {"rate": self.rate, "counts": self._counts, "means": self._means, "squares": self._squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rate = state["rate"]
        self._counts.copy_(state["counts"])
        for name, values in (("means", self._means), ("squares", self._squares)):
            for value, saved in zip(values, state[name], strict=True):
                value.copy_(saved)


class Plateau:
    """Reduces a learning rate when the monitored error has not improved for some epochs."""

    def __init__(self, optimiser: Adam, settings: Schedule) -> None:
        self.optimiser, self.settings = optimiser, settings
        self.lowest, self.waited = math.inf, 0

    def step(self, error: float) -> None:
        """Counts one epoch with this error, and reduces the rate if that is due."""
        if error < self.lowest * (1.0 - THRESHOLD):
            self.lowest, self.waited = error, 0
        else:
            self.waited += 1
        if self.waited > self.settings.patience:
            self.optimiser.rate, self.waited = self.reduced(self.optimiser.rate), 0

    def reduced(self, rate: float) -> float:
        """The rate after a reduction. It is the same rate if there is none, because it is at its minimum."""
        lower = max(rate * self.settings.factor, self.settings.minimum)
        return lower if rate - lower > SMALLEST_REDUCTION else rate

    def state_dict(self) -> dict[str, Any]:
        return {"lowest": self.lowest, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lowest, self.waited = state["lowest"], state["waited"]
