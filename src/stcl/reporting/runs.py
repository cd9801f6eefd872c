"""Reading of runs: what a training and its evaluation left, or that they left nothing."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """One cell. Its record and errors are None unless `status` is "done"."""

    folder: Path
    block: str
    n_train: int
    method: str
    seed: int
    status: str  # "done", "failed" (the log ends with an error) or "missing" (not run, or still running)
    record: dict[str, Any] | None
    errors: dict[str, Any] | None

    def history(self) -> list[dict[str, float]]:
        """A row per epoch."""
        with (self.folder / "history.csv").open(newline="") as file:
            return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def read_runs(folders: list[Path]) -> list[Run]:
    """The runs in the given folders `…/runs/<block>/N<n>/<method>/lam<λ>/seed<s>`, whether or not they are there."""
    return [_read(folder) for folder in folders]


def _read(folder: Path) -> Run:
    *root, block, size, method, lam, seed = folder.parts
    record, errors = (_content(folder / name) for name in ("train.json", "errors.json"))
    done = record is not None and errors is not None
    logs = Path(*root[:-1], "logs")
    names = Path(block, size, method, lam, f"{seed}.log")
    failed = any(_ended_with_error(logs / stage / names) for stage in ("train", "evaluate"))
    return Run(
        folder,
        block,
        int(size.removeprefix("N")),
        method,
        int(seed.removeprefix("seed")),
        "done" if done else "failed" if failed else "missing",
        record if done else None,
        errors if done else None,
    )


def _content(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None


def _ended_with_error(log: Path) -> bool:
    if not log.exists():
        return False
    return any(line.startswith(("error:", "Traceback")) for line in log.read_text(errors="replace").splitlines())
