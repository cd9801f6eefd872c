"""Stage `timing`: seconds of an epoch of several cells, measured in turn with nothing else running.

    python -m stcl.stages.timing --spec '{"cells": {PATH: SPEC, …}, "epochs": 10}' --train data/train.json \
        --val data/val.json [--bank banks/train.json] --out timing/diffusion.json

An epoch is what training does: all updates and the validation. The cells take turns, so that a disturbance hits all of
them alike; a first round warms up and is not counted.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from stcl.runtime import devices
from stcl.runtime.allocator import keep_heap
from stcl.runtime.stores import StoreError, write_json
from stcl.stages.train import build_trainer
from stcl.study.specs.timing import TimingSpec


def epoch_seconds(
    spec: TimingSpec, train: Path, val: Path, bank: Path | None, device: torch.device
) -> dict[str, dict[str, Any]]:
    """Median seconds of an epoch and the cell's whole budget, by cell."""
    trainers = {
        path: build_trainer(cell, train, val, bank if cell.method == "offline_di" else None, device)
        for path, cell in spec.cells.items()
    }
    seconds: dict[str, list[float]] = {path: [] for path in trainers}
    for _ in range(1 + spec.epochs):
        for path, trainer in trainers.items():
            start = time.perf_counter()
            trainer.run_epoch()  # ends by reading the losses, so a device has finished too
            seconds[path].append(time.perf_counter() - start)
    return {
        path: {"epoch_seconds": median(seconds[path][1:]), "epochs": spec.cells[path].training.epochs}
        for path in trainers
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.stages.timing", description="Measure the seconds of an epoch."
    )
    parser.add_argument(
        "--spec", type=TimingSpec.parse, required=True, help="cells by path, and how many epochs, as JSON"
    )
    parser.add_argument("--train", type=Path, required=True, help="manifest of the train split")
    parser.add_argument("--val", type=Path, required=True, help="manifest of the validation split")
    parser.add_argument("--bank", type=Path, help="manifest of the train bank, for offline_di")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--device", type=torch.device, help="by default the least used GPU, or the CPU")
    arguments = parser.parse_args()
    keep_heap()
    torch.set_num_threads(arguments.threads)
    device = arguments.device or devices.pick()
    try:
        cells = epoch_seconds(arguments.spec, arguments.train, arguments.val, arguments.bank, device)
    except StoreError as error:
        raise SystemExit(f"error: {error}") from error
    write_json(
        arguments.out,
        {
            "cells": cells,
            "measured_epochs": arguments.spec.epochs,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "threads": arguments.threads,
        },
    )


if __name__ == "__main__":
    main()
