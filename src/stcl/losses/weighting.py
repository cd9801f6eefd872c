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
        return self._weigh(torch.stack([data.detach(), derivative.detach().clamp_min(self.settings.floor)]))

    def _weigh(self, current: Tensor) -> Tensor:
        """γ before or after the averages have taken the current values."""
        if current.dtype != self.averages.dtype:  # at the first update alone
            self.averages, self._zero = self.averages.to(current), self._zero.to(current)
        if self.settings.update == "before":
            self._average(current)
            return self._gamma()
        gamma = self._gamma() if self.started else torch.full_like(current[0], self._lam)
        self._average(current)
        return gamma

    @property
    def _lam(self) -> float:
        """λ as a number of the losses' type, in which a large one is infinite."""
        return self.lam if self.lam <= torch.finfo(self.averages.dtype).max else math.inf

    def _average(self, current: Tensor) -> None:
        self.averages.lerp_(current, 1 - self.settings.decay if self.started else 1.0)
        self.started = True

    def _gamma(self) -> Tensor:
        # The average of losses that are all above the floor is above it, too.
        return torch.addcdiv(self._zero, self.averages[0], self.averages[1], value=self._lam)

    def state_dict(self) -> dict:
        return {"averages": self.averages.to("cpu", copy=True), "started": self.started}

    def load_state_dict(self, state: dict) -> None:
        self.averages = state["averages"].to(self.averages.device, copy=True)
        self._zero = torch.zeros_like(self.averages[0])
        self.started = state["started"]
