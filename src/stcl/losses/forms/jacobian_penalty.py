"""‖DS_θ(a)[v]‖² / ‖v‖²: a control. It shrinks the Jacobian and knows nothing of the equation."""

from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import settings


class JacobianPenalty:
    """L = mean over samples and directions of ‖DS_θ(a)[v]‖² / ‖v‖²."""

    def __init__(
        self, equation: DiscreteEquation, settings: settings.JacobianPenalty, tangent_class: OperatorClass | None
    ) -> None:
        self.input_axes = len(equation.layout.input_shape)

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        return (w.square().flatten(2).sum(-1) / v.square().flatten(-self.input_axes).sum(-1)).mean()
