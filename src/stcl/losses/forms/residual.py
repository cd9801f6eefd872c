"""mean (A w + B v)²: the tangent residual as it is."""

from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import settings
from stcl.losses.squares import mean_square
from stcl.tangent.residual import single_block, tangent_residual


class Residual:
    """L = mean over samples, directions and nodes of r²,  r = A(u_θ, a) DS_θ(a)[v] + B(u_θ, a) v."""

    def __init__(
        self, equation: DiscreteEquation, settings: settings.Residual, tangent_class: OperatorClass | None
    ) -> None:
        self.equation, self.settings = equation, settings

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        state = u.detach() if self.settings.detach_state else u
        return mean_square(single_block(tangent_residual(self.equation, state, a, w, v), "residual"))
