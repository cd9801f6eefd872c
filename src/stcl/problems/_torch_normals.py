"""The normals that torch's CPU generator draws, without torch. Published draws come from that generator."""

from typing import Literal

import numpy as np

_BLOCK = 16  # torch makes normals from blocks of 16 uniforms: the first eight give radii, the last eight angles


def torch_normals(seed: int, count: int, dtype: Literal["float32", "float64"]) -> np.ndarray:
    """The first `count` values of torch.randn after `manual_seed(seed)`, to the rounding of `dtype`, as float64.

    A uniform of float32 takes 24 bits of one Mersenne word, a uniform of float64 takes 53 bits of two words. torch
    draws the same numbers whenever the size of its tensor is a multiple of 16, as that of all published draws is.
    """
    blocks = -(-count // _BLOCK)
    stream = np.random.RandomState(seed)
    if dtype == "float32":
        short = stream.randint(2**32, size=blocks * _BLOCK, dtype=np.uint32)
        uniform: np.ndarray = (short & (2**24 - 1)) / 2.0**24
    else:
        words = stream.randint(2**32, size=(blocks * _BLOCK, 2), dtype=np.uint32).astype(np.uint64)
        uniform = ((words[:, 0] << np.uint64(32) | words[:, 1]) & np.uint64(2**53 - 1)) * 2.0**-53
    radii, angles = uniform.reshape(blocks, 2, _BLOCK // 2).transpose(1, 0, 2)
    radius, angle = np.sqrt(-2 * np.log1p(-radii)), 2 * np.pi * angles
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:count]
