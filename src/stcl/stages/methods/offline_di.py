"""Offline derivative-informed training. Tangents are solved for and stored beforehand, and training matches them."""

import torch

from stcl.losses.derivative_informed import DerivativeInformed
from stcl.losses.settings import OfflineDi
from stcl.losses.stored_tangents import StoredTangents
from stcl.losses.weighting import RatioWeight
from stcl.runtime import stores
from stcl.stages.methods import Setup
from stcl.stages.seeds import stream_seed


def build(setup: Setup) -> DerivativeInformed:
    if setup.bank is None:
        raise ValueError("method offline_di needs the train bank; pass --bank MANIFEST")
    settings = OfflineDi.model_validate(setup.settings)
    bank = stores.read(setup.bank, samples=setup.n_train)
    v, w = torch.from_numpy(bank["v"]), torch.from_numpy(bank["w"])
    term = StoredTangents(v, w, settings.q, setup.device, stream_seed(setup.seed, "bank"))
    return DerivativeInformed(setup.data_loss, term, RatioWeight(setup.settled_lam, settings.weighting, setup.device))
