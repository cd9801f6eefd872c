"""A dispatch mode that proves that code keeps to one device and never asks it for a number."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations whose result, or the shape of whose result, the host must wait for.
_HOST_READS = {
    "_local_scalar_dense",
    "item",
    "is_nonzero",
    "equal",
    "allclose",
    "nonzero",
    "masked_select",
    "unique_dim",
    "_unique2",
    "unique_consecutive",
    "repeat_interleave",
}


class OneDevice(TorchDispatchMode):
    """Fail on host reads of tensors on `device`, on copies away from it, and on operations that mix it with another.

    Scalar tensors elsewhere are let through, as torch does: an optimiser's step counter lives on the host. With
    device "meta" this needs no accelerator, and the host's own bookkeeping is told from the network's numbers.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        here = [t for t in tensors if t.device.type == self.device.type]
        masked = name in {"index", "index_put_", "index_put"} and any(t.dtype == torch.bool for t in tensors)
        if here and (name in _HOST_READS or masked):
            raise AssertionError(f"{func} reads a tensor on {self.device} back to the host")
        if here and any(t.device.type != self.device.type and t.ndim > 0 for t in tensors):
            raise AssertionError(f"{func} mixes devices: {sorted({str(t.device) for t in tensors})}")
        # Before the call: a copy out of a meta tensor would fail by itself, and prove nothing about this mode.
        target = kwargs.get("device")
        if here and target is not None and torch.device(target).type != self.device.type:
            raise AssertionError(f"{func} copies from {self.device} to {target}")
        return func(*args, **kwargs)
