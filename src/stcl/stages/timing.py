"""The stage `timing` measures the seconds of an epoch of several cells in turn, with nothing else running.

    python -m stcl.stages.timing --spec '{"cells": {PATH: SPEC, …}, "epochs": 10}' --train data/train.json \
        --val data/val.json [--bank banks/train.json] --out timing/diffusion.json

An epoch is what it is in training: all updates and the validation. The cells take turns, so that a disturbance hits all
of them alike. A first round warms up and is not counted.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from stcl.runtime import devices
from stcl.runtime.allocator import keep_heap
from stcl.runtime.ending import end
from stcl.runtime.stores import StoreError, write_json
from stcl.stages.train import Inputs, build_trainer
from stcl.study.specs.timing import TimingSpec


def epoch_seconds(
    spec: TimingSpec, train: Path, val: Path, bank: Path | None, device: torch.device
) -> dict[str, dict[str, Any]]:
    """The median seconds of an epoch and the number of epochs in the whole budget, for each cell."""
    trainers = {
        path: build_trainer(cell, Inputs(train, val, bank if cell.method == "offline_di" else None), device)
        for path, cell in spec.cells.items()
    }
    seconds: dict[str, list[float]] = {path: [] for path in trainers}
    for _ in range(1 + spec.epochs):
        for path, trainer in trainers.items():
            start = time.perf_counter()
            trainer.run_epoch()  # it ends by reading the losses, so a device has finished, too
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
        "--spec",
        type=TimingSpec.parse,
        required=True,
        help="the comparison as JSON: the spec of each cell under its path, and how many epochs",
    )
    parser.add_argument("--train", type=Path, required=True, help="manifest of the train split")
    parser.add_argument("--val", type=Path, required=True, help="manifest of the validation split")
    parser.add_argument("--bank", type=Path, help="manifest of the train bank, which only offline_di needs")
    parser.add_argument("--out", type=Path, required=True)
    devices.add_options(parser)
    arguments = parser.parse_args()
    keep_heap()
    device = devices.chosen(arguments)
    try:
        cells = epoch_seconds(arguments.spec, arguments.train, arguments.val, arguments.bank, device)
    except StoreError as error:
        raise SystemExit(f"error: {error}") from error
    write_json(
        arguments.out,
        {
            "spec": arguments.spec.json_dict(),
            "cells": cells,
            "measured_epochs": arguments.spec.epochs,
            "device": devices.name(device),
            "threads": arguments.threads,
        },
    )


if __name__ == "__main__":
    main()
    end()
