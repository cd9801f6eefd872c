"""Stage `train`: one cell, from initial weights to the checkpoint with the lowest validation error.

    python -m stcl.stages.train --spec CELL.json --train data/train.json --val data/val.json \
        [--bank labels/train.json] [--decision select/….json] --out runs/…/train.json

Writes beside `--out`: weights.pt (the best checkpoint), history.csv (a row per epoch) and the run's own record. The
state is kept in the working folder under the identity of spec, code and data: a killed job that is started again goes
on from there and ends with the same bits. SIGTERM and SIGUSR1 end it after the epoch it is in, with the state saved and
exit code 75.
"""

import argparse
import csv
import importlib
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stcl import problems
from stcl.core.arrays import relative_error
from stcl.losses.data import DataLoss, Objective
from stcl.operators.build import build_surrogate
from stcl.operators.settings import Network
from stcl.operators.surrogate import Surrogate
from stcl.runtime import checkpoint, devices, stores
from stcl.runtime.allocator import keep_heap
from stcl.runtime.progress import Progress
from stcl.runtime.stopping import EXIT_CODE, Stopped, StopSignals
from stcl.stages.gradient_variance import GradientVariance
from stcl.stages.methods import Setup
from stcl.study.protocol import Training

LOSSES = ("data", "derivative", "gamma")

Pairs = tuple[Tensor, Tensor]  # inputs a and responses u on the training device


SAVE_SECONDS = 1.0  # between saved states, or longer where saving would take more than
SAVE_SHARE = 0.02  # of the time


class Diverged(RuntimeError):
    """Training met a value that is not finite."""


class Trainer:
    """The loop: everything that changes during training, and how it is saved and restored."""

    def __init__(
        self,
        surrogate: Surrogate,
        objective: Objective,
        train: Pairs,
        val: Pairs,
        settings: Training,
    ) -> None:
        self.surrogate, self.objective, self.settings = surrogate, objective, settings
        self.train, self.val = train, val
        self.optimiser = torch.optim.Adam(
            surrogate.parameters(), lr=settings.learning_rate, eps=settings.adam_eps, fused=True
        )
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimiser,
            factor=settings.schedule.factor,
            patience=settings.schedule.patience,
            min_lr=settings.schedule.minimum,
        )
        self.best, self.best_epoch, self.best_weights = math.inf, 0, self._weights()
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self.variance = GradientVariance(list(surrogate.parameters())) if settings.gradient_variance else None

    @property
    def epoch(self) -> int:
        return len(self.history)

    def run_epoch(self) -> None:
        """One pass over the training set, validation, schedule, best checkpoint, a row of history."""
        start = time.perf_counter()
        row = {"epoch": self.epoch + 1} | self._updates()
        row["learning_rate"] = self.optimiser.param_groups[0]["lr"]
        row["val_mse"], row["val_relative"] = self._validate()
        self._refuse_divergence(row)
        monitored = row[f"val_{self.settings.monitor}"]
        self.scheduler.step(monitored)
        if monitored < self.best:
            self.best, self.best_epoch, self.best_weights = monitored, self.epoch + 1, self._weights()
        self.seconds += time.perf_counter() - start
        self.history.append(row | {"best": self.best, "seconds": self.seconds})

    def _updates(self) -> dict[str, float]:
        """All updates of an epoch; means of losses and γ. Reads from the device once, at the end."""
        a, u = self.train
        total = torch.zeros(len(LOSSES), device=a.device)
        batches = torch.randperm(len(a)).split(self.settings.batch)
        for rows in batches:
            on_device = rows.to(a.device, non_blocking=True)
            total += self.update(a[on_device], u[on_device], rows)
        means = dict(zip(LOSSES, (total / len(batches)).tolist(), strict=True))
        return means | (self.variance.finish() if self.variance else {})

    def update(self, a: Tensor, u: Tensor, rows: Tensor) -> Tensor:
        """One step of the optimiser on a batch; (data loss, derivative loss, γ) on the device."""
        self.optimiser.zero_grad()
        losses = self.objective(self.surrogate, a, u, rows)
        if self.variance:
            self.variance.add(losses)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(self.surrogate.parameters(), self.settings.clip)
        self.optimiser.step()
        return torch.stack([losses.data, losses.derivative, losses.gamma]).detach()

    def _validate(self) -> tuple[float, float]:
        """Mean squared error over all values, and mean relative error, of the scored responses."""
        a, u = self.val
        score = self.surrogate.layout.score
        with torch.no_grad():
            predicted = torch.cat([score(self.surrogate(part)) for part in a.split(64)])
            mse = (predicted - score(u)).square().mean()
            relative = relative_error(predicted, score(u)).mean()
        return tuple(torch.stack([mse, relative]).tolist())

    def _refuse_divergence(self, row: dict[str, float]) -> None:
        for term, value in row.items():
            if not math.isfinite(value):
                raise Diverged(
                    f"epoch {self.epoch + 1}: {term} is {value}; training diverged. Lower the learning rate or λ; the "
                    f"history up to here is in diverged.csv of the working folder"
                )

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().to("cpu", copy=True) for name, value in self.surrogate.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "surrogate": self._weights(),
            "optimiser": self.optimiser.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "objective": self.objective.state_dict(),
            "best": (self.best, self.best_epoch, self.best_weights),
            "history": self.history,
            "seconds": self.seconds,
            "random": torch.get_rng_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.surrogate.load_state_dict(state["surrogate"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.objective.load_state_dict(state["objective"])
        self.best, self.best_epoch, self.best_weights = state["best"]
        self.history, self.seconds = state["history"], state["seconds"]
        torch.set_rng_state(state["random"])


def train_cell(
    spec: dict[str, Any],
    train: Path,
    val: Path,
    bank: Path | None,
    out: Path,
    work: Path,
    code: str,
    device: torch.device,
) -> None:
    """Train the cell that `spec` describes from the given manifests, resuming if an earlier attempt left its state."""
    contents = {name: stores.read_manifest(path)["content"] for name, path in _given(train=train, val=val, bank=bank)}
    state_path = work / stores.job_key(spec, code, *contents.values()) / "state.pt"
    settings = Training.model_validate(spec["training"])
    trainer = build_trainer(spec, train, val, bank, device)
    if state_path.exists():
        trainer.load_state_dict(checkpoint.load(state_path))
        print(f"resumed after epoch {trainer.epoch} from {state_path}", flush=True)
    title = f"{spec['problem']} N={spec['n_train']} {spec['method']} seed {spec['seed']}"
    next_save = time.monotonic() + SAVE_SECONDS
    with Progress(title, settings.epochs, "epoch", trainer.epoch) as progress, StopSignals() as stop:
        while trainer.epoch < settings.epochs:
            try:
                trainer.run_epoch()
            except Diverged:
                write_history(state_path.with_name("diverged.csv"), trainer.history)
                raise
            progress.step(note=_note(trainer.history[-1]))
            start, ended, stopped_by = time.monotonic(), trainer.epoch == settings.epochs, stop.received
            if ended or stopped_by or start >= next_save:
                checkpoint.save(state_path, trainer.state_dict())
                end = time.monotonic()
                next_save = end + max(SAVE_SECONDS, (end - start) / SAVE_SHARE)
            if stopped_by and not ended:
                raise Stopped(
                    f"stopped by {stopped_by} after epoch {trainer.epoch} of {settings.epochs}; the state is saved in "
                    f"{state_path} and the same command continues from there"
                )
    checkpoint.save(out.with_name("weights.pt"), trainer.best_weights)
    write_history(out.with_name("history.csv"), trainer.history)
    best = trainer.history[trainer.best_epoch - 1]
    record = {
        "spec": spec,
        "code": code,
        "contents": contents,
        "best_epoch": trainer.best_epoch,
        "val_mse": best["val_mse"],
        "val_relative": best["val_relative"],
        "monitored": trainer.best,
        "seconds": trainer.seconds,
        "parameters": sum(p.numel() for p in trainer.surrogate.parameters()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    stores.write_json(out, record)


def _given(**paths: Path | None) -> list[tuple[str, Path]]:
    return [(name, path) for name, path in paths.items() if path is not None]


def build_trainer(spec: dict[str, Any], train: Path, val: Path, bank: Path | None, device: torch.device) -> Trainer:
    """The cell that `spec` describes, before its first epoch."""
    settings = Training.model_validate(spec["training"])
    problem = problems.load(spec["problem"], **spec["options"])
    network = Network.model_validate(spec["network"])

    def pairs(manifest: Path, samples: int | None) -> Pairs:
        arrays = stores.read(manifest, samples)
        return tuple(torch.from_numpy(arrays[name]).to(device) for name in ("a", "u"))

    train_pairs, val_pairs = pairs(train, spec["n_train"]), pairs(val, None)
    # The same seed gives the same initial weights and batches for every method: weights first, on the host.
    torch.manual_seed(spec["seed"])
    surrogate = build_surrogate(problem.layout, network).to(device)
    if network.standardise:
        surrogate.standardise(train_pairs[0])
    setup = Setup(
        problem=problem,
        data_loss=DataLoss(problem.layout, settings.auxiliary_weight),
        settings=spec["settings"],
        lam=spec["lam"],
        basis=spec["basis"],
        n_train=spec["n_train"],
        seed=spec["seed"],
        device=device,
        bank=bank,
    )
    objective = importlib.import_module(f"stcl.stages.methods.{spec['method']}").build(setup)
    return Trainer(surrogate, objective, train_pairs, val_pairs, settings)


def _note(row: dict[str, float]) -> str:
    return (
        f"data {row['data']:.3e}  derivative {row['derivative']:.3e}  gamma {row['gamma']:.2e}  "
        f"val {row['val_mse']:.3e} ({100 * row['val_relative']:.2f} %)  best {row['best']:.3e}  "
        f"lr {row['learning_rate']:.1e}"
    )


def write_history(path: Path, history: list[dict[str, float]]) -> None:
    """One row per epoch; losses are epoch means, `best` is the monitored validation error so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, history[0] if history else ())
        writer.writeheader()
        writer.writerows(history)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.stages.train", description="Train one cell.")
    parser.add_argument("--spec", type=json.loads, required=True, help="the cell as JSON")
    parser.add_argument("--train", type=Path, required=True, help="manifest of the train split")
    parser.add_argument("--val", type=Path, required=True, help="manifest of the validation split")
    parser.add_argument("--bank", type=Path, help="manifest of the train bank, for offline_di")
    parser.add_argument("--decision", type=Path, help="file with the chosen lambda, for a spec without one")
    parser.add_argument("--out", type=Path, required=True, help="record to write; weights and history go beside it")
    parser.add_argument(
        "--work", type=Path, default=Path("work/train"), help="where the state of unfinished runs is kept"
    )
    parser.add_argument("--code", default="", help="identity of the code, for the record and for resuming")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; results are repeatable for equal numbers")
    parser.add_argument("--device", type=torch.device, help="by default the least used GPU, or the CPU")
    arguments = parser.parse_args()
    keep_heap()
    torch.set_num_threads(arguments.threads)
    spec = arguments.spec
    if arguments.decision is not None:
        spec = spec | {"lam": json.loads(arguments.decision.read_text())["lam"]}
    try:
        train_cell(
            spec,
            arguments.train,
            arguments.val,
            arguments.bank,
            arguments.out,
            arguments.work,
            arguments.code,
            arguments.device or devices.pick(),
        )
    except Stopped as stopped:
        print(stopped, flush=True)
        raise SystemExit(EXIT_CODE) from stopped
    except (Diverged, stores.StoreError) as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
