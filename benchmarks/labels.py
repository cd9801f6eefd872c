"""How fast are tangent labels, and how much faster than one factorisation or time march per label?

    OMP_NUM_THREADS=1 python benchmarks/labels.py --problem diffusion --samples 4 --directions 289

Prints one JSON object. The straightforward version is timed on a few labels. Both sides run in processes of their own,
in turns, and report the median over rounds; `largest_difference` says that they computed the same labels.
"""

import argparse
import json
import multiprocessing
import re
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import straightforward

from stcl import problems
from stcl.runtime.allocator import keep_heap

ROUNDS = 3


def arguments(description: str, directions: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--problem", choices=problems.names(), required=True)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--directions", type=int, default=directions)
    parser.add_argument("--options", type=json.loads, default={}, help="constants of the problem as JSON")
    parser.add_argument("--few", type=int, default=2, help="solves on which the straightforward version is timed")
    return parser.parse_args()


def peak_mb() -> float:
    """Peak memory of this process. getrusage would count that of the parent before it became this program."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def measured(work, *arguments):
    """Result, seconds and this process's peak memory so far."""
    start = time.perf_counter()
    result = work(*arguments)
    return result, time.perf_counter() - start, peak_mb()


def process(count: int = 1) -> ProcessPoolExecutor:
    """Processes that keep their heap, as those of the stages do."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=keep_heap)


def in_turns(fast, slow):
    """Run (work, *arguments) of both sides in turns; the last results, median seconds and peak MB of each."""
    sides = [(process(), fast, []), (process(), slow, [])]
    for _ in range(ROUNDS + 1):
        for pool, task, rounds in sides:
            rounds.append(pool.submit(measured, *task).result())
    for pool, _, _ in sides:
        pool.shutdown()
    # the first round warms up: imports, tables, page faults
    return [(r[-1][0], float(np.median([s for _, s, _ in r[1:]])), r[-1][2]) for _, _, r in sides]


def scaling(work, *arguments) -> float:
    """Throughput of two processes doing the same work at once over that of one."""
    ratios = []
    with process(2) as pool:
        for _ in range(ROUNDS + 1):
            alone = max(s for _, s, _ in pool.map(measured, [work], *[[x] for x in arguments]))
            both = max(s for _, s, _ in pool.map(measured, [work] * 2, *[[x] * 2 for x in arguments]))
            ratios.append(2 * alone / both)
    return float(np.median(ratios[1:]))


_loaded = {}


def load(name: str, options: dict):
    """One problem object per process, as in a long run."""
    return _loaded.setdefault(name, problems.load(name, **options))


def tangents(name, options, a, u, v):
    return load(name, options).tangents(a, u, v)


def straightforward_tangents(name, options, a, u, v, few):
    problem, label = load(name, options), straightforward.LABEL[name]
    return [label(problem, a[k % len(a)], u[k % len(a)], v[k % len(v)]) for k in range(few)]


def main() -> None:
    args = arguments("Time tangent labels.", directions=289)
    problem = problems.load(args.problem, **args.options)
    candidates = problem.inputs(problem.candidates(args.samples), "train").astype(np.float32).astype(np.float64)
    responses = problem.solve(candidates).astype(np.float32).astype(np.float64)
    kept = np.flatnonzero(problem.accept(responses))[: args.samples]
    a, u, v = candidates[kept], responses[kept], problem.directions(args.directions, "train")

    task = (tangents, args.problem, args.options, a, u, v)
    (w, seconds, peak), (expected, slow_seconds, slow_peak) = in_turns(
        task, (straightforward_tangents, args.problem, args.options, a, u, v, args.few)
    )
    few = [w[k % len(a), k % len(v)] for k in range(args.few)]
    difference = max(np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in zip(few, expected, strict=True))
    per_label, slow_per_label = seconds / (len(a) * len(v)), slow_seconds / args.few
    result = {
        "problem": args.problem,
        "options": args.options,
        "samples": len(a),
        "directions": len(v),
        "seconds_per_sample": seconds / len(a),
        "seconds_per_label": per_label,
        "peak_mb": peak,
        "straightforward": {
            "labels": args.few,
            "seconds_per_sample": slow_per_label * len(v),
            "seconds_per_label": slow_per_label,
            "peak_mb": slow_peak,
        },
        "speedup_per_label": slow_per_label / per_label,
        "largest_difference": difference,
        "two_processes_over_one": scaling(*task),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
