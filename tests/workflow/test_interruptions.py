"""Killed, failing and misconfigured jobs."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from plans import changed
from project_copy import Workflow

pytestmark = pytest.mark.workflow

CELL = "results/tiny/runs/diffusion/N16/stcl/lam1/seed0"


def one_cell(config: dict, **training) -> dict:
    """The configuration cut down to one sTCL cell of diffusion."""
    problem = config["problems"]["diffusion"]
    stcl = problem["methods"]["stcl"] | {"lambda": 1.0}
    problem = problem | {
        "methods": {"stcl": stcl},
        "training": problem["training"] | training,
    }
    return config | {"problems": {"diffusion": problem}, "studies": {}, "selection": "fixed"}


def history(run: Path) -> list[dict]:
    """Every column but the clock."""
    rows = csv.DictReader((run / "history.csv").open(newline=""))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def state(workflow: Workflow) -> str:
    """What `stcl status` prints."""
    command = [sys.executable, "-m", "stcl.cli", "status"]
    return subprocess.run(command, cwd=workflow.folder, capture_output=True, text=True, check=True).stdout


def training_processes(folder: Path) -> list[int]:
    """Processes that run the train stage below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, cwd = (process / "cmdline").read_bytes().split(b"\0"), (process / "cwd").readlink()
        except OSError:
            continue
        if b"stcl.stages.train" in command and b"-m" in command and cwd == folder:
            found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the training process through /proc")
def test_a_killed_training_resumes_and_ends_with_the_same_bits(changeable):
    config = one_cell(changeable.config, epochs=800)
    target = f"{CELL}/train.json"
    earlier = set(changeable.folder.glob("work/train/*"))
    process = changeable.start(target, config=config)
    deadline = time.monotonic() + 300
    while not any(
        (work / "state.pt").exists() for work in changeable.folder.glob("work/train/*") if work not in earlier
    ):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no state was saved"
        time.sleep(0.05)
    (victim,) = training_processes(changeable.folder)
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert not (changeable.folder / target).exists()
    assert re.search(r"\n  training diffusion/N16/stcl/lam1/seed0  after epoch \d+ of 800(\n|$)", state(changeable))

    code, output = changeable.run(target, config=config)
    assert code == 0, output
    log = (changeable.folder / "results/tiny/logs/train/diffusion/N16/stcl/lam1/seed0.log").read_text()
    assert "resumed after epoch" in log
    resumed = changeable.folder / CELL
    record = json.loads((resumed / "train.json").read_text())

    data = changeable.folder / "results/tiny/data/diffusion"
    straight = changeable.folder / "straight/train.json"
    options = {"spec": json.dumps(record["spec"]), "train": data / "train.json", "val": data / "val.json"}
    options |= {"out": straight, "work": changeable.folder / "other", "code": record["code"]}
    command = [sys.executable, "-m", "stcl.stages.train", *(str(x) for k, v in options.items() for x in (f"--{k}", v))]
    subprocess.run(command, check=True, cwd=changeable.folder, stdout=subprocess.DEVNULL)

    expected = torch.load(straight.with_name("weights.pt"), weights_only=True)
    found = torch.load(resumed / "weights.pt", weights_only=True)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert history(resumed) == history(straight.parent)
    assert len(history(resumed)) == 800
    straight_record = json.loads(straight.read_text())
    for key in ("best_epoch", "monitored", "val_mse", "val_relative"):
        assert record[key] == straight_record[key]


def test_a_diverging_cell_says_where_and_does_not_stop_the_others(changeable):
    config = one_cell(changeable.config, learning_rate=1e30, epochs=30)
    helmholtz = changed(changeable.config["problems"]["helmholtz"], "training.epochs", 4) | {"methods": {"fno": {}}}
    config["problems"]["helmholtz"] = helmholtz
    other = "results/tiny/runs/helmholtz/N8/fno/lam0/seed0/errors.json"
    code, output = changeable.run(f"{CELL}/errors.json", other, config=config)
    assert code != 0
    assert re.search(r"^\d\d:\d\d:\d\d FAILED  train diffusion/N16/stcl/lam1/seed0  \(0:", output, re.MULTILINE)
    assert re.search(r"^      error: epoch \d+: .* training diverged", output, re.MULTILINE)
    assert "--spec" not in output  # the reason is not lost among the settings
    log = (changeable.folder / "results/tiny/logs/train/diffusion/N16/stcl/lam1/seed0.log").read_text()
    assert "error: epoch " in log
    assert " is nan; training diverged" in log or " is inf; training diverged" in log
    assert json.loads((changeable.folder / other).read_text())["spec"]["training"]["epochs"] == 4
    assert not (changeable.folder / CELL / "train.json").exists()
    page = state(changeable)
    assert re.search(r"^  trainings +1 +· +· +· +1$", page, re.MULTILINE)
    assert "\n  training diffusion/N16/stcl/lam1/seed0\n    error: epoch " in page
    assert "\n    log: results/tiny/logs/train/diffusion/N16/stcl/lam1/seed0.log" in page


def test_a_lambda_that_diverges_is_left_out_of_the_choice_and_fails_as_a_final_one(changeable):
    """Two of three λ are there. The third is tried once, and the choice goes on without it."""
    folder, run = changeable.folder, "diffusion/N16/stcl/lam1e+300/seed0"
    config = changed(changeable.config, "problems.diffusion.methods.stcl.lambda_grid", [0.5, 1.0, 1e300])
    decision, final = "results/tiny/select/diffusion/N16/stcl.json", "results/tiny/runs/diffusion/N16/stcl/lamselected"
    before = json.loads((folder / decision).read_text())
    targets = (decision, f"{final}/seed0/train.json")
    code, output = changeable.run(*targets, config=config)
    assert code == 0, output
    found = json.loads((folder / decision).read_text())
    assert found["lam"] == before["lam"]
    assert found["diverged"] == [{"lam": 1e300, "method": "stcl", "seed": 0, "epoch": 1}]
    log = (folder / "results/tiny/logs/select/diffusion/N16/stcl.log").read_text()
    assert "diverged: λ = 1e+300, stcl, seed 0, in epoch 1\n" in log
    assert "training diverged" in (folder / f"results/tiny/logs/train/{run}.log").read_text()
    assert re.search(r"^  trainings .* · +· *$", state(changeable), re.MULTILINE)  # none stopped, none failed
    assert changeable.planned(*targets, config=config) == {}
    longer = changed(config, "problems.diffusion.training.epochs", 4)
    assert changeable.planned(decision, config=longer) == {"train": 3, "select": 1}

    config = changed(one_cell(config), "problems.diffusion.methods.stcl.lambda", 1e300)
    target = f"results/tiny/runs/{run}/train.json"
    assert changeable.planned(target, config=config) == {"train": 1}
    code, output = changeable.run(target, config=config)
    assert code != 0
    error = re.search(r"^      error: epoch 1: .* training diverged.* is in (\S+)", output, re.MULTILINE)
    assert (folder / error[1]).name == "diverged.csv"
    assert (folder / error[1]).exists()
    assert not (folder / target).exists()
    assert f"\n  training {run}\n    error: epoch 1: " in state(changeable)


def test_a_bad_configuration_is_refused_before_any_work(empty):
    config = one_cell(empty.config) | {"sedes": [1]}
    code, output = empty.run(config=config)
    assert code != 0
    assert "sedes: unknown key" in output
    assert not (empty.folder / "results").exists()


def test_a_changed_store_is_refused(changeable):
    """The manifest says what the store held; a chunk that was overwritten since is not trained on."""
    config = one_cell(changeable.config, epochs=4)
    chunk = next((changeable.folder / "results/tiny/data/diffusion/train/fields.zarr/u/c/3").glob("0/0"))
    chunk.write_bytes(bytes(chunk.stat().st_size))
    code, output = changeable.run(f"{CELL}/train.json", config=config)
    assert code != 0
    assert "is not what train.json describes" in output
    assert not (changeable.folder / CELL / "train.json").exists()
