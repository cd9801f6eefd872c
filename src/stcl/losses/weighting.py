"""How much the derivative term counts: γ from moving averages of both losses."""

import math

import torch
from torch import Tensor

from stcl.losses.settings import Weighting


class RatioWeight:
    """γ = λ · EMA(L_data) / max(EMA(L_deriv), floor), so that λ is the ratio of derivative to data loss.

    Averages start at the first values they see. Everything stays on the device, in the same memory: no update waits for
    a host read, and updates can be captured and replayed from the second one on.
    """

    def __init__(self, lam: float, settings: Weighting, device: torch.device) -> None:
        self.lam, self.settings = lam, settings
        self.averages = torch.zeros(2, device=device)  # moving averages of L_data and L_deriv
        self.started = False
        self._zero = torch.zeros((), device=device)

    def __call__(self, data: Tensor, derivative: Tensor) -> Tensor:
        """γ for this update, without gradient."""
        return self._weigh(self.current(data, derivative))

    def current(self, data: Tensor, derivative: Tensor) -> Tensor:
        """What the averages take at an update. Averages of losses that are all above the floor are above it, too."""
        return torch.stack([data.detach(), derivative.detach().clamp_min(self.settings.floor)])

    def gamma(self, averages: Tensor) -> Tensor:
        """γ of these averages."""
        return torch.addcdiv(self._zero.to(averages), averages[0], averages[1], value=self._lam(averages.dtype))

    def _weigh(self, current: Tensor) -> Tensor:
        """γ before or after the averages have taken the current values."""
        if current.dtype != self.averages.dtype:  # at the first update alone
            self.averages, self._zero = self.averages.to(current), self._zero.to(current)
        if self.settings.update == "before":
            self._average(current)
            return self.gamma(self.averages)
        gamma = self.gamma(self.averages) if self.started else torch.full_like(current[0], self._lam(current.dtype))
        self._average(current)
        return gamma

    def _lam(self, dtype: torch.dtype) -> float:
        """λ as a number of the losses' type, in which a large one is infinite."""
        return self.lam if self.lam <= torch.finfo(dtype).max else math.inf

    def _average(self, current: Tensor) -> None:
        self.averages.lerp_(current, 1 - self.settings.decay if self.started else 1.0)
        self.started = True

    def state_dict(self) -> dict:
        return {"averages": self.averages.to("cpu", copy=True), "started": self.started}

    def load_state_dict(self, state: dict) -> None:
        self.averages = state["averages"].to(self.averages.device, copy=True)
        self._zero = torch.zeros_like(self.averages[0])
        self.started = state["started"]
