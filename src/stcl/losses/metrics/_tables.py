"""Constant arrays that follow the tensors they meet."""

import numpy as np
import torch
from torch import Tensor


class Tables:
    """Arrays as tensors of any dtype on any device, converted once for each."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays
        self._converted: dict[tuple[torch.dtype, torch.device], tuple[Tensor, ...]] = {}

    def like(self, r: Tensor) -> tuple[Tensor, ...]:
        key = r.dtype, r.device
        if key not in self._converted:
            with torch.inference_mode(False):  # they outlive the caller's context
                self._converted[key] = tuple(torch.as_tensor(t, dtype=r.dtype, device=r.device) for t in self.arrays)
        return self._converted[key]
