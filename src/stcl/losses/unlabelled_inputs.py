"""Inputs of a problem's prior that nobody has solved."""

import torch
from torch import Tensor

from stcl.losses.pool import Pool
from stcl.problems.base import Problem


class UnlabelledInputs:
    """Draws inputs on the network's grid, on the training device: new ones at every update, or a pool's in turn.

    The stream is that of the cell's seed and of nothing else. The splits of a problem have streams of their own.
    """

    def __init__(self, problem: Problem, batch: int | None, pool: int | None, device: torch.device, seed: int) -> None:
        """An update draws `batch` inputs or, without it, as many as it has labelled samples."""
        self.problem, self.batch, self.device = problem, batch, device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.pool = None if pool is None else Pool(self._fresh(pool))

    def draw(self, labelled: int) -> Tensor:
        """The inputs [B, *input_shape] of an update with as many labelled samples."""
        count = self.batch or labelled
        return self._fresh(count) if self.pool is None else self.pool.next(count)

    def _fresh(self, count: int) -> Tensor:
        noise = torch.randn(count, *self.problem.input_noise_shape, generator=self.generator, device=self.device)
        return self.problem.network_input(self.problem.input(noise))

    def state_dict(self) -> dict:
        return {"position": self.pool and self.pool.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict) -> None:
        self.generator.set_state(state["generator"])
        if self.pool is not None:
            self.pool.position = state["position"]
