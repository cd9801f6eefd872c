"""Poisson's equation, a problem of one's own: snakemake poisson --configfile examples/workflow/poisson.yaml"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import dstn, idstn

from stcl import Layout, Problem

SEED = {"train": 1, "val": 2, "test": 3, "sketch": 4}


@dataclass(frozen=True)
class Poisson(Problem):
    """−Δu = a  on (0,1)²,  u = 0 on the boundary;  tangent: −Δw = v."""

    n: int = 33  # nodes per side, boundary included
    modes: int = 8  # cosines per axis in the prior
    tangent_class = "spd"

    @cached_property
    def layout(self) -> Layout:
        x, axes = np.linspace(0.0, 1.0, self.n), ("x1", "x2")
        fields = {"inputs": ("a",), "responses": ("u",), "scored": ("u",), "channels": (*axes, "a")}
        return Layout(axes=axes, coordinates=(x, x), lengths=(1.0, 1.0), input_axes=axes, **fields)

    noise_shape = property(lambda self: (self.modes, self.modes))

    def inputs(self, count, split):
        return self._fields(np.random.default_rng(SEED[split]).standard_normal((count, *self.noise_shape)))

    def directions(self, count, stream):
        return self.direction(np.random.default_rng(10 + SEED[stream]).standard_normal((count, *self.noise_shape)))

    def direction(self, noise):
        fields = self._fields(noise)
        return fields / ((fields**2).sum((-2, -1)) ** 0.5)[..., None, None]

    def _fields(self, noise):
        """Σ_kl noise_kl / (1 + k² + l²) cos(kπx₁) cos(lπx₂), with operations that numpy and torch share."""
        k = np.arange(self.modes)
        tables = np.cos(np.pi * np.outer(k, self.layout.coordinates[0])), 1 / (1.0 + k[:, None] ** 2 + k**2)
        waves, weights = tables if isinstance(noise, np.ndarray) else map(noise.new_tensor, tables)
        return waves.swapaxes(0, 1) @ (noise * weights) @ waves

    def solve(self, a):
        line = (2 * (self.n - 1) * np.sin(np.pi * np.arange(1, self.n - 1) / (2 * (self.n - 1)))) ** 2
        modes = dstn(a[:, 1:-1, 1:-1], type=1, axes=(1, 2)) / (line[:, None] + line)
        return np.pad(idstn(modes, type=1, axes=(1, 2)), ((0, 0), (1, 1), (1, 1)))

    def tangents(self, a, u, v):
        return np.repeat(self.solve(v)[None], len(a), axis=0)

    def residual(self, u, a):  # the walls are zero: their nodes do not enter
        from torch.nn.functional import pad

        u = pad(u[..., 1:-1, 1:-1], (1, 1, 1, 1))
        neighbours = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2]
        return (4 * u[..., 1:-1, 1:-1] - neighbours) * (self.n - 1) ** 2 - a[..., 1:-1, 1:-1]
