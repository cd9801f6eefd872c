"""γ where an update may judge only a part of its inputs, or none."""

import torch
from torch import Tensor

from stcl.losses.settings import Weighting
from stcl.losses.weighting import RatioWeight


class JudgedWeight(RatioWeight):
    """γ = λ · EMA(L_data) · EMA(s) / EMA(s max(L_deriv, floor)), with the share s of the inputs that L_deriv judges.

    An update counts as much as it has judged, and one that has judged nothing leaves the ratio as it is. In the plain
    average, the zeros of such updates would be taken for small losses: early predictions of Allen-Cahn have a Newton
    step for one input in fifty, and γ would be infinite before the first of them. As long as there was none, γ is 0.
    With s = 1 this is the γ of RatioWeight.
    """

    def __init__(self, lam: float, settings: Weighting, device: torch.device) -> None:
        super().__init__(lam, settings, device)
        self.averages = torch.zeros(3, device=device)  # moving averages of L_data, s L_deriv and s

    def __call__(self, data: Tensor, derivative: Tensor, share: Tensor | None = None) -> Tensor:
        """γ for this update, without gradient. Without `share`, all inputs were judged."""
        share = torch.ones_like(data) if share is None else share.to(data.dtype)
        derivative = derivative.detach().clamp_min(self.settings.floor)
        return self._weigh(torch.stack([data.detach(), share * derivative, share]))

    def gamma(self, averages: Tensor) -> Tensor:
        data, derivative, share = averages
        tiny = torch.finfo(derivative.dtype).tiny  # 0 / tiny is 0
        lam = self._lam(averages.dtype)
        return torch.addcdiv(self._zero.to(averages), data * share, derivative.clamp_min(tiny), value=lam)
