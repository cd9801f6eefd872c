"""Small problems with solved responses and tangents, and small networks for them."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from stcl import problems
from stcl.operators.fno import FNO
from stcl.operators.surrogate import Surrogate
from stcl.problems.base import Problem

OPTIONS = {
    "diffusion": {"n": 13},
    "helmholtz": {"n": 13},
    "burgers": {"nx": 12, "nt": 14, "solver_nx": 24, "solver_nt": 28, "probe_nt": 28},
    "allen_cahn": {"nx": 16, "nt": 12, "time_step": 0.02},
    "navier_stokes": {"n": 12},
}


@dataclass(frozen=True)
class Reference:
    """Inputs a [3], responses u, shared directions v [2] and exact tangents w of all responses, float64."""

    problem: Problem
    a: Tensor
    u: Tensor
    v: Tensor
    w: Tensor


@cache
def reference(name: str, count: int = 3, directions: int = 2, split: str = "train", **options) -> Reference:
    problem = problems.load(name, **(options or OPTIONS[name]))
    a = problem.inputs(problem.candidates(count), split)
    u = problem.solve(a)
    kept = np.flatnonzero(problem.accept(u))[:count]
    a, u, v = a[kept], u[kept], problem.directions(directions, split)
    w = problem.tangents(a, u, v)
    if problem.layout.scored != problem.layout.responses:  # the pressure tangent, which the public method drops
        w = np.stack([problem._full_tangents(state, v) for state in u])
    tensors = (problem.network_input(a), u, problem.network_input(v), w)
    return Reference(problem, *(torch.as_tensor(x, dtype=torch.float64) for x in tensors))


def surrogate(problem: Problem, width: int = 4) -> Surrogate:
    layout = problem.layout
    return Surrogate(FNO(len(layout.channels), len(layout.responses), width, modes=3, layers=2, head=6), layout)
