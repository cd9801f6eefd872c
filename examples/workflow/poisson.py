"""Poisson's equation, a problem of one's own: copy this file to src/stcl/problems and run the study poisson.yaml."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import dstn, idstn

from stcl.core.arrays import check_fields, like, unit_norm
from stcl.core.layout import Layout
from stcl.problems._square import cosines, embed, inner, laplacian, scalar_layout, zero_boundary
from stcl.problems.base import Problem, Split, Stream

SEED = {"train": 1, "val": 2, "test": 3, "sketch": 4}


@dataclass(frozen=True)
class Poisson(Problem):
    """−Δu = a  on (0,1)²,  u = 0 on the boundary;  tangent: −Δw = v."""

    n: int = 33  # nodes per side, boundary included
    modes: int = 8  # cosines per axis in the prior

    tangent_class = "spd"

    @cached_property
    def layout(self) -> Layout:
        return scalar_layout(np.linspace(0.0, 1.0, self.n))

    # -- prior ------------------------------------------------------------------------------------------------

    @property
    def noise_shape(self) -> tuple[int, ...]:
        return (self.modes, self.modes)

    def direction(self, noise):
        return unit_norm(self._fields(noise), axes=2)

    def inputs(self, count: int, split: Split) -> np.ndarray:
        return self._fields(np.random.default_rng(SEED[split]).standard_normal((count, *self.noise_shape)))

    def directions(self, count: int, stream: Stream) -> np.ndarray:
        return self.direction(np.random.default_rng(10 + SEED[stream]).standard_normal((count, *self.noise_shape)))

    def _fields(self, noise):
        k, basis = np.arange(self.modes), like(noise, cosines(self.modes, self.layout.coordinates[0]))
        return basis.swapaxes(0, 1) @ (noise / like(noise, 1.0 + k[:, None] ** 2 + k**2)) @ basis

    # -- solver and equation ----------------------------------------------------------------------------------

    def solve(self, a: np.ndarray) -> np.ndarray:
        check_fields("sources a", a, self.layout.input_shape)
        line = (2 * (self.n - 1) * np.sin(np.pi * np.arange(1, self.n - 1) / (2 * (self.n - 1)))) ** 2
        return embed(idstn(dstn(inner(a), type=1, axes=(1, 2)) / (line[:, None] + line), type=1, axes=(1, 2)))

    def tangents(self, a: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.repeat(self.solve(v)[None], len(a), axis=0)

    def residual(self, u, a):
        return -laplacian(zero_boundary(u), 1 / (self.n - 1)) - inner(a)
