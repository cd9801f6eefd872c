"""The bank stage: what is stored, what is refused, and what a killed run leaves."""

import json
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from test_data import kill_after, split

from stcl import problems
from stcl.runtime import stores
from stcl.stages import bank as labels
from stcl.stages import data
from stcl.study.specs.bank import BankSpec

COARSE = {"nx": 16, "nt": 25, "solver_nx": 64, "solver_nt": 100}  # sweeps of rows 0 and 22 stay bounded, labels do not


def bank(dataset, directions, basis="prior", check=True):
    return BankSpec(**dataset.json_dict(), directions=directions, basis=basis, check=check)


def solve(dataset, folder):
    data.generate(dataset, folder / "train.json", folder / "work/data", code="c", workers=1)
    return folder / "train.json"


def generate(spec, source, name="bank"):
    manifest = source.with_name(f"{name}.json")
    labels.generate(spec, source, manifest, source.parent / "work/banks", code="c", workers=1)
    return stores.read(manifest), json.loads(stores.ledger_path(manifest).read_text())


def test_a_bank_holds_the_tangents_at_the_stored_states(tmp_path):
    dataset = split("diffusion", 20, n=13)
    source = solve(dataset, tmp_path)
    stored, ledger = generate(bank(dataset, 5), source)
    problem = problems.load("diffusion", n=13)
    a, u = (stores.read(source)[name].astype(np.float64) for name in ("a", "u"))
    v = problem.directions(5, "train").astype(np.float32)
    np.testing.assert_array_equal(stored["v"], v)
    expected = np.stack([problem.tangents(a[i : i + 1], u[i : i + 1], v.astype(np.float64))[0] for i in range(20)])
    np.testing.assert_allclose(stored["w"], expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert ledger["checked"] == ledger["solves"] == 100
    assert ledger["factorisations"] == 20


def test_a_long_list_of_directions_is_solved_in_blocks(tmp_path, monkeypatch):
    dataset = split("diffusion", 3, n=13)
    source = solve(dataset, tmp_path)
    whole, _ = generate(bank(dataset, 20), source)
    monkeypatch.setattr(labels, "BLOCK_BYTES", 8 * 6 * 13 * 13)  # six labels at once
    blocks, ledger = generate(bank(dataset, 20), source, "blocks")
    np.testing.assert_allclose(blocks["w"], whole["w"], rtol=0, atol=1e-6 * np.abs(whole["w"]).max())
    assert ledger["checked"] == ledger["solves"] == 60
    assert ledger["factorisations"] == 3 * 4


def test_memory_does_not_grow_with_the_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "CHUNK", 4)
    source = solve(split("helmholtz", 64, n=33), tmp_path)
    sample = 2 * 33 * 33 * 4  # bytes of a and u
    peaks = []
    for samples in (16, 64):
        tracemalloc.start()
        spec = bank(split("helmholtz", samples, n=33), 1)
        labels.generate(spec, source, tmp_path / f"bank{samples}.json", tmp_path / "work", code="c", workers=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < (64 - 16) * sample / 4


def test_a_dataset_that_is_too_small_is_refused_before_any_work(tmp_path):
    source = solve(split("diffusion", 3, n=13), tmp_path)
    with pytest.raises(stores.StoreError, match="has 3 samples, 4 were asked for"):
        generate(bank(split("diffusion", 4, n=13), 2), source)
    assert not (tmp_path / "work/banks").exists()


def test_diverged_labels_are_refused_and_stored_only_on_request(tmp_path):
    dataset = split("burgers", 24, **COARSE, scheme="three_sweep")
    source = solve(dataset, tmp_path)
    with pytest.raises(stores.StoreError, match=r"of 16 samples have labels .* first: sample 0, relative defect"):
        generate(bank(dataset, 4), source)
    assert not (tmp_path / "bank.json").exists()

    unchecked, ledger = generate(bank(dataset, 4, check=False), source)
    size = np.abs(unchecked["w"]).max(axis=(1, 2, 3))
    assert set(np.flatnonzero(size > 100)) == {0, 22}
    assert ledger["checked"] == 0
    assert ledger["spec"]["check"] is False

    dataset = split("burgers", 24, **COARSE)
    (tmp_path / "implicit").mkdir()
    implicit, ledger = generate(bank(dataset, 4), solve(dataset, tmp_path / "implicit"))
    assert np.abs(implicit["w"]).max() < 0.1
    assert ledger["checked"] == 96


def test_labels_that_are_not_finite_are_never_stored(tmp_path, monkeypatch):
    dataset = split("diffusion", 4, n=9)
    source = solve(dataset, tmp_path)
    exact = problems.load("diffusion", n=9).tangents
    monkeypatch.setattr(
        "stcl.problems.diffusion.Diffusion.tangents", lambda self, a, u, v: np.full_like(exact(a, u, v), np.inf)
    )
    for check in (True, False):
        with pytest.raises(stores.StoreError, match=r"labels are unusable|has non-finite values; not stored"):
            generate(bank(dataset, 2, check=check), source)


def test_only_the_train_bank_may_be_unchecked():
    from stcl.study.config import parse
    from stcl.study.plan import Plan

    problem = {
        "options": {"scheme": "three_sweep"},
        "samples": {"train": 8},
        "train_sizes": [8],
        "bank": {"check": False},
        "methods": {"offline_di": {"lambda": 1.0}},
    }
    plan = Plan(parse({"preset": "p", "reduced": True, "seeds": [0], "problems": {"burgers": problem}}))
    assert plan.bank_spec("burgers", "train").check is False
    assert plan.bank_spec("burgers", "test").check is True


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers through /proc")
def test_a_killed_run_continues_and_ends_with_the_same_manifest(tmp_path):
    dataset = split("diffusion", 128, n=17)
    source = solve(dataset, tmp_path)
    command = [
        sys.executable,
        "-m",
        "stcl.stages.bank",
        "--spec",
        bank(dataset, 200).canonical(),
        "--data",
        str(source),
    ]
    command += ["--code", "c", "--workers", "2", "--work", f"{tmp_path}/work/banks"]

    process = subprocess.Popen([*command, "--out", f"{tmp_path}/killed.json"], stderr=subprocess.DEVNULL)
    workers = []
    done = kill_after(process, tmp_path / "work/banks", samples=32, watch=lambda: workers.extend(children(process.pid)))
    assert 32 <= done < 128
    first = next((tmp_path / "work/banks").glob("*/fields.zarr/w/c/0/0/0/0"))
    written = first.stat().st_mtime_ns
    assert not (tmp_path / "killed.json").exists()
    deadline = time.monotonic() + 30
    while any(running(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlive the process they worked for"
        time.sleep(0.02)

    for name in ("killed", "straight"):
        subprocess.run([*command, "--out", f"{tmp_path}/{name}.json"], check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "killed/fields.zarr/w/c/0/0/0/0").stat().st_mtime_ns == written  # it did not start again
    assert (tmp_path / "killed.json").read_bytes() == (tmp_path / "straight.json").read_bytes()
    killed, straight = (stores.read(tmp_path / f"{name}.json") for name in ("killed", "straight"))
    assert all(np.array_equal(killed[field], straight[field]) for field in ("v", "w"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads memory from /proc")
def test_memory_does_not_grow_with_the_bank(tmp_path):
    """Peak of the stage with both its workers, at paper size: under 2 GB, and the same for 32 and 96 samples."""
    source = solve(split("diffusion", 96), tmp_path)
    peaks = []
    for samples in (32, 96):
        spec = bank(split("diffusion", samples), 289)
        command = [sys.executable, "-m", "stcl.stages.bank", "--spec", spec.canonical(), "--data", str(source)]
        command += ["--out", f"{tmp_path}/bank{samples}.json", "--work", f"{tmp_path}/work/banks", "--workers", "2"]
        process, peak = subprocess.Popen(command), {}
        while process.poll() is None:
            for pid in [process.pid, *children(process.pid)]:
                peak[pid] = max(peak.get(pid, 0), peak_mb(pid))
            time.sleep(0.1)
        assert process.returncode == 0
        peaks.append(sum(peak.values()))
    assert peaks[1] < 2000
    assert peaks[1] < peaks[0] + 100


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def peak_mb(pid):
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(found[1]) / 1024 if found else 0.0
