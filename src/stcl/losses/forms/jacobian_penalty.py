"""‖DS_θ(a)[v]‖² / ‖v‖²: a control. It shrinks the Jacobian and knows nothing of the equation."""

from torch import Tensor

from stcl.losses import settings
from stcl.problems.base import Problem


class JacobianPenalty:
    """L = mean over samples and directions of ‖DS_θ(a)[v]‖² / ‖v‖²."""

    def __init__(self, problem: Problem, settings: settings.JacobianPenalty) -> None:
        self.input_axes = len(problem.layout.input_shape)

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        return (w.square().flatten(2).sum(-1) / v.square().flatten(-self.input_axes).sum(-1)).mean()
