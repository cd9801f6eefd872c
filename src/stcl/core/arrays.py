"""Small functions on arrays. They take numpy arrays or torch tensors, and import torch only when they meet a tensor."""

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

_CONVERTED: dict[tuple[Any, ...], Any] = {}  # tensors of tables, by the table's id, which is its own while it lives


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
    floating, in x's dtype. It is converted once for as long as the table lives: an update copies nothing from the host.
    """
    if isinstance(x, np.ndarray):
        return table
    import torch

    dtype = x.dtype if np.issubdtype(table.dtype, np.floating) else None
    key = id(table), dtype, x.device
    if key not in _CONVERTED:
        # The tensor outlives the caller's context, so it is no inference tensor and, unlike from_numpy's, not wrapped.
        with torch.inference_mode(False):
            _CONVERTED[key] = torch.from_dlpack(table.copy()).to(x.device, dtype)
        weakref.finalize(table, _CONVERTED.pop, key)
    return _CONVERTED[key]


def relative_error(predicted: "Tensor", reference: "Tensor", batch_axes: int = 1) -> "Tensor":
    """‖predicted − reference‖₂ / ‖reference‖₂ over all axes but the first `batch_axes`."""
    difference = (predicted - reference).flatten(batch_axes)
    return difference.norm(dim=-1) / reference.flatten(batch_axes).norm(dim=-1)
