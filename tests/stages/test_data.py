"""The data stage: which draws are stored, what the ledger says of the others, and what a killed run leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr

from stcl import problems
from stcl.runtime import stores
from stcl.stages import data
from stcl.study.specs.data import DataSpec

BURGERS = {"nx": 16, "nt": 25, "solver_nx": 32, "solver_nt": 50}


def split(problem, samples, **options):
    return DataSpec(problem=problem, options=options, split="train", samples=samples)


def generate(spec, folder, workers=1):
    data.generate(spec, folder / "train.json", folder / "work", code="c", workers=workers)
    ledger = json.loads((folder / "train.ledger.json").read_text())
    return stores.read(folder / "train.json"), ledger


def test_near_resonant_helmholtz_draws_are_counted_and_not_stored(tmp_path):
    stored, ledger = generate(split("helmholtz", 40, n=17), tmp_path)
    problem = problems.load("helmholtz", n=17)
    a = problem.inputs(80, "train").astype(np.float32)
    norm = np.linalg.norm(problem.solve(a.astype(np.float64)), axis=(1, 2))
    kept = np.flatnonzero(norm <= 3 * np.median(norm))[:40]
    np.testing.assert_array_equal(stored["a"], a[kept])
    assert np.linalg.norm(stored["u"], axis=(1, 2)).max() <= 3 * np.median(norm)
    assert ledger["candidates"] == 80
    assert ledger["rejected"] == np.sum(norm[: kept[-1]] > 3 * np.median(norm)) > 0
    assert ledger["solves"] == 80  # the rejected ones cost as much


@pytest.mark.parametrize("options", [{"largest_response": 2.95}, {"scheme": "three_sweep"}], ids=["bound", "blown up"])
def test_burgers_responses_beyond_the_bound_are_counted_and_not_stored(tmp_path, options):
    stored, ledger = generate(split("burgers", 24, **BURGERS, **options), tmp_path)
    problem = problems.load("burgers", **BURGERS, **options)
    a = problem.inputs(28, "train")
    largest = np.abs(problem.solve(a)).max(axis=(1, 2))
    kept = np.flatnonzero(largest <= problem.largest_response)[:24]
    np.testing.assert_array_equal(stored["solver_input"], a[kept])
    np.testing.assert_array_equal(stored["a"], a[kept, 50:].astype(np.float32))
    assert np.abs(stored["u"]).max() <= problem.largest_response
    assert ledger["rejected"] == kept[-1] + 1 - 24 > 0


def test_a_filter_that_leaves_too_few_says_so(tmp_path):
    with pytest.raises(
        stores.StoreError, match=r"burgers train: \d+ of 28 candidates passed the filter, 24 are needed"
    ):
        generate(split("burgers", 24, **BURGERS, largest_response=0.5), tmp_path)
    assert not (tmp_path / "train.json").exists()


def test_two_processes_store_the_same_as_one(tmp_path):
    spec = split("helmholtz", 40, n=13)
    (one, _), (two, _) = generate(spec, tmp_path / "one"), generate(spec, tmp_path / "two", workers=2)
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[key], two[key]) for key in one)


def test_two_datasets_with_one_spec_can_be_made_at_once(tmp_path, monkeypatch):
    """Such as those of a problem and of a variant with another bank. The second starts and ends inside the first."""
    spec, solve, started = split("diffusion", 20, n=8), data._solve, []

    def solving(*arguments):
        if not started:
            started.append(True)
            data.generate(spec, tmp_path / "second/train.json", tmp_path / "work", "c", workers=1)
        return solve(*arguments)

    monkeypatch.setattr(data, "_solve", solving)
    data.generate(spec, tmp_path / "first/train.json", tmp_path / "work", "c", workers=1)
    first, second = (stores.read(tmp_path / f"{name}/train.json") for name in ("first", "second"))
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_a_killed_run_continues_and_ends_with_the_same_manifest(tmp_path):
    spec, samples = split("diffusion", 160, n=33), 160
    command = [sys.executable, "-m", "stcl.stages.data", "--spec", spec.canonical(), "--code", "c"]

    def run(name):
        return [*command, "--out", f"{tmp_path}/{name}.json", "--work", f"{tmp_path}/work"]

    process = subprocess.Popen(run("killed"))
    done = kill_after(process, tmp_path / "work", samples=48)
    assert 48 <= done < samples
    first = next((tmp_path / "work").glob("*/candidates/fields.zarr/u/c/0/0/0"))
    written = first.stat().st_mtime_ns
    assert not (tmp_path / "killed.json").exists()

    subprocess.run(run("killed"), check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "killed/fields.zarr/u/c/0/0/0").stat().st_mtime_ns == written  # it did not start again
    subprocess.run(run("straight"), check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "killed.json").read_bytes() == (tmp_path / "straight.json").read_bytes()
    for field in ("a", "u"):
        killed, straight = (
            zarr.open_array(tmp_path / name / "fields.zarr" / field)[:] for name in ("killed", "straight")
        )
        np.testing.assert_array_equal(killed, straight)
    assert not list((tmp_path / "work").iterdir())


def kill_after(process, work, samples, watch=lambda: None):
    """SIGKILL the process once it has stored so many samples, and `watch` just before; how many it had stored."""
    deadline = time.monotonic() + 60
    while stored_so_far(work) < samples:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, "it stored nothing"
        time.sleep(0.002)
    watch()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return stored_so_far(work)


def stored_so_far(work):
    return sum(json.loads(file.read_text())["done"] for file in work.rglob("progress.json"))
