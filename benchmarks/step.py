"""What does a training step cost, with and without tangents, against the textbook network?

    python benchmarks/step.py --problem diffusion

One run takes all kinds of step in turns at the paper's size and prints one JSON object. A step is loss, backward,
clipping and Adam. Times are medians over rounds; ratios are medians of the ratios within a round, so that a load that
comes and goes hits both sides. Peak memory is what one step adds to a fresh process.
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

from stcl.allocator import keep_heap

keep_heap()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from stcl import problems  # noqa: E402
from stcl.operators.fno import FNO  # noqa: E402
from stcl.operators.surrogate import Surrogate  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "operators"))
from textbook import TextbookFNO, loop_of_jvps  # noqa: E402


@dataclass(frozen=True)
class Size:
    """What the paper's runs have beyond the problem's layout: width 32, four layers, a head of 128 for all."""

    modes: int
    shared_directions: bool  # of sTCL; offline DI shares them always
    init: str = "normal"


SIZES = {
    "diffusion": Size(8, True),
    "helmholtz": Size(8, True),
    "burgers": Size(12, False),
    "allen_cahn": Size(12, False, "uniform"),
    "navier_stokes": Size(12, False),
}
DERIVATIVE_LOSS = "stand-in: mean squared difference of the tangents to a random target"


@dataclass(frozen=True)
class Case:
    problem: str
    q: int
    batch: int
    width: int = 32
    options: tuple[tuple[str, int], ...] = ()  # of the problem, to change its grid


def step_of(kind: str, case: Case) -> Callable[[], None]:
    """A function that takes one training step of the given kind."""
    layout, size = problems.load(case.problem, **dict(case.options)).layout, SIZES[case.problem]
    torch.manual_seed(0)
    shape = (len(layout.channels), len(layout.responses), case.width, size.modes)
    if kind.startswith("neuraloperator"):
        network = neuraloperator(*shape)
    else:
        network = (TextbookFNO if kind.startswith("textbook") else FNO)(*shape, init=size.init)
    surrogate = Surrogate(network, layout)
    optimiser = torch.optim.Adam(surrogate.parameters(), lr=1e-3)
    a, u = torch.randn(case.batch, *layout.input_shape), torch.randn(case.batch, *layout.response_shape)
    shared = size.shared_directions or kind.endswith("offline_di")
    v = torch.randn(*(() if shared else (case.batch,)), case.q, *layout.input_shape)
    target = torch.randn(case.batch, case.q, *layout.response_shape)

    def loss() -> Tensor:
        if kind.endswith("data_only"):
            return (surrogate(a) - u).square().mean()
        if kind.startswith("textbook"):  # as the paper's code does: the value for the data, and again per direction
            predicted, (_, tangents) = surrogate(a), loop_of_jvps(surrogate, a, v)
        else:
            predicted, tangents = surrogate.value_and_tangents(a, v)
        return (predicted - u).square().mean() + 0.1 * (tangents - target).square().mean()

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(surrogate.parameters(), 1.0)
        optimiser.step()

    return step


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
    return ["textbook_data_only", *peer, "data_only", "textbook_stcl", "stcl", "offline_di"]


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


def in_fresh_process(function: Callable[[], float]) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=SIZES, required=True)
    parser.add_argument("--q", type=int, default=4, help="directions per sample")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    case = Case(args.problem, args.q, args.batch)

    seconds = in_turns({kind: step_of(kind, case) for kind in kinds()}, args.rounds)
    peak = {kind: in_fresh_process(partial(peak_megabytes, kind, case)) for kind in seconds}
    ratios = {
        "stcl_speedup_vs_textbook": ratio(seconds["textbook_stcl"], seconds["stcl"]),
        "stcl_over_data_only": ratio(seconds["stcl"], seconds["data_only"]),
        "offline_di_over_data_only": ratio(seconds["offline_di"], seconds["data_only"]),
        "data_only_speedup_vs_textbook": ratio(seconds["textbook_data_only"], seconds["data_only"]),
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
        "derivative_loss": DERIVATIVE_LOSS,
        "steps": {
            kind: {
                "median_seconds": round(statistics.median(times), 4),
                "fastest_seconds": round(min(times), 4),
                "slowest_seconds": round(max(times), 4),
                "milliseconds_per_sample": round(1e3 * statistics.median(times) / args.batch, 2),
                "peak_megabytes": round(peak[kind]),
            }
            for kind, times in seconds.items()
        },
        "ratios": ratios,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
