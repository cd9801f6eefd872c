"""⟨A w + B v, M (A w + B v)⟩: the tangent residual measured by a metric."""

from torch import Tensor

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import metrics, settings
from stcl.tangent.residual import tangent_residual


class PreconditionedResidual:
    """L = mean over samples and directions of rᵀ M r,  r = A(u_θ, a) DS_θ(a)[v] + B(u_θ, a) v."""

    def __init__(
        self,
        equation: DiscreteEquation,
        settings: settings.PreconditionedResidual,
        tangent_class: OperatorClass | None,
    ) -> None:
        self.equation, self.settings = equation, settings
        self.metric = metrics.load(equation, settings.metric)

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        state = u.detach() if self.settings.detach_state else u
        return self.metric.energy(tangent_residual(self.equation, state, a, w, v), a).mean()
