"""The stage `bank` solves for the tangents of the samples of one split along a bank of directions.

    python -m stcl.stages.bank --data results/quick/data/diffusion/test.json \
        --out results/quick/banks/diffusion/test.json \
        --spec '{"problem": "diffusion", "options": {"n": 33}, "split": "test", "samples": 64, "directions": 10,
                 "basis": "prior", "check": true}'

A label is a stored tangent. Every label is checked before it is stored, unless the spec says `"check": false`; the
ledger counts the labels that were checked. An interrupted run continues after the last chunk it stored.
"""

import argparse
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np

from stcl import problems
from stcl.core.arrays import unit_norm
from stcl.problems.base import Problem, SolveError
from stcl.runtime import options, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.parallel import ordered
from stcl.runtime.progress import Progress
from stcl.study.specs.bank import BankSpec

CHUNK = 16  # number of samples that are solved together; it is smaller if their tangents are large
CHUNK_BYTES = 128e6  # largest size of a chunk's float64 tangents
BLOCK_BYTES = 32e6  # largest size of the tangents of a sample that are solved together; solvers need several times it
OUTLIER = 1e3  # a label that is this many times larger than the median of its sample has diverged
SIGN_SEED = 0
WHITE_SEED = {"train": 1, "val": 2, "test": 3}

_REFUSED = (
    "Nothing of this chunk was stored; `check: false` in the bank's settings stores such labels if they are finite"
)


def generate(spec: BankSpec, data: Path, manifest: Path, work: Path, code: str, workers: int) -> None:
    """Writes the bank that `spec` describes beside `manifest`, with its ledger."""
    problem = problems.load(spec.problem, **spec.options)
    samples, r, layout = spec.samples, spec.directions, problem.layout
    source = stores.read_manifest(data, at_least=samples)
    v = directions(problem, spec)
    # The manifest is part of the key, because two banks of a study can have the same spec and be made at once.
    key = stores.job_key(spec.canonical(), code, source["content"], str(manifest))
    title = f"{spec.problem} {spec.split} bank"
    writer = stores.StoreWriter(
        work / key,
        key,
        samples,
        {"w": stores.Field(("direction", *layout.tangent_dims), (r, *layout.tangent_shape), "tangent DS(a)[v]")},
        {"v": (("direction", *layout.input_dims), problem.network_input(v)), **stores.axes(layout)},
        stores.labels(layout),
        {"title": title, "spec": spec.canonical(), "data": source["content"]},
    )
    chunk = max(1, min(CHUNK, _labels_in(CHUNK_BYTES, problem) // r))
    # Samples are read only when their turn comes, so that memory does not grow with their number.
    tasks = (_task(data, range(i, min(i + chunk, samples))) for i in range(writer.done, samples, chunk))
    if not spec.check:
        print(f"{title}: labels are stored unchecked, as `check: false` asks")
    with Progress(title, samples, "sample", writer.done) as progress:
        for w, cost in ordered(partial(_solve, spec, v), tasks, workers):
            writer.append({"w": w}, cost)
            progress.step(len(w))
    writer.finish(manifest, spec.json_dict(), code)


def _task(data: Path, rows: range) -> tuple[int, np.ndarray, np.ndarray]:
    """The first of the rows, and of all rows the inputs, as the solver takes them, and the responses."""
    arrays = stores.read(data, rows)
    return rows.start, arrays.get("solver_input", arrays["a"]), arrays["u"]


def directions(problem: Problem, spec: BankSpec) -> np.ndarray:
    """The bank's directions as the solver takes them, in the float32 of the store."""
    split, count = spec.split, spec.directions
    v = problem.directions(count, split)
    if spec.basis == "white":
        shape = problem.layout.input_shape
        if v.shape[1:] != shape:
            raise ValueError(
                f"basis white: the solver of {spec.problem} does not take directions on the network's grid"
            )
        v = unit_norm(np.random.default_rng(WHITE_SEED[split]).standard_normal((count, *shape)), axes=len(shape))
    return v.astype(np.float32)


def _labels_in(size: float, problem: Problem) -> int:
    """The number of float64 tangents that fit into `size` bytes, at least one."""
    return max(1, int(size / (8 * np.prod(problem.layout.tangent_shape))))


def check_labels(problem: Problem, first: int, a: np.ndarray, u: np.ndarray, v: np.ndarray, w: np.ndarray) -> None:
    """Refuses labels w [samples, directions, ...] that are not finite, much larger than others of a sample, or wrong.

    Tangents are linear in v, so one random combination Σ ±w_k is compared with the derivative along Σ ±v_k. A single
    wrong label shows in it, and all labels of a sample cost one test. Error messages count samples from `first`.
    """
    flat = w.reshape(*w.shape[:2], -1)
    size = np.sqrt(np.einsum("skc,skc->sk", flat, flat) / flat.shape[-1])
    median = np.median(size, axis=1)
    bad = np.argwhere(~(np.isfinite(size) & (size <= OUTLIER * median[:, None])))
    if len(bad):
        i, k = bad[0]
        raise stores.StoreError(
            f"{len(bad)} labels are unusable, first: sample {first + i}, a label of rms {size[i, k]:.3g} where the "
            f"median of the sample is {median[i]:.3g}. {_REFUSED}"
        )
    signs = np.random.default_rng(SIGN_SEED).choice([-1.0, 1.0], len(v))
    combined = (signs @ flat).reshape(len(w), *w.shape[2:])
    defect = problem.tangent_defect(a, u, np.tensordot(signs, v, 1), combined)
    wrong = np.flatnonzero(~(defect <= problem.tangent_tolerance))
    if len(wrong):
        i = wrong[0]
        raise stores.StoreError(
            f"{len(wrong)} of {len(w)} samples have labels that are not the derivative of the response, first: sample "
            f"{first + i}, relative defect {defect[i]:.3g} where {problem.tangent_tolerance:g} is tolerated and the "
            f"median of its labels' rms is {median[i]:.3g}. {_REFUSED}"
        )


def _solve(spec: BankSpec, v: np.ndarray, task: tuple[int, np.ndarray, np.ndarray]) -> tuple[np.ndarray, dict]:
    """The tangents of one chunk and what they cost. They are checked first and then rounded to what is stored."""
    problem = problems.load(spec.problem, **spec.options)
    first, a, u = task[0], task[1].astype(np.float64), task[2].astype(np.float64)
    labels = np.empty((len(a), len(v), *problem.layout.tangent_shape), np.float32)
    cost: defaultdict[str, float] = defaultdict(float, checked=len(a) * len(v) if spec.check else 0)
    together = _labels_in(BLOCK_BYTES, problem)
    for start in range(0, len(v), together):
        block = slice(start, start + together)
        few = v[block].astype(np.float64)
        begun = time.perf_counter()
        w = problem.tangents(a, u, few)
        solved = time.perf_counter()
        if spec.check:
            check_labels(problem, first, a, u, few, w)
        cost["seconds"] += solved - begun
        cost["check_seconds"] += time.perf_counter() - solved
        with np.errstate(over="ignore"):  # the store refuses what overflows
            labels[:, block] = w
    for name, count in problem.counts.items():
        cost[name] += count
    return labels, cost


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.bank", description="Solve and store one bank of tangents."
    )
    parser.add_argument(
        "--spec",
        type=BankSpec.parse,
        required=True,
        help="the bank as JSON: problem, options, split, samples, directions, basis, check",
    )
    parser.add_argument("--data", type=Path, required=True, help="manifest of the split's dataset")
    parser.add_argument("--out", type=Path, required=True, help="manifest to write; the bank is written beside it")
    options.add_resuming(parser, "work/banks")
    options.add_workers(parser)
    arguments = parser.parse_args()
    keep_heap()
    try:
        generate(arguments.spec, arguments.data, arguments.out, arguments.work, arguments.code, arguments.workers)
    except (stores.StoreError, SolveError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
