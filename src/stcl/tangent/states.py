"""A few solved states of a problem, for what must be known about its tangent operator before training."""

import numpy as np
import torch
from torch import Tensor

from stcl.problems.base import Problem


def states(problem: Problem, count: int) -> tuple[Tensor, Tensor]:
    """Inputs a on the network's grid and their responses u, float64: the first accepted ones of the train split.

    A problem that was given its states, having no solver, gives the first of those.
    """
    given = getattr(problem, "states", None)
    if given is not None:
        return tuple(field[:count] for field in given)
    a = problem.inputs(problem.candidates(count), "train")
    u = problem.solve(a)
    kept = np.flatnonzero(problem.accept(u))[:count]
    return torch.as_tensor(problem.network_input(a[kept])), torch.as_tensor(u[kept])
