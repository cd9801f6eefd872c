"""The stage `data` draws the inputs of one split, solves for their responses, filters them and stores both.

    python -m stcl.stages.data --spec '{"problem": "diffusion", "options": {"n": 33}, "split": "val", "samples": 64}' \
        --out results/quick/data/diffusion/val.json

An interrupted run continues after the last chunk it stored.
"""

import argparse
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from stcl import problems
from stcl.problems.base import Problem, SolveError, Split
from stcl.runtime import options, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.parallel import ordered
from stcl.runtime.progress import Progress
from stcl.study.specs.data import DataSpec

CHUNK = 16  # number of samples that are solved together


def generate(spec: DataSpec, manifest: Path, work: Path, code: str, workers: int) -> None:
    """Writes the store that `spec` describes beside `manifest`, with its ledger."""
    problem = problems.load(spec.problem, **spec.options)
    samples = spec.samples
    candidates = problem.candidates(samples)
    inputs = _drawn(problem, candidates, spec.split)
    title = f"{spec.problem} {spec.split}"
    # The manifest is part of the key, because two datasets of a study can have the same spec and be made at once.
    key = stores.job_key(spec.canonical(), code, str(manifest))

    def writer(name: str, count: int) -> stores.StoreWriter:
        attributes = {"title": f"{title} split", "spec": spec.canonical()}
        return stores.StoreWriter(
            work / key / name,
            key,
            count,
            _fields(problem, inputs),
            stores.axes(problem.layout),
            stores.labels(problem.layout),
            attributes,
        )

    pool = writer("candidates", candidates)
    chunks = [inputs[i : i + CHUNK] for i in range(pool.done, candidates, CHUNK)]
    with Progress(title, candidates, "sample", pool.done) as progress:
        for a, (u, cost) in zip(chunks, ordered(partial(_solve, spec), chunks, workers), strict=True):
            pool.append(_arrays(problem, a, u), cost)
            progress.step(len(u))
    kept = np.flatnonzero(problem.accept(np.asarray(pool.array("u")[:])))[:samples]
    if len(kept) < samples:
        raise stores.StoreError(
            f"{title}: {len(kept)} of {candidates} candidates passed the filter, {samples} are needed; "
            f"the prior or the filter of the problem does not fit its constants"
        )
    final = pool
    if candidates > samples:
        final = writer("kept", samples)
        final.cost = Counter({**pool.cost, "candidates": candidates, "rejected": int(kept[-1]) + 1 - samples})
        for i in range(final.done, samples, CHUNK):
            final.append({name: np.asarray(pool.array(name).oindex[kept[i : i + CHUNK]]) for name in pool.fields}, {})
    final.finish(manifest, spec.json_dict(), code)
    shutil.rmtree(work / key)


def _solve(spec: DataSpec, inputs: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    """The responses of one chunk, and what they cost."""
    problem = problems.load(spec.problem, **spec.options)
    start = time.perf_counter()
    u = problem.solve(inputs.astype(np.float64))
    return u, {**problem.counts, "seconds": time.perf_counter() - start}


def _drawn(problem: Problem, count: int, split: Split) -> np.ndarray:
    """The inputs as they are solved and stored.

    Those that the network sees are rounded to its float32 first, so that solver and network have the same input. Where
    the solver takes inputs of another shape, these are stored beside and keep float64: a scheme that amplifies noise,
    as three sweeps per step do with some forcings of Burgers, would give the response of the rounding.
    """
    inputs = problem.inputs(count, split)
    return inputs if _are_of_the_solver_alone(problem, inputs) else inputs.astype(np.float32)


def _are_of_the_solver_alone(problem: Problem, inputs: np.ndarray) -> bool:
    return inputs.shape[1:] != problem.layout.input_shape


def _fields(problem: Problem, inputs: np.ndarray) -> dict[str, stores.Field]:
    layout = problem.layout
    described = {
        "a": stores.Field(layout.input_dims, layout.input_shape, "input on the network's grid"),
        "u": stores.Field(layout.response_dims, layout.response_shape, "response"),
    }
    if _are_of_the_solver_alone(problem, inputs):
        dims, meaning = (
            tuple(f"solver_axis{i}" for i in range(inputs.ndim - 1)),
            "input as the reference solver takes it",
        )
        described["solver_input"] = stores.Field(dims, inputs.shape[1:], meaning, dtype="float64")
    return described


def _arrays(problem: Problem, inputs: np.ndarray, u: np.ndarray) -> dict[str, np.ndarray]:
    arrays = {"a": problem.network_input(inputs), "u": u}
    return arrays | ({"solver_input": inputs} if _are_of_the_solver_alone(problem, inputs) else {})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.stages.data", description="Draw, solve and store one split.")
    parser.add_argument(
        "--spec", type=DataSpec.parse, required=True, help="the split as JSON: problem, options, split, samples"
    )
    parser.add_argument("--out", type=Path, required=True, help="manifest to write; the store is written beside it")
    options.add_resuming(parser, "work/data")
    options.add_workers(parser)
    arguments = parser.parse_args()
    keep_heap()
    try:
        generate(arguments.spec, arguments.out, arguments.work, arguments.code, arguments.workers)
    except (stores.StoreError, SolveError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
