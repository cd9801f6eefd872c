"""A seed of its own for each random stream of a training."""

import hashlib
from typing import Literal

Stream = Literal["batches", "directions", "bank", "inputs"]


def stream_seed(seed: int, stream: Stream) -> int:
    """The seed of a stream of the cell with this seed.

    Streams that start from one seed begin with the same numbers: directions would begin with the initial weights. The
    weights themselves are drawn with the cell's own seed, as the published ones are.
    """
    digest = hashlib.sha256(f"{stream} of seed {seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits
