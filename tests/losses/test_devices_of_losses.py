"""Whole updates keep to one device and never ask it for a number."""

import pytest
import torch
from dispatch import OneDevice
from reference import reference, surrogate

from stcl.losses import forms, rule, settings
from stcl.losses.data import DataLoss, DataOnly
from stcl.losses.derivative_informed import DerivativeInformed
from stcl.losses.directions import SketchDirections
from stcl.losses.settings import Sketch, Weighting
from stcl.losses.sketched_tangents import SketchedTangents
from stcl.losses.stored_tangents import StoredTangents
from stcl.losses.weighting import RatioWeight

KRYLOV = settings.KrylovTarget(metric=settings.InverseLaplacian(), steps=3)
FORMS = [
    ("diffusion", None),
    ("diffusion", KRYLOV),
    ("diffusion", KRYLOV.model_copy(update={"state": "prediction"})),
    ("diffusion", settings.PreconditionedResidual(metric=settings.ShiftedLaplacian(shift=12.5))),
    ("diffusion", settings.PreconditionedResidual(metric=settings.FittedLaplacian())),
    ("diffusion", settings.KrylovTarget(metric=settings.FittedLaplacian(), steps=3)),
    ("helmholtz", None),
    ("helmholtz", settings.SolvedTarget(solver=settings.Krylov(steps=3), state="corrected", warm_start=True)),
    ("allen_cahn", settings.SolvedTarget(solver=settings.SpaceTime(steps=3))),
    ("allen_cahn", settings.SolvedTarget(solver=settings.March(), state="corrected")),
    ("burgers", settings.SolvedTarget(solver=settings.March())),
    ("navier_stokes", settings.SolvedTarget(solver=settings.Stokes(steps=3), state="corrected", warm_start=True)),
    ("burgers", None),
    ("allen_cahn", None),
    ("navier_stokes", None),
    ("burgers", settings.JacobianPenalty()),
]


class Given:
    """Directions that exist already: generators have no meta device."""

    def __init__(self, v: torch.Tensor) -> None:
        self.v = v

    def draw(self, batch: int) -> torch.Tensor:
        return self.v


def check(objective, name: str, device: str) -> None:
    """Two updates, the second one under observation: the first moves constant tables to the device."""
    ref = reference(name)
    model = surrogate(ref.problem).to(device)
    a, u, rows = ref.a.to(device), ref.u.to(device), torch.arange(3)
    optimiser = torch.optim.Adam(model.parameters(), fused=device == "cpu")

    def update():
        optimiser.zero_grad()
        losses = objective(model, a, u, objective.draw(rows))
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return torch.stack([losses.data, losses.derivative, losses.gamma])

    update()
    with OneDevice(device):
        assert update().device.type == device


@pytest.mark.parametrize("update", ["before", "after"])
@pytest.mark.parametrize(("name", "chosen"), FORMS, ids=[f"{n}-{f.name if f else 'default'}" for n, f in FORMS])
def test_stcl(name, chosen, update):
    ref, device = reference(name), "meta"
    form = forms.load(ref.problem, chosen or rule.default_form(ref.problem))
    term = SketchedTangents(form, Given(ref.v.to(device)))
    weight = RatioWeight(0.5, Weighting(update=update), torch.device(device))
    check(DerivativeInformed(DataLoss(ref.problem.layout, 0.05), term, weight), name, device)


@pytest.mark.parametrize("source", ["fresh", "pool"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ["diffusion", "burgers", "allen_cahn", "navier_stokes"])
def test_drawing_directions(name, source, shared):
    problem = reference(name).problem
    directions = SketchDirections(problem, "prior", 3, Sketch(source=source, shared=shared), torch.device("cpu"), 0)
    directions.draw(2)
    with OneDevice("cpu"):
        directions.draw(2)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_offline_di(device):
    """The bank is on the host: an update sends its labels to the device and reads nothing back."""
    ref = reference("navier_stokes")
    term = StoredTangents(ref.v, ref.problem.layout.score(ref.w), 2, torch.device(device), seed=0)
    weight = RatioWeight(0.5, Weighting(), torch.device(device))
    check(DerivativeInformed(DataLoss(ref.problem.layout, 0.05), term, weight), "navier_stokes", device)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_fno(device):
    check(DataOnly(DataLoss(reference("navier_stokes").problem.layout, 0.05)), "navier_stokes", device)
