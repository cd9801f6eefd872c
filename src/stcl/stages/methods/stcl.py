"""Sketched tangent consistency. Each update uses the sensitivity equation along a few directions, without labels."""

from stcl.core.seeds import stream_seed
from stcl.losses import forms
from stcl.losses.derivative_informed import DerivativeInformed
from stcl.losses.directions import SketchDirections
from stcl.losses.settings import Stcl
from stcl.losses.sketched_tangents import SketchedTangents
from stcl.losses.weighting import RatioWeight
from stcl.stages.methods import Setup


def build(setup: Setup) -> DerivativeInformed:
    settings = Stcl.model_validate(setup.settings)
    seed = stream_seed(setup.seed, "directions")
    directions = SketchDirections(setup.problem, setup.basis, settings.q, settings.sketch, setup.device, seed)
    term = SketchedTangents(forms.load(setup.problem, settings.settled_form), directions)
    return DerivativeInformed(setup.data_loss, term, RatioWeight(setup.settled_lam, settings.weighting, setup.device))
