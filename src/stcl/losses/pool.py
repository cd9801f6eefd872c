"""Rows of a fixed tensor, one update after the other."""

import torch
from torch import Tensor


class Pool:
    """Gives the next rows of a tensor [size, ...], which begins anew behind its end."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.size = rows, len(rows)
        self.position = 0  # index of the next row

    def next(self, count: int) -> Tensor:
        # The rows of an update are always next to each other in memory.
        if len(self.rows) < self.size + count:
            self.rows = torch.cat([self.rows[: self.size]] * (2 + count // self.size))[: self.size + count]
        rows = self.rows[self.position : self.position + count]
        self.position = (self.position + count) % self.size
        return rows
