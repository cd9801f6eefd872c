"""A training that ends early: it leaves what the full budget leaves, in fewer epochs, and does not go on later."""

import csv
import json
import os
import signal
from itertools import groupby
from pathlib import Path

import pytest
import torch

from stcl.runtime import checkpoint
from stcl.runtime.stopping import Stopped
from stcl.stages import data, train
from stcl.study.config import parse
from stcl.study.plan import Plan
from stcl.study.protocol import Training
from stcl.study.specs.train import TrainSpec

EPOCHS, WAIT = 60, 5
# The rates fall fast. The second schedule never comes to its minimum, because torch leaves out reductions that are as
# small as its last ones.
SCHEDULES = {
    "minimum": {"factor": 0.1, "patience": 1, "minimum": 1e-7},
    "just above the minimum": {"factor": 0.25, "patience": 1, "minimum": 1e-11},
}


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> dict:
    """The smallest cell, and its data: what `train_cell` takes, except where to write."""
    problem = {
        "options": {"n": 11},
        "samples": {"train": 8, "val": 4, "test": 4},
        "train_sizes": [8],
        "bank": {"train": 4, "test": 2},
        "network": {"modes": 3, "width": 8, "layers": 2, "head": 16},
        "training": {"epochs": EPOCHS, "batch": 4, "learning_rate": 0.005},
        "methods": {"stcl": {"lambda": 0.5, "q": 2}},
    }
    plan = Plan(parse({"preset": "test", "reduced": True, "seeds": [0], "problems": {"diffusion": problem}}))
    folder = tmp_path_factory.mktemp("early")
    for split in ("train", "val"):
        data.generate(plan.data_spec("diffusion", split), folder / f"{split}.json", folder / "work", "", workers=1)
    (cell,) = plan.cells.values()
    return {"spec": plan.train_spec(cell), "inputs": train.Inputs(folder / "train.json", folder / "val.json")}


def changed(cell: dict, **settings) -> dict:
    spec = cell["spec"].json_dict()
    return cell | {"spec": TrainSpec.model_validate(spec | {"training": spec["training"] | settings})}


def run(cell: dict, folder: Path) -> tuple[dict, list[dict], dict]:
    """Train in this process; record, history without seconds, and weights."""
    out = folder / "train.json"
    folder.mkdir(exist_ok=True)
    train.train_cell(**cell, code="", device=torch.device("cpu"), out=out, work=folder / "work")
    with out.with_name("history.csv").open(newline="") as file:
        history = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    return json.loads(out.read_text()), history, checkpoint.load(out.with_name("weights.pt"))


def same(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_it_leaves_the_checkpoint_of_the_full_budget(cell, tmp_path, capsys, schedule):
    through, all_rows, expected = run(changed(cell, schedule=schedule), tmp_path / "through")
    early, rows, weights = run(changed(cell, schedule=schedule, finish_after=WAIT), tmp_path / "early")
    assert (through["ended"], through["epochs"], len(all_rows)) == ("budget", EPOCHS, EPOCHS)
    assert early["ended"] == "early"
    assert early["epochs"] == len(rows) < EPOCHS - WAIT
    assert rows == all_rows[: len(rows)]
    assert same(weights, expected)
    for key in ("best_epoch", "monitored", "val_mse", "val_relative"):
        assert early[key] == through[key]
    # the rule once more, by the rate at which the whole budget ends
    *_, (rate, lowest) = [(r, list(g)) for r, g in groupby(all_rows, lambda row: row["learning_rate"])]
    assert len(rows) == max(through["best_epoch"], int(lowest[0]["epoch"]) - 1) + WAIT
    assert (float(rate) == schedule["minimum"]) == (schedule is SCHEDULES["minimum"])
    assert f"ended early after epoch {len(rows)} of {EPOCHS}" in capsys.readouterr().out


def test_it_does_not_train_on(cell, tmp_path, monkeypatch):
    early = changed(cell, schedule=SCHEDULES["minimum"], finish_after=WAIT)
    first = run(early, tmp_path)
    monkeypatch.setattr(train.Trainer, "run_epoch", lambda trainer: pytest.fail("trained on"))
    again = run(early, tmp_path)
    assert first[:2] == again[:2]
    assert same(first[2], again[2])


@pytest.mark.parametrize("before", [0, 1, WAIT + 1])
def test_it_ends_at_the_same_epoch_after_a_stop(cell, tmp_path, monkeypatch, before):
    """A signal in the last epoch does not keep it from finishing."""
    early = changed(cell, schedule=SCHEDULES["minimum"], finish_after=WAIT)
    record, rows, weights = run(early, tmp_path / "straight")
    epoch = train.Trainer.run_epoch

    def signalled(trainer):
        epoch(trainer)
        if trainer.epoch == record["epochs"] - before:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(train.Trainer, "run_epoch", signalled)
        if before:
            with pytest.raises(Stopped, match=f"after epoch {record['epochs'] - before} of {EPOCHS}"):
                run(early, tmp_path / "stopped")
    found = run(early, tmp_path / "stopped")
    assert (found[0]["epochs"], found[0]["ended"]) == (record["epochs"], "early")
    assert found[1] == rows
    assert same(found[2], weights)


@pytest.mark.parametrize(
    ("rates", "best", "ended"),
    [
        ([1e-3, 1e-6, 1e-6, 1e-6], 1, "early"),
        ([1e-3, 1e-6, 1e-6, 1e-6], 2, None),  # the last three have the best
        ([1e-3, 1e-3, 1e-6, 1e-6], 1, None),  # one of the last three has a higher rate
        ([1e-6, 1e-6, 1e-6], 0, "early"),
        ([1e-6, 1e-6], 0, None),
        ([1.009e-6, 1.009e-6, 1.009e-6], 0, "early"),  # torch makes no reduction of 1e-8 or less
        ([1.02e-6, 1.02e-6, 1.02e-6], 0, None),
        ([1e-7, 1e-7, 1e-7], 0, "early"),  # the schedule starts below its minimum, and torch leaves it there
        ([1e-3] * 8, 1, "budget"),
        ([1e-6] * 8, 1, "budget"),
    ],
)
def test_all_of_the_last_epochs_count(cell, rates, best, ended):
    spec = changed(cell, finish_after=3, epochs=8)["spec"]
    built = train.build_trainer(spec, cell["inputs"], torch.device("cpu"))
    built.history, built.best_epoch = [{"learning_rate": rate} for rate in rates], best
    assert built.ended == ended


def test_it_is_off_by_default():
    assert Training().finish_after is None
