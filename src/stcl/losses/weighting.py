"""How much the derivative term counts: γ from moving averages of both losses."""

import torch
from torch import Tensor

from stcl.losses.settings import Weighting


class RatioWeight:
    """γ = λ · EMA(L_data) / max(EMA(L_deriv), floor), so that λ is the ratio of derivative to data loss.

    Averages start at the first values they see. Everything stays on the device: no update waits for a host read.
    """

    def __init__(self, lam: float, settings: Weighting, device: torch.device) -> None:
        self.lam, self.settings = lam, settings
        self.averages = torch.zeros(2, device=device)  # moving averages of L_data and L_deriv
        self.started = False

    def __call__(self, data: Tensor, derivative: Tensor) -> Tensor:
        """γ for this update, without gradient."""
        current = torch.stack([data.detach(), derivative.detach().clamp_min(self.settings.floor)])
        if self.settings.update == "before":
            self._average(current)
            return self._gamma()
        gamma = self._gamma() if self.started else torch.full_like(current[0], self.lam)
        self._average(current)
        return gamma

    def _average(self, current: Tensor) -> None:
        decay = self.settings.decay if self.started else 0.0
        self.averages = decay * self.averages + (1 - decay) * current
        self.started = True

    def _gamma(self) -> Tensor:
        return self.lam * self.averages[0] / self.averages[1].clamp_min(self.settings.floor)

    def state_dict(self) -> dict:
        return {"averages": self.averages.cpu(), "started": self.started}

    def load_state_dict(self, state: dict) -> None:
        self.averages = state["averages"].to(self.averages.device)
        self.started = state["started"]
