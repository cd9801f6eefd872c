"""The surrogate that a cell trains, from its settings."""

import torch
from torch import Tensor

from stcl.core.layout import Layout
from stcl.operators.fno import FNO
from stcl.operators.settings import Network
from stcl.operators.surrogate import Surrogate


def build_surrogate(layout: Layout, network: Network) -> Surrogate:
    """The FNO surrogate of a layout, with fresh weights from torch's global generator."""
    shape = network.model_dump(exclude={"standardise"})
    return Surrogate(FNO(len(layout.channels), len(layout.responses), **shape), layout)


def trained_surrogate(layout: Layout, network: Network, weights: dict[str, Tensor]) -> Surrogate:
    """The FNO surrogate of a layout with the weights of a training. Others than its own raise RuntimeError."""
    # The initial weights, which are replaced, take nothing from the random numbers of the caller.
    with torch.random.fork_rng(devices=[]):
        surrogate = build_surrogate(layout, network)
    surrogate.load_state_dict(weights)
    return surrogate.eval()
