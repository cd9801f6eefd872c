"""The three ways to train, which are loaded by name. Each file has `build(setup)`, the objective of an update."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from stcl.losses.data import DataLoss
from stcl.problems.base import Problem


@dataclass(frozen=True)
class Setup:
    """What a method may use: the problem, the settings of the cell, and the train bank if the method needs one."""

    problem: Problem
    data_loss: DataLoss
    settings: dict  # settings of the method, as in the configuration
    lam: float | None  # None for fno
    basis: str | None  # distribution of the directions of sTCL; None for other methods
    n_train: int
    seed: int
    device: torch.device
    bank: Path | None
    responses: Tensor  # the training responses on the device

    @property
    def settled_lam(self) -> float:
        """The λ of a method with a derivative term."""
        if self.lam is None:
            raise ValueError("this method needs a λ; give one in the spec, or --decision with the file that holds it")
        return self.lam
