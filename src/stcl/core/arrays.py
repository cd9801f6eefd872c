"""Small functions on arrays. They take numpy arrays or torch tensors, and import torch only when they meet a tensor."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def check_fields(what: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse arrays that are not finite batches of `shape`, before any solver sees them."""
    if array.ndim != len(shape) + 1 or array.shape[1:] != shape:
        raise ValueError(f"expected {what} of shape (samples, {', '.join(map(str, shape))}), got {array.shape}")
    if not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
        raise ValueError(
            f"{what} {bad[:5].tolist()} have non-finite values; check the prior or the store they came from"
        )


def norms(fields: np.ndarray) -> np.ndarray:
    """The Euclidean norm of each sample, [samples]."""
    return np.linalg.norm(fields.reshape(len(fields), -1), axis=1)


def unit_norm(fields: Any, axes: int) -> Any:
    """The fields, numpy or torch, each divided by its Euclidean norm over its last `axes` axes."""
    square = (fields * fields).reshape(*fields.shape[: fields.ndim - axes], -1).sum(-1)
    return fields / (square**0.5).reshape(*square.shape, *([1] * axes))


def like(x: Any, table: np.ndarray) -> Any:
    """A constant table that can be combined with x.

    It is the table itself if x is a numpy array. If x is a tensor, so is the table: on x's device and, if it is
    floating, in x's dtype.
    """
    if isinstance(x, np.ndarray):
        return table
    import torch

    tensor = torch.from_numpy(table).to(x.device)
    return tensor.to(x.dtype) if tensor.is_floating_point() else tensor


def relative_error(predicted: "Tensor", reference: "Tensor", batch_axes: int = 1) -> "Tensor":
    """‖predicted − reference‖₂ / ‖reference‖₂ over all axes but the first `batch_axes`."""
    difference = (predicted - reference).flatten(batch_axes)
    return difference.norm(dim=-1) / reference.flatten(batch_axes).norm(dim=-1)
