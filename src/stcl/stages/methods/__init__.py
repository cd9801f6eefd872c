"""The three ways to train, one file each, loaded by name: `build(setup)` gives the objective of every update."""

from dataclasses import dataclass
from pathlib import Path

import torch

from stcl.losses.data import DataLoss
from stcl.problems.base import Problem


@dataclass(frozen=True)
class Setup:
    """What a method may use: the problem, the cell's settings, and, if the method asks for one, the train bank."""

    problem: Problem
    data_loss: DataLoss
    settings: dict  # of the method, as in the config
    lam: float | None  # None for fno
    basis: str | None  # of sTCL's directions
    n_train: int
    seed: int
    device: torch.device
    bank: Path | None

    @property
    def settled_lam(self) -> float:
        """λ of a method with a derivative term."""
        if self.lam is None:
            raise ValueError("this method needs a λ; give one in the spec, or --decision with the file that holds it")
        return self.lam
