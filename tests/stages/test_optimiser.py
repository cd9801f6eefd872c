"""The optimiser and its schedule against those of torch, bit by bit over hundreds of updates."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from stcl.runtime import checkpoint
from stcl.stages.optimiser import Adam, Plateau
from stcl.study.protocol import Schedule

SETTINGS = Schedule(factor=0.5, patience=3, minimum=2e-4)
SHAPES = [(7, 5), (5,), (2, 3, 4, 4), (), (1, 9)]


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def gradients(update: int, missing: bool) -> list[Tensor | None]:
    """Gradients of sizes from 1e-12 to 1e6, so that clipping and ε both matter; sometimes one is not there."""
    generator = torch.Generator().manual_seed(update)
    scale = 10.0 ** (6 * math.sin(update) - 3)
    found: list[Tensor | None] = [scale * torch.randn(shape, generator=generator) for shape in SHAPES]
    if missing and update % 5 == 0:
        found[update % len(found)] = None
    return found


def errors() -> list[float]:
    """Errors that fall, stay within the threshold, rise, and are equal."""
    falling = [2.0 - 0.1 * k for k in range(10)]
    return falling + [1.0 - 1e-5 * k for k in range(30)] + [3.0] * 9 + [0.5] * 40 + [0.4999] * 30


class Torch:
    """What torch.optim does."""

    def __init__(self, eps: float) -> None:
        self.parameters = parameters()
        self.adam = torch.optim.Adam(self.parameters, lr=1e-2, eps=eps, fused=True)
        options = {"factor": SETTINGS.factor, "patience": SETTINGS.patience, "min_lr": SETTINGS.minimum}
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.adam, **options)

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.adam.step()

    @property
    def rate(self) -> float:
        return self.adam.param_groups[0]["lr"]

    def moments(self) -> list[Tensor]:
        state = self.adam.state
        return [state[p][name] for name in ("step", "exp_avg", "exp_avg_sq") for p in self.parameters]


class Ours:
    def __init__(self, eps: float) -> None:
        self.parameters = parameters()
        self.adam = Adam(self.parameters, 1e-2, eps)
        self.schedule = Plateau(self.adam, SETTINGS)

    def update(self) -> None:
        self.adam.clip(1.0)
        self.adam.step()

    @property
    def rate(self) -> float:
        return self.adam.rate

    def moments(self) -> list[Tensor]:
        state = self.adam.state_dict()
        return [*state["counts"], *state["means"], *state["squares"]]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("eps", [1e-8, 1e-15])
def test_updates_are_those_of_torch(tmp_path, eps, missing):
    """Half way ours is saved, and another one goes on from there."""
    ours, torchs = Ours(eps), Torch(eps)
    rates, update = [], 0
    for epoch, error in enumerate(errors()):
        for _ in range(3):
            update += 1
            for one in (ours, torchs):
                for parameter, gradient in zip(one.parameters, gradients(update, missing), strict=True):
                    parameter.grad = None if gradient is None else gradient.clone()
                one.update()
        for one in (ours, torchs):
            one.schedule.step(error)
        assert ours.rate == torchs.rate
        rates.append(ours.rate)
        pairs = zip([*ours.parameters, *ours.moments()], [*torchs.parameters, *torchs.moments()], strict=True)
        assert all(torch.equal(x, y) for x, y in pairs), epoch
        for mine, theirs in zip(ours.parameters, torchs.parameters, strict=True):
            assert mine.grad is theirs.grad is None or torch.equal(mine.grad, theirs.grad)
        if epoch == len(errors()) // 2:
            state = {"adam": ours.adam.state_dict(), "schedule": ours.schedule.state_dict()}
            checkpoint.save(tmp_path / "state.pt", state)
            weights, ours = ours.parameters, Ours(eps)
            state = checkpoint.load(tmp_path / "state.pt")
            ours.adam.load_state_dict(state["adam"])
            ours.schedule.load_state_dict(state["schedule"])
            for parameter, saved in zip(ours.parameters, weights, strict=True):
                parameter.data.copy_(saved)
    assert update > 300
    assert len(set(rates)) > 5
    assert rates[-1] == SETTINGS.minimum


def test_an_update_without_gradients_does_nothing():
    adam = Adam(parameters(), 1e-2, 1e-8)
    adam.clip(1.0)
    adam.step()
    assert all(torch.equal(x, y) for x, y in zip(adam.parameters, parameters(), strict=True))
    assert not adam.state_dict()["counts"].any()
    adam.parameters[0].grad = torch.ones(SHAPES[0])
    adam.zero_grad()
    assert adam.parameters[0].grad is None


def test_a_device_has_the_rate_as_a_tensor():
    """As a graph of a device needs it. There is no device here, so the tensor is on the host; it is of float32."""
    plain, other = Adam(parameters(), 0.5, 1e-8), Adam(parameters(), 0.5, 1e-8)
    other._device_rate = torch.tensor(0.0)
    for rate in (2.0**-7, 2.0**-9):  # float32 holds these
        for adam in (plain, other):
            adam.rate = rate
            for parameter, gradient in zip(adam.parameters, gradients(1, missing=False), strict=True):
                parameter.grad = gradient
            adam.step()
    assert other._device_rate.item() == 2.0**-9
    assert all(torch.equal(x, y) for x, y in zip(plain.parameters, other.parameters, strict=True))


CELL = """
import sys
from pathlib import Path
import torch
from stcl.stages import data, train
from stcl.study.config import parse
from stcl.study.plan import Plan

folder = Path(sys.argv[1])
problem = {
    "options": {"n": 11},
    "samples": {"train": 4, "val": 2, "test": 2},
    "train_sizes": [4],
    "bank": {"train": 2, "test": 2},
    "network": {"modes": 3, "width": 8, "layers": 2, "head": 16},
    "training": {"epochs": 2, "batch": 2},
    "methods": {"fno": {}, "stcl": {"lambda": 0.5, "q": 2}},
}
study = {"preset": "p", "reduced": True, "seeds": [0], "problems": {"diffusion": problem, "helmholtz": problem}}
plan = Plan(parse(study))
for name in plan.config.problems:
    for split in ("train", "val"):
        data.generate(plan.data_spec(name, split), folder / f"{name}-{split}.json", folder / "work", "", workers=1)
for cell in plan.cells.values():
    inputs = train.Inputs(*(folder / f"{cell.block}-{split}.json" for split in ("train", "val")))
    out, device = folder / cell.path / "train.json", torch.device("cpu")
    train.train_cell(plan.train_spec(cell), inputs, out=out, work=folder, code="", device=device)
    assert out.exists()
    print(cell.path, "torch._dynamo" in sys.modules)
"""


def test_no_training_imports_the_compiler(tmp_path):
    """It takes a second or two of every job. Constant sources and a measured symmetry need it by torch's own ways."""
    done = subprocess.run([sys.executable, "-c", CELL, tmp_path], capture_output=True, text=True, check=True)
    cells = [line.split() for line in done.stdout.splitlines() if line.endswith(("True", "False"))]
    assert [loaded for _, loaded in cells] == ["False"] * 4
