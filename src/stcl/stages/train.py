"""The stage `train` trains one cell, from initial weights to the checkpoint with the lowest validation error.

    python -m stcl.stages.train --spec CELL.json --train data/train.json --val data/val.json \
        [--bank banks/train.json] [--decision select/….json] --out runs/…/train.json

It writes the run's record to `--out`, and beside it weights.pt (the best checkpoint) and history.csv (a row per epoch).
The state is kept in the working folder under the identity of spec, code and data, so a killed job that is started again
goes on from there and ends with the same bits. SIGTERM and SIGUSR1 end a job after the epoch it is in, with the state
saved and exit code 75.

A training that diverges fails. With `--tuning` it leaves a record that says so, which the choice of λ reads.
"""

import argparse
import csv
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stcl import problems
from stcl.core.errors import EquationError
from stcl.core.version import __version__
from stcl.losses.data import DataLoss
from stcl.operators.build import build_surrogate
from stcl.operators.duals import implementation
from stcl.operators.surrogate import Surrogate
from stcl.runtime import checkpoint, devices, options, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.ending import end
from stcl.runtime.progress import Progress
from stcl.runtime.stopping import EXIT_CODE, Stopped, StopSignals
from stcl.stages.methods import Setup
from stcl.stages.seeds import stream_seed
from stcl.stages.trainer import Diverged, Pairs, Trainer
from stcl.study.specs.train import TrainSpec

SAVE_SECONDS = 1.0  # shortest time between two saved states
# Saving takes at most this share of the time. Where it would take more, states are saved less often.
SAVE_SHARE = 0.02


@dataclass(frozen=True)
class Inputs:
    """The manifests of what a cell is trained with. Only offline DI needs `bank`, and only jacobian_every `val_bank`.

    `stored` is the manifest of the train bank, there or not. Its tangents only put the equation of sTCL to the test.
    """

    train: Path
    val: Path
    bank: Path | None = None
    val_bank: Path | None = None
    stored: Path | None = None

    @property
    def contents(self) -> dict[str, str]:
        """The content hashes of what the numbers of the training depend on."""
        paths = {"train": self.train, "val": self.val, "bank": self.bank, "val_bank": self.val_bank}
        return {name: stores.read_manifest(path)["content"] for name, path in paths.items() if path is not None}


def train_cell(
    spec: TrainSpec, inputs: Inputs, out: Path, work: Path, code: str, device: torch.device, tuning: bool = False
) -> None:
    """Trains the cell that `spec` describes on the given inputs. It resumes if an earlier attempt left its state.

    With `tuning` a divergence is a result like any other; without it, `Diverged` is raised.
    """
    contents = inputs.contents
    if spec.method == "stcl":
        # It refuses or passes and changes no number. Loaded by name, its code makes no training stale.
        importlib.import_module("stcl.stages.equation_check").check(spec, inputs.train, inputs.stored)
    state_path = work / stores.job_key(spec.canonical(), code, *contents.values()) / "state.pt"
    trainer = build_trainer(spec, inputs, device)
    if state_path.exists():
        trainer.load_state_dict(checkpoint.load(state_path))
        print(f"resumed after epoch {trainer.epoch} from {state_path}", flush=True)
    diverged = _run_epochs(trainer, spec, state_path, tuning)
    if trainer.ended == "early":
        print(
            f"ended early after epoch {trainer.epoch} of {spec.training.epochs}: the learning rate is at its minimum, "
            f"and the best checkpoint is that of epoch {trainer.best_epoch}",
            flush=True,
        )
    checkpoint.save(out.with_name("weights.pt"), trainer.best_weights)
    write_history(out.with_name("history.csv"), trainer.history)
    made_from = {"spec": spec.json_dict(), "version": __version__, "code": code, "contents": contents}
    stores.write_json(out, made_from | _result(trainer, diverged, device))


def _run_epochs(trainer: Trainer, spec: TrainSpec, state_path: Path, tuning: bool) -> Diverged | None:
    """Runs the epochs that are left, and saves the state as it goes. The result is the divergence of a tuning cell."""
    title = f"{spec.problem} N={spec.n_train} {spec.method} seed {spec.seed}"
    epochs, next_save = spec.training.epochs, time.monotonic() + SAVE_SECONDS
    with Progress(title, epochs, "epoch", trainer.epoch) as progress, StopSignals() as stop:
        while not trainer.ended:
            try:
                trainer.run_epoch()
            except Diverged as error:
                if tuning:
                    print(f"{error}. This λ will not be chosen", flush=True)
                    return error
                kept = state_path.with_name("diverged.csv")
                write_history(kept, trainer.history)
                raise Diverged(f"{error}; the history up to here is in {kept}", error.epoch) from error
            progress.step(note=_note(trainer.history[-1]))
            start, ended, stopped_by = time.monotonic(), trainer.ended, stop.received
            if ended or stopped_by or start >= next_save:
                checkpoint.save(state_path, trainer.state_dict())
                end = time.monotonic()
                next_save = end + max(SAVE_SECONDS, (end - start) / SAVE_SHARE)
            if stopped_by and not ended:
                raise Stopped(
                    f"stopped by {stopped_by} after epoch {trainer.epoch} of {epochs}; the state is saved in "
                    f"{state_path} and the same command continues from there"
                )
    return None


def _result(trainer: Trainer, diverged: Diverged | None, device: torch.device) -> dict[str, Any]:
    """What the record says of a training that has ended, and of what it ran on."""
    best = trainer.history[trainer.best_epoch - 1] if trainer.best_epoch else {"val_mse": None, "val_relative": None}
    result = {
        "weights": checkpoint.digest(trainer.best_weights),
        "epochs": trainer.epoch,
        "ended": "diverged" if diverged else trainer.ended,
        "best_epoch": trainer.best_epoch,
        "val_mse": best["val_mse"],
        "val_relative": best["val_relative"],
        "monitored": None if diverged else trainer.best,
        "seconds": trainer.seconds,
        "ledger": trainer.ledger(),
        "parameters": sum(p.numel() for p in trainer.surrogate.parameters()),
        "device": devices.name(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "passes": implementation(trainer.surrogate.mesh),
    }
    return result | ({"diverged": diverged.epoch} if diverged else {})


def build_trainer(spec: TrainSpec, inputs: Inputs, device: torch.device) -> Trainer:
    """The trainer of the cell that `spec` describes, before its first epoch."""
    problem = problems.load(spec.problem, **spec.options)

    def pairs(manifest: Path, samples: int | None) -> Pairs:
        arrays = stores.read(manifest, samples)
        return torch.from_numpy(arrays["a"]).to(device), torch.from_numpy(arrays["u"]).to(device)

    train_pairs, val_pairs = pairs(inputs.train, spec.n_train), pairs(inputs.val, None)
    # The same seed gives the same initial weights and batches for every method. All are drawn on the host.
    torch.manual_seed(spec.seed)
    surrogate = build_surrogate(problem.layout, spec.network).to(device)
    if spec.network.standardise:
        surrogate.standardise(train_pairs[0])
    setup = Setup(
        problem=problem,
        data_loss=DataLoss(problem.layout, spec.training.auxiliary_weight),
        settings=spec.settings,
        lam=spec.lam,
        basis=spec.basis,
        n_train=spec.n_train,
        seed=spec.seed,
        device=device,
        bank=inputs.bank,
        responses=train_pairs[1],
    )
    objective = importlib.import_module(f"stcl.stages.methods.{spec.method}").build(setup)
    seed = stream_seed(spec.seed, "batches")
    jacobian_error = _jacobian_error(val_pairs[0], inputs.val_bank, device) if spec.training.jacobian_every else None
    return Trainer(surrogate, objective, train_pairs, val_pairs, spec.training, seed, jacobian_error)


def _jacobian_error(a: Tensor, bank: Path | None, device: torch.device) -> Callable[[Surrogate], float]:
    """The mean relative error of tangents at the validation inputs, along the directions of their bank.

    The module that measures is loaded by name: cells that do not ask for this error do not depend on it.
    """
    if bank is None:
        raise stores.StoreError("jacobian_every needs the validation bank; pass --val-bank MANIFEST")
    errors = importlib.import_module("stcl.stages.errors")
    arrays = stores.read(bank)
    v, w = torch.from_numpy(arrays["v"]).to(device), torch.from_numpy(arrays["w"]).to(device)
    return lambda surrogate: errors.jacobian_errors(surrogate, a, v, w).mean().item()


def _note(row: dict[str, float]) -> str:
    return (
        f"data {row['data']:.3e}  derivative {row['derivative']:.3e}  gamma {row['gamma']:.2e}  "
        f"val {row['val_mse']:.3e} ({100 * row['val_relative']:.2f} %)  best {row['best']:.3e}  "
        f"lr {row['learning_rate']:.1e}"
    )


def write_history(path: Path, history: list[dict[str, float]]) -> None:
    """Writes one row per epoch. Losses are means over the epoch, and `best` is the lowest monitored error so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, history[0] if history else ())
        writer.writeheader()
        writer.writerows(history)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.stages.train", description="Train one cell.")
    parser.add_argument("--spec", type=TrainSpec.parse, required=True, help="the cell as JSON")
    parser.add_argument("--train", type=Path, required=True, help="manifest of the train split")
    parser.add_argument("--val", type=Path, required=True, help="manifest of the validation split")
    parser.add_argument("--bank", type=Path, help="manifest of the train bank, which only offline_di needs")
    parser.add_argument("--val-bank", type=Path, help="manifest of the validation bank, which jacobian_every needs")
    parser.add_argument("--stored", type=Path, help="manifest of the train bank, which sTCL checks its equation with")
    parser.add_argument(
        "--decision", type=Path, help="file with the lambda that validation chose, for a spec that has none"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="record to write; weights and history are written beside it"
    )
    parser.add_argument(
        "--tuning",
        action="store_true",
        help="for the choice of λ: a divergence is noted in the record and is no failure",
    )
    options.add_resuming(parser, "work/train")
    devices.add_options(parser)
    arguments = parser.parse_args()
    keep_heap()
    device = devices.chosen(arguments)
    spec = arguments.spec
    if arguments.decision is not None:
        spec = spec.model_copy(update={"lam": json.loads(arguments.decision.read_text())["lam"]})
    inputs = Inputs(arguments.train, arguments.val, arguments.bank, arguments.val_bank, arguments.stored)
    try:
        train_cell(spec, inputs, arguments.out, arguments.work, arguments.code, device, arguments.tuning)
    except Stopped as stopped:
        print(stopped, flush=True)
        raise SystemExit(EXIT_CODE) from stopped
    except (Diverged, EquationError, stores.StoreError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
    end()
