"""How fast are draws and reference solves, and how much faster than one sparse solve or time march after another?

    OMP_NUM_THREADS=1 python benchmarks/data.py --problem navier_stokes --samples 8

Prints one JSON object, measured as in benchmarks/labels.py. A sample of the dataset costs `candidates_per_sample`
solves, because some problems reject draws.
"""

import json
import time

import numpy as np
import straightforward
from labels import arguments, in_turns, load, scaling

from stcl import problems


def solve(name, options, a):
    return load(name, options).solve(a)


def straightforward_solve(name, options, a, few):
    problem = load(name, options)
    return [straightforward.SOLVE[name](problem, field) for field in a[:few]]


def main() -> None:
    args = arguments("Time draws and reference solves.", directions=100)
    problem = problems.load(args.problem, **args.options)
    start = time.perf_counter()
    a = problem.inputs(args.samples, "train").astype(np.float32).astype(np.float64)
    input_seconds = time.perf_counter() - start
    start = time.perf_counter()
    problem.directions(args.directions, "train")
    direction_seconds = time.perf_counter() - start

    few = min(args.few, args.samples)
    task = (solve, args.problem, args.options, a)
    (u, seconds, peak), (expected, slow_seconds, slow_peak) = in_turns(
        task, (straightforward_solve, args.problem, args.options, a, few)
    )
    difference = max(np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in zip(u[:few], expected, strict=True))
    per_solve, slow_per_solve = seconds / len(a), slow_seconds / few
    factor = problem.candidates(1000) / 1000
    result = {
        "problem": args.problem,
        "options": args.options,
        "samples": len(a),
        "candidates_per_sample": factor,
        "seconds_per_input": input_seconds / len(a),
        "seconds_per_direction": direction_seconds / args.directions,
        "seconds_per_solve": per_solve,
        "seconds_per_sample": per_solve * factor,
        "peak_mb": peak,
        "straightforward": {
            "solves": few,
            "seconds_per_solve": slow_per_solve,
            "seconds_per_sample": slow_per_solve * factor,
            "peak_mb": slow_peak,
        },
        "speedup_per_sample": slow_per_solve / per_solve,
        "largest_difference": difference,
        "two_processes_over_one": scaling(*task),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
