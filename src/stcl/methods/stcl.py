"""Sketched tangent consistency: the sensitivity equation itself, along a few directions per update. No labels."""

import importlib

from stcl.losses.derivative_informed import DerivativeInformed
from stcl.losses.directions import SketchDirections
from stcl.losses.weighting import RatioWeight
from stcl.methods import Setup
from stcl.protocol import Stcl


def build(setup: Setup) -> DerivativeInformed:
    settings = Stcl.model_validate(setup.settings)
    form = importlib.import_module(f"stcl.losses.forms.{settings.form.name}")
    form_class = getattr(form, "".join(word.capitalize() for word in settings.form.name.split("_")))
    directions = SketchDirections(
        setup.problem, setup.basis, settings.q, settings.sketch, setup.device, seed=setup.seed
    )
    term = form_class(setup.problem, settings.form, directions)
    return DerivativeInformed(term, RatioWeight(setup.lam, settings.weighting, setup.device))
