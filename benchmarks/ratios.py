"""How many times faster than the textbook network are validation, data-only steps and sTCL steps of every problem?

    python benchmarks/ratios.py

Prints one JSON object: for each problem of the paper at its size, batch 32, q = 4, the times per sample and the ratios,
taken as in step.py. Each problem has a process of its own. Short steps have more rounds than those with tangents, of
which the textbook's take seconds, so that all of it takes a few minutes.
"""

import argparse
import json
import statistics
from functools import partial

import torch
from step import PAPER, Case, in_fresh_process, in_turns, ratio, step_of

BATCH, Q = 32, 4
ROUNDS = {"validation": 9, "data_only": 7, "stcl": 2}


def measured(problem: str, rounds: dict[str, int]) -> dict[str, dict[str, float]]:
    """Of one problem: milliseconds per sample of each kind of step, and how many times longer the textbook's takes."""
    case, own, speedup = Case(problem, Q, BATCH), {}, {}
    for kind, count in rounds.items():
        seconds = in_turns({kind: step_of(kind, case), "textbook": step_of(f"textbook_{kind}", case)}, count)
        own[kind] = round(1e3 * statistics.median(seconds[kind]) / BATCH, 3)
        speedup[kind] = ratio(seconds["textbook"], seconds[kind])
    return {"milliseconds_per_sample": own, "speedup_vs_textbook": speedup}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    five = [name for name, settings in PAPER.items() if settings.problem is None]  # not the variants of one of them
    parser.add_argument("--problems", nargs="+", choices=PAPER, default=five)
    parser.add_argument("--kinds", nargs="+", choices=ROUNDS, default=list(ROUNDS))
    args = parser.parse_args()
    rounds = {kind: ROUNDS[kind] for kind in args.kinds}
    report = {
        "batch": BATCH,
        "q": Q,
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "problems": {problem: in_fresh_process(partial(measured, problem, rounds)) for problem in args.problems},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
