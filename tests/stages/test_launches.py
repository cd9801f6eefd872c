"""What an update launches on a device without compiled passes, and whether a CUDA graph could hold it."""

import gc
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "benchmarks")]
import launches  # noqa: E402
from dispatch import OneDevice  # noqa: E402
from replay import by_recording  # noqa: E402
from step import Case  # noqa: E402

from stcl.runtime.graphs import WARM_UP, Captured  # noqa: E402

OPTIONS = {
    "helmholtz": {"n": 17},
    "diffusion": {"n": 17},
    "burgers": {"nx": 25, "nt": 26, "solver_nx": 24, "solver_nt": 28, "probe_nt": 28},
    "allen_cahn": {"nx": 26, "nt": 25, "time_step": 0.05},
    "navier_stokes": {"n": 26},
}
# The number of launches does not depend on sizes. These are a few more than there are.
MOST = {"helmholtz": 480, "diffusion": 285, "burgers": 275, "allen_cahn": 270, "navier_stokes": 320}
MOST_DATA_ONLY = 130
KINDS = [("data_only", "diffusion"), ("data_only", "navier_stokes"), *(("stcl", name) for name in OPTIONS)]
KINDS += [("unlabelled", name) for name in ("helmholtz", "navier_stokes")]


def case(problem: str, batch: int = 3) -> Case:
    return Case(problem, q=4, batch=batch, network=(("width", 8),), options=tuple(OPTIONS[problem].items()))


def test_views_and_allocations_are_not_counted_and_the_backward_pass_is():
    x = torch.ones(3, 4, requires_grad=True)
    with launches.Launches() as mode:
        y = x.view(12).detach().requires_grad_()[2:].unsqueeze(0).expand(2, -1)
        torch.empty(3)
    assert mode.total() == 0
    with launches.Launches() as mode:
        (y.exp() @ x.view(-1)[:10]).sum().backward()
    assert {"exp", "mv", "sum", "mul"} <= set(mode.by("op"))
    assert sum(mode.by("part").values()) == mode.total()


def test_an_update_with_data_alone_launches_less_than_that_of_the_textbook():
    ours, textbook = (launches.count(kind, case("diffusion")) for kind in ("data_only", "textbook_data_only"))
    assert ours.total() <= MOST_DATA_ONLY < textbook.total()
    parts = ours.by("part")
    assert sum(parts.values()) == ours.total()
    assert set(parts) == {f"{what} {way}" for what in ("network", "loss") for way in ("forward", "backward")} | {
        "optimiser"
    }


@pytest.mark.parametrize("problem", OPTIONS)
def test_an_update_with_tangents_launches_little_and_as_much_for_every_batch(problem):
    counts = [launches.count("stcl", case(problem, batch)).total() for batch in (3, 5)]
    assert counts[0] == counts[1] <= MOST[problem]


class Recorder(TorchDispatchMode):
    """Every operation with the shapes of its tensors, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        tensors = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        self.operations.append((str(func), [(tuple(x.shape), x.stride(), x.dtype) for x in tensors]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "problem"), KINDS)
def test_updates_repeat_the_same_operations_and_read_nothing(kind, problem):
    """The update after the first two is the one that every other repeats; the smaller last batch has its own shapes."""
    with launches.passes_by_torch():
        trainer, batch = launches.trainer_of(kind, case(problem))
        for _ in range(launches.WARM_UP):
            trainer.update(*batch)
        records = []
        for _ in range(2):
            with Recorder() as recorder:
                trainer.update(*batch)
            records.append(recorder.operations)
        assert records[0] == records[1]
        with OneDevice("cpu"):
            trainer.update(*batch)
        smaller = [x[:2] for x in batch]
        with Recorder() as recorder:
            trainer.update(*smaller)
    assert recorder.operations != records[0]


def memory() -> dict[int, int]:
    """The bytes of all storages that something in Python holds, by their address."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some objects warn when they are asked for their type
        tensors = [x for x in gc.get_objects() if isinstance(x, Tensor)]
    # Other tests may have left tensors of a transform, which have no memory of their own.
    tensors = [x for x in tensors if not torch._C._functorch.is_functorch_wrapped_tensor(x)]
    storages = [x.untyped_storage() for x in tensors]
    gradients = [x.grad.untyped_storage() for x in tensors if x.is_leaf and x.grad is not None]
    return {s.data_ptr(): s.nbytes() for s in (*storages, *gradients)}


@pytest.mark.parametrize(("kind", "problem"), KINDS)
def test_updates_take_no_new_memory(kind, problem):
    """States stay where they are, and as much is held after an update as after the one before."""
    with launches.passes_by_torch():
        trainer, batch = launches.trainer_of(kind, case(problem))
        for _ in range(launches.WARM_UP):
            trainer.update(*batch)
        gradients = {p.grad.untyped_storage().data_ptr() for p in trainer.surrogate.parameters()}
        before = memory()
        for _ in range(3):
            trainer.update(*batch)
        new = {p.grad.untyped_storage().data_ptr() for p in trainer.surrogate.parameters()}
        after = memory()
    assert sum(after.values()) == sum(before.values())
    assert set(after) - new == set(before) - gradients


@pytest.mark.parametrize(("kind", "problem"), [*KINDS, ("offline_di", "diffusion"), ("offline_di", "navier_stokes")])
def test_a_replayed_training_is_the_training(kind, problem):
    """Weights, losses and measurements after updates of which only the operations are repeated, as on a GPU.

    The learning rate is a number on the CPU. So it is not changed here.
    """
    with launches.passes_by_torch():
        (plain, batch), (replayed, _) = (launches.trainer_of(kind, case(problem)) for _ in range(2))
        replayed._captured = Captured(replayed._step, by_recording)
        a, u, _ = batch
        for chosen in [*[[0, 1, 2]] * (WARM_UP + 4), [1, 0], [2, 1, 0], [0, 2, 1]]:
            rows = torch.tensor(chosen)
            losses = [trainer.update(a[rows], u[rows], rows) for trainer in (plain, replayed)]
            torch.testing.assert_close(*losses, rtol=0, atol=0)
    weights = [dict(trainer.surrogate.named_parameters()) for trainer in (plain, replayed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert plain.objective.epoch_columns() == replayed.objective.epoch_columns()
