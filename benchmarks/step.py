"""What does a training step cost, with and without tangents, against the textbook network?

    python benchmarks/step.py --problem diffusion
    python benchmarks/step.py --problem diffusion --small

One run takes all kinds of step in turns at the paper's size and prints one JSON object. A step is loss, backward,
clipping and Adam, with the network, the loss form and the weights of config/paper.yaml; inputs and directions are the
problem's own, responses are noise. Both sides run the same code but for the network: the textbook has full transforms,
channels first, and a loop of torch.func.jvp for the tangents. Validation is a forward pass without gradients. With
--small, grid, network, batch and q are those of the quick study, where the host's overhead counts. Times are medians
over rounds; ratios are medians of the ratios within a round, so that a load that comes and goes hits both sides. Peak
memory is what one step adds to a fresh process.
"""

import argparse
import importlib.util
import json
import multiprocessing
import re
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stcl.runtime.allocator import keep_heap

keep_heap()

import torch  # noqa: E402
import yaml  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from stcl import problems  # noqa: E402
from stcl.losses.data import DataLoss, Objective  # noqa: E402
from stcl.losses.derivative_informed import DerivativeInformed  # noqa: E402
from stcl.losses.settings import (  # noqa: E402
    FormSettings,
    InverseLaplacian,
    Krylov,
    March,
    ShiftedLaplacian,
    SolvedTarget,
    SolverSettings,
    SpaceTime,
    Stokes,
    metric_of,
)
from stcl.losses.stored_tangents import StoredTangents  # noqa: E402
from stcl.losses.weighting import RatioWeight  # noqa: E402
from stcl.operators.build import build_surrogate  # noqa: E402
from stcl.operators.surrogate import Surrogate  # noqa: E402
from stcl.problems.base import Problem  # noqa: E402
from stcl.stages.methods import Setup, fno, stcl  # noqa: E402
from stcl.stages.optimiser import Adam  # noqa: E402
from stcl.study import config  # noqa: E402

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "operators"))
from textbook import TextbookFNO, loop_of_jvps  # noqa: E402

PAPER = config.parse(yaml.safe_load((ROOT / "config" / "paper.yaml").read_text())).problems


@dataclass(frozen=True)
class Case:
    problem: str
    q: int
    batch: int
    network: tuple[tuple[str, int], ...] = ()  # settings that differ from the paper's
    options: tuple[tuple[str, int], ...] = ()  # of the problem, to change its grid


T = TypeVar("T")
SMALL = (("modes", 6), ("width", 16), ("layers", 2), ("head", 32))


class TextbookSurrogate(Surrogate):
    """As the paper's code does: the value for the data, and again with each direction."""

    def value_and_tangents(self, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return self(a), loop_of_jvps(self, a, v)[1]


def step_of(kind: str, case: Case) -> Callable[[], None]:
    """A function that takes one training step of the given kind."""
    settings = PAPER[case.problem]
    problem = problems.load(settings.problem or case.problem, **(settings.options | dict(case.options)))
    torch.manual_seed(0)
    surrogate = surrogate_of(kind, case, problem)
    a = torch.from_numpy(problem.network_input(problem.inputs(case.batch, "train"))).float()
    u, rows = torch.randn(case.batch, *problem.layout.response_shape), torch.arange(case.batch)
    if kind.endswith("validation"):

        def step() -> None:
            with torch.no_grad():
                surrogate(a)

        return step
    objective = objective_of(kind, case, problem)
    optimiser = Adam(surrogate.parameters(), settings.training.learning_rate, settings.training.adam_eps)

    def step() -> None:
        optimiser.zero_grad()
        objective(surrogate, a, u, objective.draw(rows)).total.backward()
        optimiser.clip(settings.training.clip)
        optimiser.step()

    return step


def surrogate_of(kind: str, case: Case, problem: Problem) -> Surrogate:
    network, layout = PAPER[case.problem].network.model_copy(update=dict(case.network)), problem.layout
    if kind.startswith("textbook"):
        shape = network.model_dump(exclude={"standardise"})
        return TextbookSurrogate(TextbookFNO(len(layout.channels), len(layout.responses), **shape), layout)
    if kind.startswith("neuraloperator"):
        shape = len(layout.channels), len(layout.responses), network.width, network.modes
        return Surrogate(neuraloperator(*shape), layout)
    return build_surrogate(layout, network)


def objective_of(kind: str, case: Case, problem: Problem) -> Objective:
    settings, device = PAPER[case.problem], torch.device("cpu")
    data_loss = DataLoss(problem.layout, settings.training.auxiliary_weight)
    if kind.endswith("offline_di"):
        v = torch.from_numpy(problem.network_input(problem.directions(case.q, "train"))).float()
        labels = torch.randn(case.batch, case.q, *problem.layout.tangent_shape)
        term = StoredTangents(v, labels, case.q, device, seed=0)
        return DerivativeInformed(data_loss, term, RatioWeight(1.0, settings.methods.offline_di.weighting, device))
    method = settings.methods.stcl.model_dump(exclude={"lam", "lambda_grid"}) | {"q": case.q}
    if kind.endswith("solved_target"):
        method |= {"form": solved_form(problem).model_dump()}
    if kind.endswith("unlabelled"):
        method |= unlabelled(settings.methods.stcl.settled_form)
    responses = torch.ones(1, *problem.layout.response_shape)
    setup = Setup(problem, data_loss, method, 1.0, settings.basis, case.batch, 0, device, None, responses)
    return (fno if kind.endswith("data_only") else stcl).build(setup)


def solved_form(problem: Problem) -> SolvedTarget:
    """The solved target for the class of a problem, with the paper's metric, or by the problem's own march."""
    solvers: dict[str, SolverSettings] = {
        "spd": Krylov(metric=InverseLaplacian()),
        "indefinite": Krylov(metric=ShiftedLaplacian()),
        "parabolic": SpaceTime() if problem.march is None else March(),
        "saddle": Stokes(),
    }
    return SolvedTarget(solver=solvers[problem.tangent_class])


def unlabelled(form: FormSettings) -> dict[str, Any]:
    """Solved targets and corrected values at inputs without labels; where the paper's form has no metric, residuals."""
    metric = metric_of(form)
    if not isinstance(metric, InverseLaplacian | ShiftedLaplacian):
        return {"inputs": "both", "value": "residual"}
    target = SolvedTarget(solver=Krylov(metric=metric), state="corrected")
    return {"inputs": "unlabelled", "value": "corrected", "form": target.model_dump()}


def neuraloperator(c_in: int, c_out: int, width: int, modes: int) -> nn.Module:
    """neuraloperator's FNO without the parts that the paper's network does not have."""
    from neuralop.models import FNO as NeuralOperatorFNO

    class ChannelsLast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = NeuralOperatorFNO(
                n_modes=(2 * modes, 2 * modes),
                in_channels=c_in,
                out_channels=c_out,
                hidden_channels=width,
                n_layers=4,
                projection_channel_ratio=4,
                positional_embedding=None,
                use_channel_mlp=False,
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x.movedim(-1, 1)).movedim(1, -1)

    return ChannelsLast()


def kinds() -> list[str]:
    peer = ["neuraloperator_data_only"] if importlib.util.find_spec("neuralop") else []
    validation = ["textbook_validation", "validation"]
    ours = ["data_only", "textbook_stcl", "stcl", "solved_target", "unlabelled", "offline_di"]
    return [*validation, "textbook_data_only", *peer, *ours]


def in_turns(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step in each round, after one round to warm up."""
    seconds: dict[str, list[float]] = {kind: [] for kind in steps}
    for i in range(rounds + 1):
        for kind, step in steps.items():
            start = time.perf_counter()
            step()
            if i > 0:
                seconds[kind].append(time.perf_counter() - start)
    return seconds


def ratio(above: list[float], below: list[float]) -> float:
    return round(statistics.median(x / y for x, y in zip(above, below, strict=True)), 3)


def peak_megabytes(kind: str, case: Case) -> float:
    """Memory that a step adds, in a process that has done nothing else."""
    step = step_of(kind, case)
    before = _memory("VmRSS")
    step()
    return _memory("VmHWM") - before


def _memory(field: str) -> float:
    # Not getrusage: what it reports of a child includes the parent.
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


def in_fresh_process(function: Callable[[], T]) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=PAPER, required=True)
    parser.add_argument("--q", type=int, default=4, help="directions per sample")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="the quick study's grid and network, batch 8, q = 2")
    args = parser.parse_args()
    if args.small:
        args.q, args.batch = 2, 8
        quick = config.parse(yaml.safe_load((ROOT / "config" / "config.yaml").read_text())).problems[args.problem]
        case = Case(args.problem, args.q, args.batch, SMALL, tuple(quick.options.items()))
    else:
        case = Case(args.problem, args.q, args.batch)

    seconds = in_turns({kind: step_of(kind, case) for kind in kinds()}, args.rounds)
    peak = {kind: in_fresh_process(partial(peak_megabytes, kind, case)) for kind in seconds}
    ratios = {
        "stcl_speedup_vs_textbook": ratio(seconds["textbook_stcl"], seconds["stcl"]),
        "stcl_over_data_only": ratio(seconds["stcl"], seconds["data_only"]),
        "solved_target_over_stcl": ratio(seconds["solved_target"], seconds["stcl"]),
        "unlabelled_over_stcl": ratio(seconds["unlabelled"], seconds["stcl"]),
        "offline_di_over_data_only": ratio(seconds["offline_di"], seconds["data_only"]),
        "data_only_speedup_vs_textbook": ratio(seconds["textbook_data_only"], seconds["data_only"]),
        "validation_speedup_vs_textbook": ratio(seconds["textbook_validation"], seconds["validation"]),
        "stcl_memory_over_textbook": round(peak["stcl"] / peak["textbook_stcl"], 3),
    }
    if "neuraloperator_data_only" in seconds:
        peer = seconds["neuraloperator_data_only"]
        ratios["data_only_speedup_vs_neuraloperator"] = ratio(peer, seconds["data_only"])
    report = {
        "problem": args.problem,
        "q": args.q,
        "batch": args.batch,
        "rounds": args.rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": "float32",
        "derivative_loss": PAPER[args.problem].methods.stcl.form.name,
        "steps": {
            kind: {
                "median_seconds": round(statistics.median(times), 5),
                "fastest_seconds": round(min(times), 5),
                "slowest_seconds": round(max(times), 5),
                "milliseconds_per_sample": round(1e3 * statistics.median(times) / args.batch, 3),
                "peak_megabytes": round(peak[kind]),
            }
            for kind, times in seconds.items()
        },
        "ratios": ratios,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
