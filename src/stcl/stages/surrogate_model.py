"""A trained surrogate as the model of an inverse problem.

It has a file of its own, so that the solver's answers do not depend on the code of networks.
"""

import torch
from torch import Tensor

from stcl.operators.surrogate import Surrogate
from stcl.problems.base import Problem

TANGENTS = 512  # number of tangents that are taken together


class SurrogateModel:
    """A trained surrogate as a model of the solver's inputs: scored responses and tangents, in its own precision."""

    def __init__(self, problem: Problem, surrogate: Surrogate, batch: int = 64) -> None:
        self.problem, self.surrogate, self.batch = problem, surrogate, batch
        self.kind = next(surrogate.parameters())

    def __call__(self, a: Tensor) -> Tensor:
        with torch.no_grad():
            return self._scored(torch.cat([self.surrogate(self._seen(few)) for few in a.split(self.batch)])).to(a)

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        few = max(1, TANGENTS // v.shape[1])
        parts = [
            self.surrogate.value_and_tangents(self._seen(ai), self._seen(vi))
            for ai, vi in zip(a.split(few), v.split(few), strict=True)
        ]
        u, w = (self._scored(torch.cat(part)).to(a) for part in zip(*parts, strict=True))
        return u, w

    def _seen(self, a: Tensor) -> Tensor:
        return self.problem.network_input(a).to(self.kind)

    def _scored(self, u: Tensor) -> Tensor:
        return self.problem.layout.score(u)
