"""Recording and replay of operations on the CPU, as a CUDA graph does it on a GPU.

What is recorded are operations with their memory. Replay repeats them and nothing else: no Python, no branches, no new
numbers. So whatever a function does on the host is missing in a replay, as it is on a GPU.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recording(TorchDispatchMode):
    """Keeps every operation with its arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, tuple, dict, list[Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        aliases = [r.alias_info for r in func._schema.returns]
        if not aliases or any(alias is None or alias.is_write for alias in aliases):  # all but views
            # A result in memory of its own is written there again. One that is an argument changes in place.
            own = [x for x in tree_leaves(results) if isinstance(x, Tensor)] if None in aliases else []
            self.operations.append((func, args, kwargs, own))
        return results

    def replay(self) -> None:
        with torch._C._AutoDispatchBelowAutograd():
            for func, args, kwargs, own in self.operations:
                results = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, Tensor)] if own else None
                if results is None:
                    func(*args, **kwargs)
                    continue
                for memory, result in zip(own, results, strict=True):
                    memory.copy_(result)


def by_recording(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[Callable[[], None], Tensor]:
    """Record a call. Unlike on a GPU the call is made, so the first replay has nothing to do."""
    recording = Recording()
    with recording:
        result = function(*inputs)
    made = iter([True])
    return lambda: None if next(made, False) else recording.replay(), result
