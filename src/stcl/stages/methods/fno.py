"""Data only: the plain neural operator, and the reference the derivative-informed methods must beat."""

from stcl.losses.data import DataOnly
from stcl.stages.methods import Setup


def build(setup: Setup) -> DataOnly:
    return DataOnly(setup.data_loss)
