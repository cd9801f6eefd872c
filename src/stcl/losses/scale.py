"""The map from the numbers that a model works with to those of the equation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stcl.core.arrays import like

ScaleOf = tuple[Any, Any] | Callable[[Tensor], Tensor] | None  # (mean, deviation), a function, or nothing to do


class Scale:
    """What turns a model's inputs and outputs into the a and u of the equation.

    a, u  each is a pair (mean, deviation), or a function of a batch [B, ...], or None where nothing is scaled. With a
          pair, the equation's value is mean + deviation · (the model's). Both are numbers, or arrays that broadcast to
          one sample in the model's shape, such as [fields, 1, 1]. A function takes the model's numbers and gives the
          equation's, for example torch.exp if the model sees log-coefficients.

    Tangents follow by the chain rule: v = Da[v_model] and w = Du[w_model].

    >>> import torch, stcl
    >>> scale = stcl.Scale(a=torch.exp, u=(2.0, 10.0))
    >>> scale.responses(torch.ones(1, 3))  # 2 + 10 · 1
    tensor([[12., 12., 12.]])
    >>> scale.input_tangents(torch.zeros(1, 3), torch.ones(1, 2, 3))  # e⁰ · 1
    tensor([[[1., 1., 1.],
             [1., 1., 1.]]])
    """

    def __init__(self, a: ScaleOf = None, u: ScaleOf = None) -> None:
        self._a, self._u = _part("a", a), _part("u", u)

    def __repr__(self) -> str:
        return f"Scale(a={self._a}, u={self._u})"

    def inputs(self, a: Tensor) -> Tensor:
        """The equation's inputs for the model's, [B, ...]."""
        return self._a.value(a)

    def responses(self, u: Tensor) -> Tensor:
        """The equation's responses for the model's, [B, ...]."""
        return self._u.value(u)

    def input_tangents(self, a: Tensor, v: Tensor) -> Tensor:
        """The equation's directions for the model's v [B, q, ...] at the model's inputs a [B, ...]."""
        return self._a.tangent(a, v)

    def response_tangents(self, u: Tensor, w: Tensor) -> Tensor:
        """The equation's tangents for the model's w [B, q, ...] at the model's outputs u [B, ...]."""
        return self._u.tangent(u, w)


class _Affine:
    def __init__(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        self.mean, self.deviation = mean, deviation

    def __repr__(self) -> str:
        return f"mean + deviation · model, of shapes {self.mean.shape} and {self.deviation.shape}"

    def value(self, x: Tensor) -> Tensor:
        if not all(_fits(table.shape, x.shape) for table in (self.mean, self.deviation)):
            raise ValueError(
                f"a mean of shape {self.mean.shape} and a deviation of shape {self.deviation.shape} do not broadcast "
                f"to samples of shape {tuple(x.shape[1:])}; give one number for each field, as in [fields, 1, 1]"
            )
        return like(x, self.mean) + like(x, self.deviation) * x

    def tangent(self, x: Tensor, v: Tensor) -> Tensor:
        return like(v, self.deviation) * v


def _fits(table: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    """Whether a table is the same for all samples of a batch, and broadcasts to each."""
    missing = len(batch) - len(table)
    return missing >= 0 and all(n in (1, m) for n, m in zip((1,) * missing + table, (1, *batch[1:]), strict=True))


class _Function:
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def value(self, x: Tensor) -> Tensor:
        return self.function(x)

    def tangent(self, x: Tensor, v: Tensor) -> Tensor:
        def along(v_k: Tensor) -> Tensor:
            return torch.func.jvp(self.function, (x,), (v_k,))[1]

        return torch.func.vmap(along, in_dims=1, out_dims=1)(v)


def _part(name: str, given: ScaleOf) -> _Affine | _Function:
    if given is None:
        return _Affine(np.zeros(()), np.ones(()))
    if callable(given):
        return _Function(given)
    try:
        mean, deviation = (np.asarray(torch.as_tensor(x).detach().cpu(), dtype=np.float64) for x in given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scale of {name} must be a pair (mean, deviation) or a function, got {given!r}") from error
    if not np.isfinite(mean).all() or not np.isfinite(deviation).all() or (deviation == 0).any():
        raise ValueError(f"scale of {name} needs a finite mean and a finite deviation that is nowhere zero")
    return _Affine(mean, deviation)
