"""Sketched tangent consistency. Each update uses the sensitivity equation along a few directions, without labels."""

import importlib
from functools import partial

import torch

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
    return _beyond_labels(setup, settings, directions)


def _beyond_labels(setup: Setup, settings: Stcl, directions: SketchDirections) -> Objective:
    """The objective with unlabelled inputs. Its modules are loaded by name: other cells do not depend on them."""
    objectives = importlib.import_module("stcl.losses.beyond_labels")
    problem, chosen = setup.problem, settings.settled_form
    corrects = getattr(chosen, "state", None) == "corrected"
    # A corrected prediction is handed to the form as a label. The labelled batch has labels of its own.
    form = forms.load(problem, chosen.model_copy(update={"state": "label"}) if corrects else chosen)
    term = objectives.UnlabelledTangents(
        problem, form, setup.data_loss, settings.value, corrects, _largest(setup) if problem.resonant else None
    )
    inputs = objectives.UnlabelledInputs(
        problem, settings.unlabelled_batch, settings.pool, setup.device, stream_seed(setup.seed, "inputs")
    )
    weight = partial(objectives.JudgedWeight, setup.settled_lam, settings.weighting, setup.device)
    return objectives.BeyondLabels(
        setup.data_loss,
        term,
        SketchedTangents(form, directions) if settings.inputs == "both" else None,
        inputs,
        directions,
        weight(),
        weight() if settings.value == "residual" else None,
    )


def _largest(setup: Setup) -> torch.Tensor:
    """The largest norm of the scored training responses, which near-resonant ones exceed."""
    if setup.responses is None:
        raise ValueError("unlabelled inputs of a problem with resonances need the training responses")
    return torch.linalg.vector_norm(setup.problem.layout.score(setup.responses).flatten(1), dim=1).max()
