"""⟨A w + B v, M (A w + B v)⟩: the tangent residual measured by a metric."""

from torch import Tensor

from stcl.losses import metrics, settings
from stcl.problems.base import Problem
from stcl.tangent.residual import tangent_residual


class PreconditionedResidual:
    """L = mean over samples and directions of rᵀ M r,  r = A(u_θ, a) DS_θ(a)[v] + B(u_θ, a) v."""

    def __init__(self, problem: Problem, settings: settings.PreconditionedResidual) -> None:
        self.problem, self.settings = problem, settings
        self.metric = metrics.load(problem, settings.metric)

    def __call__(self, a: Tensor, u: Tensor, v: Tensor, w: Tensor, label: Tensor) -> Tensor:
        state = u.detach() if self.settings.detach_state else u
        return self.metric.energy(tangent_residual(self.problem, state, a, w, v), a).mean()
