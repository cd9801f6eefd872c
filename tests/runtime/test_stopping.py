"""A training that is asked to stop: it saves, says so, and goes on later as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from stcl.runtime import checkpoint
from stcl.runtime.stopping import EXIT_CODE, Stopped
from stcl.stages import data, train
from stcl.study.config import parse
from stcl.study.plan import Plan

EPOCHS = 6


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> dict:
    """The smallest cell, and its data: what `train_cell` takes, except where to write."""
    problem = {
        "options": {"n": 11},
        "samples": {"train": 8, "val": 4, "test": 4},
        "train_sizes": [8],
        "bank": {"train": 4, "test": 2},
        "network": {"modes": 3, "width": 8, "layers": 2, "head": 16},
        "training": {"epochs": EPOCHS, "batch": 4},
        "methods": {"stcl": {"lambda": 0.5, "q": 2}},
    }
    plan = Plan(parse({"preset": "test", "reduced": True, "seeds": [0], "problems": {"diffusion": problem}}))
    folder = tmp_path_factory.mktemp("stopping")
    for split in ("train", "val"):
        spec = plan.data_spec("diffusion", split)
        data.generate(spec, folder / f"{split}.json", folder / "work", "", workers=1)
    (cell,) = plan.cells.values()
    return {"spec": plan.train_spec(cell), "inputs": train.Inputs(folder / "train.json", folder / "val.json")}


def run(cell: dict, folder: Path) -> dict:
    """Train in this process; the weights that came out."""
    out = folder / "train.json"
    folder.mkdir(exist_ok=True)
    rest = {"code": "", "device": torch.device("cpu")}
    train.train_cell(**cell, **rest, out=out, work=folder / "work")
    return checkpoint.load(out.with_name("weights.pt"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("epoch", [1, 4])
def test_a_signal_ends_it_after_the_epoch_with_everything_saved(cell, tmp_path, monkeypatch, number, epoch):
    before = signal.getsignal(number)
    update, updates = train.Trainer.update, []

    def signalled(trainer, *arguments):
        """Sends the signal amid an epoch, which is two updates long."""
        updates.append(trainer.epoch)
        if len(updates) == 2 * epoch - 1:
            os.kill(os.getpid(), number)
        return update(trainer, *arguments)

    monkeypatch.setattr(train.Trainer, "update", signalled)
    with pytest.raises(Stopped, match=f"stopped by {number.name} after epoch {epoch} of {EPOCHS}; the state is saved"):
        run(cell, tmp_path / "stopped")
    assert len(updates) == 2 * epoch
    assert signal.getsignal(number) == before
    (state,) = (tmp_path / "stopped/work").glob("*/state.pt")
    assert len(checkpoint.load(state)["history"]) == epoch

    resumed = run(cell, tmp_path / "stopped")
    assert len(updates) == 2 * EPOCHS
    straight = run(cell, tmp_path / "straight")
    assert resumed.keys() == straight.keys()
    assert all(torch.equal(resumed[name], straight[name]) for name in straight)


def test_a_signal_in_the_last_epoch_does_not_keep_it_from_finishing(cell, tmp_path, monkeypatch):
    epoch = train.Trainer.run_epoch

    def signalled(trainer):
        epoch(trainer)
        if trainer.epoch == EPOCHS:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(train.Trainer, "run_epoch", signalled)
    run(cell, tmp_path / "run")
    assert json.loads((tmp_path / "run/train.json").read_text())["spec"] == cell["spec"].json_dict()


@pytest.mark.parametrize(
    ("number", "text", "again"),
    [(signal.SIGTERM, "stopped by SIGTERM after epoch", True), (signal.SIGINT, "KeyboardInterrupt", False)],
)
def test_the_command_ends_by_the_signal(cell, tmp_path, number, text, again):
    """A warning ends it with the code that says `again`; Ctrl-C interrupts it where it is."""
    endless = cell["spec"].training.model_copy(update={"epochs": 10**6})
    spec = cell["spec"].model_copy(update={"training": endless})
    options = {"spec": spec.canonical(), "train": cell["inputs"].train, "val": cell["inputs"].val}
    options |= {"out": tmp_path / "train.json", "work": tmp_path / "work"}
    command = [sys.executable, "-m", "stcl.stages.train", *(str(x) for k, v in options.items() for x in (f"--{k}", v))]
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also in the background
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, **pipes, preexec_fn=interruptible)
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("work/*/state.pt")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no state was saved"
        time.sleep(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=100)
    assert process.returncode != 0, output
    assert (process.returncode == EXIT_CODE) == again, output
    assert text in output
    assert not (tmp_path / "train.json").exists()
