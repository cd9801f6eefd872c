"""How much of the gradient's variance comes from the derivative term: whether more directions would help."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from stcl.losses.flat_gradient import flat_gradient


class VarianceShare:
    """The share V(∇ term) / V(∇ (data + term)) of the weighted derivative term in the variance of the gradient.

    V(g) = E‖g − E g‖² is estimated as the updates go, with exponential averages. More directions q per update lower the
    variance of the derivative term alone. So the paper's rule is to increase q where this share is substantial; its own
    runs have 0.7 to 14.5 %, and a larger q does not help them.

    An update costs two backward passes more, so it is enough to watch some of them.

    parameters  the model's parameters
    decay       of the averages: they look back over about 1 / (1 − decay) watched updates

    >>> import torch, stcl
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(4, 4)
    >>> watch = stcl.VarianceShare(model.parameters())
    >>> for _ in range(200):
    ...     x = torch.randn(8, 4)
    ...     data, term = model(x).square().mean(), 0.1 * model(torch.randn(8, 4)).square().mean()
    ...     watch.add(data, term)  # before the backward pass
    >>> 0.005 < watch.share < 0.02  # a tenth of the gradient has a hundredth of the variance
    True
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float = 0.99) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"expected a decay between 0 and 1, got {decay}")
        self.parameters, self.decay = [p for p in parameters if p.requires_grad], decay
        self.count = 0
        self._mean: Tensor | None = None  # gradients of the term and of the whole, [2, parameters]
        self._variance: Tensor | None = None  # [2]

    def add(self, data: Tensor, term: Tensor) -> None:
        """Count one update by its data loss and its weighted derivative term, before their backward pass."""
        gradients = torch.stack([flat_gradient(loss, self.parameters) for loss in (term, data)])
        gradients[1] += gradients[0]
        self.count += 1
        if self._mean is None or self._variance is None:
            self._mean, self._variance = gradients, gradients.new_zeros(2)
            return
        deviation = gradients - self._mean
        new = 1 - self.decay
        self._mean = self._mean + new * deviation
        self._variance = self.decay * (self._variance + new * deviation.square().sum(1))

    @property
    def share(self) -> float | None:
        """The share so far; None before the second update, or if nothing varies."""
        if self._variance is None or self.count < 2:
            return None
        term, whole = self._variance.tolist()
        return term / whole if whole > 0 else None
