"""‖A w + B v‖² / ‖B v‖²: the tangent residual relative to its right-hand side."""

import torch
from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import settings
from stcl.losses.squares import dots, squares
from stcl.tangent.residual import input_derivative, single_block, tangent_residual

FLOOR = 1e-10  # what is added to the right-hand side's energy, as published


class NormalizedResidual:
    """L = mean over samples and directions of Σ r² / (Σ (B v)² + 1e-10),  r = A(u_θ, a) DS_θ(a)[v] + B(u_θ, a) v.

    Sums run over the nodes; no gradient flows through the denominator. A zero Jacobian gives 1.
    """

    def __init__(
        self,
        equation: DiscreteEquation,
        settings: settings.NormalizedResidual,
        tangent_class: OperatorClass | None,
    ) -> None:
        self.equation, self.settings = equation, settings

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        state = u.detach() if self.settings.detach_state else u
        r = single_block(tangent_residual(self.equation, state, a, w, v), "normalized_residual")
        with torch.no_grad():
            right = input_derivative(self.equation, u, a, v)
            energy = dots(right, right) + FLOOR
        return (squares(r) / energy).mean()
