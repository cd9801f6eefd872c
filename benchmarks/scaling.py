"""How does the cost of a step, with and without tangents, grow with directions, grid, batch and width?

    python benchmarks/scaling.py

Prints one JSON object. For q: seconds fitted by c + s q, with the slope in data-only steps per direction. For the
others: the exponent p of seconds ~ size^p; 1 is linear. Each sweep is taken in turns.
"""

import argparse
import json
import statistics

import numpy as np
from step import Case, in_turns, step_of

SWEEPS = {
    "q": (1, 2, 4, 8),
    "grid": (33, 65, 97),  # nodes per side
    "batch": (8, 16, 32),
    "width": (16, 32, 64),
}


def medians(cases: dict[int, Case], rounds: int, kind: str = "stcl") -> dict[int, float]:
    seconds = in_turns({size: step_of(kind, case) for size, case in cases.items()}, rounds)
    return {size: statistics.median(times) for size, times in seconds.items()}


def exponent(sizes: list[float], seconds: list[float]) -> float:
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="where the batch itself does not vary")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    cases = {
        "q": {q: Case("diffusion", q, args.batch) for q in SWEEPS["q"]},
        "grid": {n: Case("diffusion", 4, args.batch, options=(("n", n),)) for n in SWEEPS["grid"]},
        "batch": {batch: Case("diffusion", 4, batch) for batch in sorted({*SWEEPS["batch"], args.batch})},
        "width": {width: Case("diffusion", 4, args.batch, (("width", width),)) for width in SWEEPS["width"]},
    }
    seconds = {axis: medians(sweep, args.rounds) for axis, sweep in cases.items()}
    plain = {axis: medians(sweep, args.rounds, "data_only") for axis, sweep in cases.items() if axis != "q"}
    data_only = plain["batch"][args.batch]

    def exponents(seconds: dict[str, dict[int, float]]) -> dict[str, float]:
        return {
            "nodes": exponent([n * n for n in seconds["grid"]], list(seconds["grid"].values())),
            "batch": exponent(list(seconds["batch"]), list(seconds["batch"].values())),
            "width": exponent(list(seconds["width"]), list(seconds["width"].values())),
        }

    q, t = np.array(list(seconds["q"])), np.array(list(seconds["q"].values()))
    slope, constant = np.polyfit(q, t, 1)
    report = {
        "problem": "diffusion",
        "batch": args.batch,
        "rounds": args.rounds,
        "seconds": {axis: {size: round(x, 4) for size, x in by_size.items()} for axis, by_size in seconds.items()},
        "data_only_seconds": {axis: {size: round(x, 4) for size, x in sizes.items()} for axis, sizes in plain.items()},
        "data_only_steps_per_direction": round(float(slope) / data_only, 3),
        "largest_deviation_from_line_in_q": round(float(np.abs(slope * q + constant - t).max() / t.max()), 3),
        "exponents": exponents(seconds),
        "data_only_exponents": exponents(plain),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
