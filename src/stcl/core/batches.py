"""Batches as the library takes them from its users."""

from typing import Any

import torch
from torch import Tensor


def as_batch(name: str, x: Any) -> Tensor:
    """x as a tensor [B, ...] of real floating-point numbers. A ValueError says what is wrong with another one."""
    if isinstance(x, dict) or (isinstance(x, list | tuple) and any(isinstance(part, Tensor) for part in x)):
        raise ValueError(
            f"expected {name} as one tensor [B, ...], got a {type(x).__name__} of several; concatenate them along an "
            f"axis and take them apart in the model and in the residual"
        )
    x = torch.as_tensor(x)
    if x.is_complex():
        raise ValueError(
            f"{name} is complex; give real and imaginary part as two fields, [B, 2, ...], in model and residual"
        )
    if not x.is_floating_point():
        raise ValueError(f"expected {name} as a floating-point batch [B, ...], got {x.dtype} of shape {tuple(x.shape)}")
    if x.ndim < 2:
        hint = f"; one number a sample is {name}[:, None]" if x.ndim == 1 else ""
        raise ValueError(f"expected {name} as a batch [B, ...], got shape {tuple(x.shape)}{hint}")
    return x
