"""⟨A w + b, M (A w + b)⟩: the tangent residual measured by a metric."""

import importlib

from torch import Tensor

from stcl.losses.directions import SketchDirections
from stcl.losses.tangent_residual import tangent_residual
from stcl.operators.surrogate import Surrogate
from stcl.problems.base import Problem
from stcl.protocol import Form


class PreconditionedResidual:
    """L = mean over samples and directions of rᵀ M r,  r = A(u_θ, a) DS_θ(a)[v] + B(u_θ, a) v."""

    def __init__(self, problem: Problem, form: Form, directions: SketchDirections) -> None:
        self.problem, self.form, self.directions = problem, form, directions
        self.metric = importlib.import_module(f"stcl.losses.metrics.{form.metric}").Metric(problem)

    def __call__(self, surrogate: Surrogate, a: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction u_θ(a) for the data loss, and the derivative loss, from one pass."""
        v = self.directions.draw(len(a))
        u, w = surrogate.value_and_tangents(a, v)
        state = u.detach() if self.form.detach_state else u
        r = tangent_residual(self.problem, state, a, w, v)
        return u, self.metric.energy(r, a).mean()

    def state_dict(self) -> dict:
        return self.directions.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.directions.load_state_dict(state)
