"""γ with averages that a checkpoint keeps."""

from typing import Any

import torch
from torch import Tensor, nn

from stcl.losses.settings import Weighting
from stcl.losses.weighting import RatioWeight


class KeptWeight(nn.Module):
    """γ of RatioWeight, with its moving averages as buffers: a module above has them in its state_dict.

    The averages move in training alone, and stay as they are where one of the losses is not finite. In eval mode and
    under torch.no_grad γ is what they give as they are; where there are none yet, it is what the current losses give.
    """

    averages: Tensor  # moving averages of L_data and L_deriv
    started: Tensor  # whether there are any

    def __init__(self, lam: float, settings: Weighting) -> None:
        super().__init__()
        self.lam, self.settings = lam, settings
        self._moving = RatioWeight(lam, settings, torch.device("cpu"))
        self.register_buffer("averages", self._moving.averages)
        self.register_buffer("started", torch.tensor(False))

    def forward(self, data: Tensor, derivative: Tensor) -> Tensor:
        """γ for this update, without gradient."""
        if self.averages.device != data.device:
            self.to(data.device)
        if self.averages is not self._moving.averages:  # it was moved to another device, or loaded
            started, self._moving = self._moving.started, RatioWeight(self.lam, self.settings, self.averages.device)
            self._moving.load_state_dict({"averages": self.averages, "started": started})
        if not (self.training and torch.is_grad_enabled()):
            current = self._moving.current(data, derivative)
            return self._moving.gamma(self.averages.to(current) if self._moving.started else current)
        if not self._moving.started:
            self.started.fill_(True)
        # A loss that is not finite would stay in the averages for good, and a loop may just leave such a batch out.
        finite = torch.isfinite(data) & torch.isfinite(derivative)
        last = self.averages.to(data.dtype)
        gamma = self._moving(torch.where(finite, data, last[0]), torch.where(finite, derivative, last[1]))
        self.averages = self._moving.averages
        return gamma.clamp_max(torch.finfo(gamma.dtype).max)  # ∞ times a derivative loss of zero would be no number

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Averages keep the precision that they were saved with. The host knows, too, whether there are any."""
        self.averages = self.averages.to(state_dict.get(f"{prefix}averages", self.averages).dtype)
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._moving.started = bool(self.started)
