"""The inverse problems of a problem: its prior in whitened coordinates, sensors, truths with data, and the solver.

The reference solver is a torch model here, with value and tangents in one call, as a trained surrogate is one. So the
same optimiser runs with either, and a surrogate that is the solver finds what the reference is.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import torch
from torch import Tensor

from stcl import inverse
from stcl.core.layout import Layout
from stcl.problems.base import Problem, SolveError
from stcl.study.inversions import Inversions

SEED = {"truths": 8_100_001, "noise": 8_100_002, "points": 8_100_003, "chains": 8_100_004}  # no other draw has them


@dataclass(frozen=True)
class Truths:
    """The inputs to be found, as the solver takes them, with their responses, and the data that are given."""

    a: np.ndarray  # [truths, ...]
    u: np.ndarray  # [truths, *response_shape]
    outside: np.ndarray  # whether each was drawn from the wider prior, [truths] of bool
    data: np.ndarray  # [truths, m], rounded as stores do
    noise: float  # standard deviation of the noise in the data


@dataclass(frozen=True)
class InverseProblems:
    """All inverse problems of one problem."""

    problem: Problem
    settings: Inversions

    @cached_property
    def prior(self) -> inverse.Prior:
        return inverse.Prior.leading(self.problem.whitened, self.problem.input_noise_shape, self.settings.modes)

    @cached_property
    def sensors(self) -> inverse.Sensors:
        layout = self.problem.layout
        fields = len(layout.scored) if len(layout.scored) > 1 else None
        return inverse.Sensors(sensor_points(layout, self.settings.sensors), layout.coordinates, fields)

    @cached_property
    def truths(self) -> Truths:
        """Truths of the prior and of the wider one. All of them pass the problem's filter of responses."""
        problem, settings = self.problem, self.settings
        rng = np.random.default_rng(SEED["truths"])
        wanted = (settings.truths, settings.outside)
        counts = [problem.candidates(count) if count else 0 for count in wanted]
        inside, beyond = (rng.standard_normal((count, *problem.input_noise_shape)) for count in counts)
        a = np.concatenate([problem.input(inside), problem.whitened(settings.scale * beyond)])
        u = problem.solve(a)
        accepted, outside = problem.accept(u), np.arange(len(a)) >= counts[0]
        groups = [np.flatnonzero(accepted & (outside == which))[:count] for which, count in enumerate(wanted)]
        if any(len(rows) < count for rows, count in zip(groups, wanted, strict=True)):
            raise SolveError(
                f"too few truths passed the filter of {type(problem).__name__}; lower `scale` or their number"
            )
        kept = np.concatenate(groups)
        exact = self.sensors(torch.from_numpy(problem.layout.score(u[kept]))).numpy()
        noise = settings.noise * math.sqrt((exact[: settings.truths] ** 2).mean())
        disturbed = exact + noise * np.random.default_rng(SEED["noise"]).standard_normal(exact.shape)
        return Truths(a[kept], u[kept], outside[kept], disturbed.astype(np.float32).astype(float), noise)

    @cached_property
    def points(self) -> Tensor:
        """Coordinates of the inputs at which gradients are compared, [points, d]."""
        rng = np.random.default_rng(SEED["points"])
        return torch.from_numpy(rng.standard_normal((self.settings.points, self.prior.dimension)))


def sensor_points(layout: Layout, counts: list[int]) -> np.ndarray:
    """Evenly spaced points away from the boundary, [m, axes]. The last one in time is at the end."""
    if len(counts) != len(layout.axes):
        raise ValueError(f"sensors: expected a number for each of the axes {layout.axes}, got {counts}")
    lines = []
    for axis, nodes, count in zip(layout.axes, layout.coordinates, counts, strict=True):
        if count > len(nodes):
            raise ValueError(f"sensors: {count} along {axis} are more than its {len(nodes)} nodes")
        end = count if axis == layout.time_axis else count + 1
        lines.append(nodes[0] + (nodes[-1] - nodes[0]) * np.arange(1, count + 1) / end)
    return np.array(list(product(*lines)))


class SolverModel:
    """The reference solver as a model: responses and exact tangents of the scored fields, in float64.

    Where it does not converge, the response is not a number, and an optimiser goes elsewhere.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self, a: Tensor) -> Tensor:
        return torch.from_numpy(self.problem.layout.score(self._solve(a.numpy())))

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """u [B, *tangent_shape] and w [B, q, *tangent_shape] for v [B, q, ...]."""
        inputs, directions = a.numpy(), v.numpy()
        u = self._solve(inputs)
        w = np.full((*directions.shape[:2], *self.problem.layout.tangent_shape), np.nan)
        good = np.flatnonzero(np.isfinite(u.reshape(len(u), -1)).all(1))
        if len(good) and (directions[good] == directions[good[:1]]).all():  # the prior is linear: one call for all
            w[good] = self.problem.tangents(inputs[good], u[good], directions[good[0]])
        else:
            for i in good:
                w[i] = self.problem.tangents(inputs[i : i + 1], u[i : i + 1], directions[i])[0]
        return torch.from_numpy(self.problem.layout.score(u)), torch.from_numpy(w)

    def _solve(self, a: np.ndarray) -> np.ndarray:
        try:
            return self.problem.solve(a)
        except SolveError:
            if len(a) == 1:
                return np.full((1, *self.problem.layout.response_shape), np.nan)
        return np.concatenate([self._solve(a[i : i + 1]) for i in range(len(a))])
