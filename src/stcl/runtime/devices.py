"""The device of a job: the GPU that the scheduler gave it, or the least used one of this machine, or the CPU.

Snakemake counts GPUs (`--resources gpu=4`) but does not say which one a job has, and every process would take the
first. So each job claims one where it sees several. Under Slurm a job sees only its own GPU, and there is nothing to
choose.
"""

import argparse
import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch


def pick() -> torch.device:
    """The device to compute on. A claimed GPU stays claimed until this process ends."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return torch.device("cpu")
    claims = Path(tempfile.gettempdir()) / f"stcl-gpus-{os.getuid()}"
    index = claim(names(count), claims) if count > 1 else 0
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of commands that compute with torch."""
    parser.add_argument(
        "--threads", type=int, default=1, help="number of CPU threads; results are repeatable for equal numbers"
    )
    parser.add_argument(
        "--device",
        type=torch.device,
        help="device to compute on; by default the least used GPU, or the CPU if there is none",
    )


def chosen(arguments: argparse.Namespace) -> torch.device:
    """The device that the options ask for; the number of threads is set as they say."""
    torch.set_num_threads(arguments.threads)
    return arguments.device or pick()


def name(device: torch.device) -> str:
    """What a device is called in records: the model of a GPU, else its kind."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def names(count: int) -> list[str]:
    """The names of the visible GPUs on this machine, in torch's order. Two workflows may see different GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    called = visible.split(",")[:count] if visible else map(str, range(count))
    return [name.strip().replace("/", "-") for name in called]


def claim(devices: Sequence[str], folder: Path) -> int:
    """The index of the device with the fewest claims of living processes. This process now claims it, too.

    A claim is a locked file. The kernel drops the lock when the process ends, however it ends.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        claims = [sum(_alive(file) for file in folder.glob(f"{device}.*")) for device in devices]
        index = claims.index(min(claims))
        # The file is never closed, so the claim lasts as long as the process. Child processes do not inherit it.
        descriptor, _ = tempfile.mkstemp(prefix=f"{devices[index]}.", dir=folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return index


def _alive(claim: Path) -> bool:
    """Whether the process of a claim still holds it. The file that a dead process left is removed."""
    with claim.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    claim.unlink()
    return False
