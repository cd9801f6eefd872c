"""The surrogate that a cell trains, from its settings."""

from stcl.core.layout import Layout
from stcl.operators.fno import FNO
from stcl.operators.settings import Network
from stcl.operators.surrogate import Surrogate


def build_surrogate(layout: Layout, network: Network) -> Surrogate:
    """The FNO surrogate of a layout, with fresh weights from torch's global generator."""
    shape = network.model_dump(exclude={"standardise"})
    return Surrogate(FNO(len(layout.channels), len(layout.responses), **shape), layout)
