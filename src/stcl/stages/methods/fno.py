"""The plain neural operator, trained on data alone. The derivative-informed methods must beat it."""

from stcl.losses.data import DataOnly
from stcl.stages.methods import Setup


def build(setup: Setup) -> DataOnly:
    return DataOnly(setup.data_loss)
