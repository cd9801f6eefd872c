"""Directions for the inputs of a batch, from the batch itself or from the user."""

from collections.abc import Callable

import torch
from torch import Tensor

from stcl.core.arrays import unit_norm
from stcl.core.infer_layout import without_ones
from stcl.losses.directions import combinations

DirectionsOf = Tensor | Callable[[int], Tensor] | str | None  # a pool, a function of the count, "white", or the batch


class BatchDirections:
    """q directions for each sample, [B, q, ...], in the space and the shape of the model's inputs.

    Without a source they are random combinations, of unit norm, of what the batch's inputs differ by. A batch of one
    takes the differences of the last batch that had some.
    """

    inputs: Tensor  # inputs [B, ...] of the current batch; they must be set before a draw

    def __init__(self, source: DirectionsOf, q: int, known: Callable[[], Tensor] | None = None) -> None:
        """Directions from a source; without one, `known()` inputs stand in if the first batch has no differences."""
        self.source, self.q, self._known = source, q, known
        self._several: Tensor | None = None

    def draw(self, batch: int) -> Tensor:
        lead, source, shape = (batch, self.q), self.source, tuple(self.inputs.shape[1:])
        if source is None:
            # Equal inputs are exactly zero apart, while their mean is rounded. So a batch of them has no direction, and
            # 0/0 becomes a direction of zero, which costs nothing.
            inputs = self._differing(batch)
            return combinations(inputs - inputs[:1], lead).nan_to_num(nan=0.0)
        if isinstance(source, str):
            noise = torch.randn(*lead, *shape, dtype=self.inputs.dtype, device=self.inputs.device)
            return unit_norm(noise, len(shape))
        count = batch * self.q
        if isinstance(source, Tensor):
            drawn = source[torch.randint(len(source), (count,), device=source.device)]
        else:
            drawn = torch.as_tensor(source(count))
        if len(drawn) != count or without_ones(drawn.shape[1:]) != without_ones(shape):
            raise ValueError(
                f"expected directions of shape (count, ...) with the shape {shape} of an input, got "
                f"{tuple(drawn.shape)} for a count of {count}"
            )
        return drawn.to(self.inputs).reshape(*lead, *shape)

    def _differing(self, batch: int) -> Tensor:
        """Inputs whose differences make directions. Whether a batch has any is read from the first one alone."""
        if batch > 1 and (self._several is not None or not all_equal(self.inputs)):
            self._several = self.inputs
        elif self._several is None:
            self._several = None if self._known is None else self._known()
            if self._several is None or all_equal(self._several):
                self._several = None
                raise ValueError(
                    "directions are differences between inputs, and this first batch has none; start with a larger "
                    "batch, or give directions='white', a tensor of directions [count, ...], or a function of the count"
                )
        return self._several.to(self.inputs).reshape(-1, *self.inputs.shape[1:])


def all_equal(inputs: Tensor) -> bool:
    """Whether a batch has no differences: one input, or the same one again and again."""
    return bool((inputs == inputs[:1]).all())
