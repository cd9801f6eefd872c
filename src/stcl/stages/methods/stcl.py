"""Sketched tangent consistency. Each update uses the sensitivity equation along a few directions, without labels."""

import importlib

from stcl.losses import forms
from stcl.losses.data import Objective
from stcl.losses.derivative_informed import DerivativeInformed
from stcl.losses.directions import SketchDirections
from stcl.losses.settings import Stcl
from stcl.losses.sketched_tangents import SketchedTangents
from stcl.losses.weighting import RatioWeight
from stcl.stages.methods import Setup
from stcl.stages.seeds import stream_seed


def build(setup: Setup) -> Objective:
    settings = Stcl.model_validate(setup.settings)
    seed = stream_seed(setup.seed, "directions")
    directions = SketchDirections(setup.problem, setup.basis, settings.q, settings.sketch, setup.device, seed)
    if settings.inputs == "labelled":
        term = SketchedTangents(forms.load(setup.problem, settings.settled_form), directions)
        weight = RatioWeight(setup.settled_lam, settings.weighting, setup.device)
        return DerivativeInformed(setup.data_loss, term, weight)
    # The objective with unlabelled inputs is loaded by name: other cells do not depend on its module.
    beyond_labels = importlib.import_module("stcl.losses.beyond_labels")
    return beyond_labels.build(
        setup.problem,
        settings,
        setup.data_loss,
        directions,
        setup.settled_lam,
        setup.responses,
        stream_seed(setup.seed, "inputs"),
    )
