"""The q directions of an update."""

import torch
from torch import Tensor

from stcl.core.arrays import unit_norm
from stcl.losses.pool import Pool
from stcl.losses.settings import Sketch
from stcl.problems.base import Problem


class SketchDirections:
    """Draws directions on the network's grid from the basis: [q, ...] shared by the batch, or [B, q, ...]."""

    def __init__(
        self, problem: Problem, basis: str | None, q: int, settings: Sketch, device: torch.device, seed: int
    ) -> None:
        self.problem, self.basis, self.q, self.settings = problem, basis, q, settings
        self.axes = len(problem.layout.input_shape)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.device = device
        self.pool = Pool(self._pool()) if settings.source == "pool" else None

    def draw(self, batch: int) -> Tensor:
        lead = (self.q,) if self.settings.shared else (batch, self.q)
        if self.pool is None:
            return self._fresh(lead)
        rows = self.pool.next(self.q if self.settings.shared else batch * self.q)
        return rows.reshape(*lead, *rows.shape[1:])

    def _pool(self) -> Tensor:
        """The same pool for every training seed, as published."""
        if self.basis == "white":
            generator = torch.Generator().manual_seed(0)
            return self._white((self.settings.pool,), generator).to(self.device)
        drawn = self.problem.network_input(self.problem.directions(self.settings.pool, "sketch"))
        return torch.as_tensor(drawn, dtype=torch.get_default_dtype(), device=self.device)

    def _fresh(self, lead: tuple[int, ...]) -> Tensor:
        if self.basis == "white":
            return self._white(lead, self.generator)
        noise = torch.randn(*lead, *self.problem.noise_shape, generator=self.generator, device=self.device)
        return self.problem.direction(noise)

    def _white(self, lead: tuple[int, ...], generator: torch.Generator) -> Tensor:
        shape = (*lead, *self.problem.layout.input_shape)
        return unit_norm(torch.randn(shape, generator=generator, device=generator.device), self.axes)

    def state_dict(self) -> dict:
        return {"position": self.pool and self.pool.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict) -> None:
        if self.pool is not None:
            self.pool.position = state["position"]
        self.generator.set_state(state["generator"])


def combinations(inputs: Tensor, lead: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
    """Directions [*lead, ...] of unit norm with the covariance of inputs [N, ...]: random sums of their differences.

    If an input is a few numbers of different sizes, the largest alone decides the norm. Where it happens to be small,
    all others would become huge. So what a sum is divided by is at least half of its norm in units of the entries'
    standard deviations. That is less than the norm itself where all entries are alike, as those of a field are.
    """
    centred = (inputs - inputs.mean(0)).reshape(len(inputs), -1)  # an input may be one number
    shares = torch.randn(*lead, len(inputs), generator=generator, dtype=inputs.dtype, device=inputs.device)
    drawn = shares @ centred
    deviations = centred.square().mean(0).sqrt()
    varying = deviations > 0
    squares = (drawn / deviations.where(varying, 1)).square().sum(-1, keepdim=True) / varying.sum()
    least = squares.sqrt() * torch.linalg.vector_norm(deviations) / 2
    norm = torch.linalg.vector_norm(drawn, dim=-1, keepdim=True).maximum(least)
    return (drawn / norm).reshape(*lead, *inputs.shape[1:])
