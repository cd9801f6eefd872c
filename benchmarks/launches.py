"""How many kernels does an update launch on a device where the passes are not compiled?

    python benchmarks/launches.py
    python benchmarks/launches.py --by part

On a GPU, networks of this size are bound by launches and not by arithmetic. This script counts them without a GPU. It
runs updates on the CPU with the compiled passes switched off and counts, by a dispatch mode, the operations that would
start a kernel: views and bare allocations do not, and anything else counts once. An operation of a library, such as a
Fourier transform or a fused optimiser, counts once as well, although it may start a few kernels.

An update is `Trainer.update`: loss, backward, clipping and Adam, with the network, the loss form and the weights of
config/paper.yaml. That of the textbook network is the step of step.py. The first two updates fill tables and states,
so the third one is counted. The script prints one JSON object.

    {"textbook_data_only": n, "data_only": n, "stcl": {problem: n}}

With --by, each number is taken apart by operation or by part. The network is the module inside the surrogate; that the
surrogate stacks its channels counts with the loss.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).parent))
from step import PAPER, Case, objective_of, step_of, surrogate_of

from stcl import problems
from stcl.losses.data import Objective
from stcl.operators import compiled_passes
from stcl.stages.trainer import Trainer

PROBLEMS = ("helmholtz", "diffusion", "burgers", "allen_cahn", "navier_stokes")
WARM_UP = 2  # updates that are not counted
# These have results of their own and start nothing: they allocate, give another name to memory, or only take notes.
_NO_KERNEL = {
    "_efficientzerotensor",
    "_record_function_enter_new",
    "_record_function_exit",
    "_unsafe_view",
    "empty",
    "empty_like",
    "empty_strided",
    "is_same_size",
    "new_empty",
    "new_empty_strided",
}


def launches(func: Any) -> bool:
    """Whether an operation starts a kernel."""
    name = func.overloadpacket.__name__
    results = func._schema.returns
    view = bool(results) and all(r.alias_info is not None and not r.alias_info.is_write for r in results)
    return not view and name not in _NO_KERNEL


class Launches(TorchDispatchMode):
    """Counts operations that start a kernel, by the part that is running and by name."""

    def __init__(self) -> None:
        super().__init__()
        self.part = "optimiser"
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if launches(func):
            self.counts[self.part, func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

    def total(self) -> int:
        return sum(self.counts.values())

    def by(self, what: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (part, name), count in self.counts.items():
            found[part if what == "part" else name] += count
        return dict(found.most_common())

    def watch(self, trainer: Trainer) -> None:
        """Follow which part of an update is running."""
        network, objective = trainer.surrogate.network, trainer.objective
        for name in ("forward", "value_and_tangents"):
            setattr(network, name, self._within_network(getattr(network, name)))
        trainer.objective = _Watched(objective, self)  # type: ignore[assignment]  # nothing else of it is asked for

    def _within_network(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Tensor) -> Any:
            self.part = "network forward"
            outputs = call(*args)
            self.part = "loss forward"
            waiting = [y for y in tree_leaves(outputs) if y.requires_grad]

            def arrived(_: Tensor) -> None:
                waiting.pop()
                if not waiting:
                    self.part = "network backward"

            for y in list(waiting):
                y.register_hook(arrived)
            return outputs

        return called


class _Watched:
    def __init__(self, objective: Objective, mode: Launches) -> None:
        self.objective, self.mode = objective, mode

    def draw(self, rows: Tensor) -> Any:
        self.mode.part = "loss forward"
        return self.objective.draw(rows)

    def __call__(self, *args: Any) -> Any:
        self.mode.part = "loss forward"
        losses = self.objective(*args)
        self.mode.part = "loss backward"
        return losses


def trainer_of(kind: str, case: Case) -> tuple[Trainer, tuple[Tensor, Tensor, Tensor]]:
    """A trainer at the settings of the paper, and a batch for its updates."""
    settings = PAPER[case.problem]
    problem = problems.load(settings.problem or case.problem, **(settings.options | dict(case.options)))
    torch.manual_seed(0)
    a = torch.from_numpy(problem.network_input(problem.inputs(case.batch, "train"))).float()
    u = torch.randn(case.batch, *problem.layout.response_shape)
    surrogate, objective = surrogate_of(kind, case, problem), objective_of(kind, case, problem)
    trainer = Trainer(surrogate, objective, (a, u), (a, u), settings.training, seed=0)
    return trainer, (a, u, torch.arange(case.batch))


@contextmanager
def passes_by_torch() -> Iterator[None]:
    """No compiled passes, as on a GPU."""
    with mock.patch.object(compiled_passes, "available", _never):  # a mock object would keep every argument
        yield


def _never(*_: Any) -> bool:
    return False


def count(kind: str, case: Case) -> Launches:
    """The launches of one update."""
    with passes_by_torch():
        mode = Launches()
        if kind.startswith("textbook"):
            update: Callable[[], Any] = step_of(kind, case)
        else:
            trainer, batch = trainer_of(kind, case)
            mode.watch(trainer)

            def update() -> None:
                trainer.update(*batch)
                mode.part = "optimiser"

        for _ in range(WARM_UP):
            update()
        with mode:
            _follow_backward(mode, update)
    return mode


def _follow_backward(mode: Launches, update: Callable[[], Any]) -> None:
    """Take an update. What comes after its backward pass belongs to the optimiser."""
    backward = Tensor.backward

    def followed(*args: Any, **kwargs: Any) -> None:
        backward(*args, **kwargs)
        mode.part = "optimiser"

    with mock.patch.object(Tensor, "backward", followed):
        update()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", choices=("op", "part"), help="take each number apart")
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="sTCL of these problems alone")
    parser.add_argument("--q", type=int, default=4, help="directions per sample")
    parser.add_argument("--batch", type=int, default=4, help="samples; the number of launches does not depend on it")
    args = parser.parse_args()

    def shown(kind: str, problem: str) -> Any:
        counted = count(kind, Case(problem, args.q, args.batch))
        return counted.total() if args.by is None else {"total": counted.total()} | counted.by(args.by)

    report = {
        "textbook_data_only": shown("textbook_data_only", "diffusion"),
        "data_only": shown("data_only", "diffusion"),
        "stcl": {problem: shown("stcl", problem) for problem in args.problem or PROBLEMS},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
