"""‖DS_θ(a)[v] − w‖²: matching of stored tangents."""

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from stcl.operators.surrogate import Surrogate


class StoredTangents:
    """L = mean of (DS_θ(a)[v] − w)² over q directions of a bank, the same for the whole batch.

    The bank stays in host memory: an update moves only the batch's q labels.
    """

    def __init__(self, directions: Tensor, labels: Tensor, q: int, device: torch.device, seed: int) -> None:
        """The bank holds directions [r, *input_shape] and labels [N, r, *tangent_shape]."""
        self.directions, self.labels, self.q, self.device = directions.to(device), labels, q, device
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Directions of the bank, and the labels that the samples `rows` have along them."""
        chosen = torch.randperm(len(self.directions), generator=self.generator)[: self.q]
        labels = self.labels[rows[:, None], chosen].to(self.device, non_blocking=True)
        return self.directions[chosen.to(self.device)], labels

    def __call__(self, surrogate: Surrogate, a: Tensor, u: Tensor, drawn: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The prediction and the derivative loss from one pass; u is not used."""
        v, labels = drawn
        prediction, w = surrogate.value_and_tangents(a, v)
        return prediction, mse_loss(surrogate.layout.score(w), labels)

    def epoch_columns(self) -> dict[str, float]:
        return {}

    def ledger(self, samples: int) -> dict[str, int]:
        """Nothing is solved during training."""
        return {}

    def state_dict(self) -> dict:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict) -> None:
        self.generator.set_state(state["generator"])
