"""Stage `labels`: a bank of directions with their reference tangents for the samples of one split.

    python -m stcl.labels --data results/quick/data/diffusion/test.json --out results/quick/labels/diffusion/test.json \
        --spec '{"problem": "diffusion", "options": {"n": 33}, "split": "test", "samples": 64, "directions": 10,
                 "basis": "prior"}'

Every label is checked before it is stored. An interrupted run continues after the last chunk it stored.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stcl import problems, stores
from stcl.parallel import ordered
from stcl.problems.base import Problem, SolveError, unit_norm
from stcl.progress import Progress
from stcl.provenance import canonical

CHUNK = 16  # samples solved together, or fewer if their float64 tangents exceed
CHUNK_BYTES = 128e6
DERIVATIVE_TOLERANCE = 1e-3  # relative; finite differences and float32 states allow no less
OUTLIER = 1e3  # a label this much larger than the median of its sample has diverged
WHITE_SEED = {"train": 1, "val": 2, "test": 3}


def generate(spec: dict[str, Any], data: Path, manifest: Path, work: Path, code: str, workers: int) -> None:
    """Write the bank that `spec` describes beside `manifest`, with its ledger."""
    problem = problems.load(spec["problem"], **spec["options"])
    samples, r, layout = spec["samples"], spec["directions"], problem.layout
    source = stores.read_manifest(data)
    arrays = stores.read(data, samples)
    a, u = arrays.get("solver_input", arrays["a"]), arrays["u"]
    v = directions(problem, spec)
    key = stores.job_key(spec, code, source["content"])
    title = f"{spec['problem']} {spec['split']} bank"
    writer = stores.StoreWriter(
        work / key,
        key,
        samples,
        {"w": stores.Field(("direction", *layout.tangent_dims), (r, *layout.tangent_shape), "tangent DS(a)[v]")},
        {"v": (("direction", *layout.input_dims), problem.network_input(v).astype(np.float32)), **stores.axes(layout)},
        {"title": title, "spec": canonical(spec), "data": source["content"]},
    )
    chunk = max(1, min(CHUNK, int(CHUNK_BYTES / (8 * r * np.prod(layout.tangent_shape)))))
    starts = range(writer.done, samples, chunk)
    tasks = [(a[i : i + chunk], u[i : i + chunk]) for i in starts]
    with Progress(title, samples, "sample", writer.done) as progress:
        for i, (w, cost) in zip(starts, ordered(partial(_solve, spec, v), tasks, workers), strict=True):
            check_labels(w, first_sample=i)
            writer.append({"w": w}, cost)
            progress.step(len(w))
    writer.finish(manifest, spec, code)


def directions(problem: Problem, spec: dict[str, Any]) -> np.ndarray:
    """The bank's directions as the solver takes them, rounded to what is stored."""
    split, count = spec["split"], spec["directions"]
    v = problem.directions(count, split)
    if spec["basis"] == "white":
        shape = problem.layout.input_shape
        if v.shape[1:] != shape:
            raise ValueError(
                f"basis white: the solver of {spec['problem']} does not take directions on the network's grid"
            )
        v = unit_norm(np.random.default_rng(WHITE_SEED[split]).standard_normal((count, *shape)), axes=len(shape))
    return v.astype(np.float32).astype(np.float64)


def check_labels(w: np.ndarray, first_sample: int) -> None:
    """Refuse labels [samples, directions, ...] that are not finite or far outside what their sample shows."""
    size = np.sqrt(np.square(w).reshape(*w.shape[:2], -1).mean(-1))
    limit = OUTLIER * np.median(size, axis=1, keepdims=True)
    bad = np.argwhere(~(size <= limit))
    if len(bad):
        i, k = bad[0]
        raise stores.StoreError(
            f"{len(bad)} labels are unusable, first: sample {first_sample + i}, direction {k}, rms {size[i, k]:.3g} "
            f"where the median of the sample is {np.median(size[i]):.3g}; the tangents diverged, nothing of this chunk "
            f"was stored"
        )


def _solve(spec: dict[str, Any], v: np.ndarray, task: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, dict]:
    """One chunk on its own: tangents, one of them compared with a finite difference, and what they cost."""
    problem = problems.load(spec["problem"], **spec["options"])
    a, u = (array.astype(np.float64) for array in task)
    start = time.perf_counter()
    w = problem.tangents(a, u, v)
    cost = {**problem.counts, "seconds": time.perf_counter() - start}
    _check_derivative(problem, a[:1], v[0], w[0, 0])
    return w, cost


def _check_derivative(problem: Problem, a: np.ndarray, v: np.ndarray, w: np.ndarray) -> None:
    """w against (S(a + εv) − S(a − εv)) / 2ε, with ε such that a changes by a part in 10⁴."""
    step = 1e-4 * np.linalg.norm(a) / np.linalg.norm(v)
    forward, backward = problem.layout.score(problem.solve(np.concatenate([a + step * v, a - step * v])))
    difference = (forward - backward) / (2 * step)
    error = np.linalg.norm(difference - w) / np.linalg.norm(difference)
    if not error < DERIVATIVE_TOLERANCE:
        raise stores.StoreError(
            f"a tangent differs from the finite difference of the solver by {error:.2e}, more than "
            f"{DERIVATIVE_TOLERANCE:g}: `tangents` is not the derivative of `solve`, nothing of this chunk was stored"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.labels", description="Solve and store one bank of tangents.")
    parser.add_argument(
        "--spec", type=json.loads, required=True, help="problem, options, split, samples, directions, basis"
    )
    parser.add_argument("--data", type=Path, required=True, help="manifest of the split's dataset")
    parser.add_argument("--out", type=Path, required=True, help="manifest to write; the bank goes beside it")
    parser.add_argument("--work", type=Path, default=Path("work/labels"), help="where unfinished banks are kept")
    parser.add_argument("--code", default="", help="identity of the code, for the ledger and for resuming")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    try:
        generate(arguments.spec, arguments.data, arguments.out, arguments.work, arguments.code, arguments.workers)
    except (stores.StoreError, SolveError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
