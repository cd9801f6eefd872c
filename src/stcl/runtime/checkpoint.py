"""Training state on disk. It is written whole or not at all, and read without running anything that it contains."""

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import torch


def save(path: Path, state: dict[str, Any]) -> None:
    """Replaces the file in one step, so that a kill leaves the previous state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path) -> dict[str, Any]:
    """The saved state, with its tensors on the host. Only tensors and plain values are accepted, never code."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"no weights at {path}; train the cell first: snakemake {path}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is not a complete file of weights; delete it and run snakemake again") from error


def load_weights(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The weights of a training, checked against the hash in its record. Records of older versions have none.

    Those of a training that diverged are refused. They are from before, and nobody has judged them.
    """
    if record.get("ended") == "diverged":
        raise ValueError(f"{path} is of a training that diverged in epoch {record['diverged']}; take another cell")
    weights = load(path)
    if record.get("weights", found := digest(weights)) != found:
        raise ValueError(f"{path} is not what train.json describes: its hash differs; run snakemake again")
    return weights


def digest(weights: dict[str, torch.Tensor]) -> str:
    """A hash of the names, types, shapes and values of weights, by which a record knows its own."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        values = weights[name].detach().cpu().numpy()
        found.update(f"{name}{values.dtype}{values.shape}".encode() + values.tobytes())
    return found.hexdigest()
