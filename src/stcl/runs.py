"""A trained cell of a study, read back: its network, its problem, its data, and what it was trained with.

This is the one module of the library that reads what the workflow wrote. The network and its problem need no package of
the workflow; the data are in Zarr stores and need `pip install ".[workflow]"`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import Tensor

from stcl import problems
from stcl.core.evaluated import measured_for
from stcl.operators.build import trained_surrogate
from stcl.operators.surrogate import Surrogate
from stcl.problems.base import Problem, Split
from stcl.runtime import checkpoint
from stcl.study.specs.train import TrainSpec

# Where train.json and errors.json keep the content hash of what was read, by kind and split.
_TRAINED_ON = {
    ("data", "train"): "train",
    ("data", "val"): "val",
    ("banks", "train"): "bank",
    ("banks", "val"): "val_bank",
}
_MEASURED_ON = {("data", "test"): "data", ("banks", "test"): "bank"}


@dataclass(frozen=True, eq=False)
class Run:
    """A trained cell. `pairs` and `bank` read its data when they are called, and check what they read.

    folder   results/<preset>/runs/<cell>
    spec     what was trained: problem, N (n_train), method, λ (lam), seed, network, training
    problem  the problem, with its layout, reference solver and residual
    network  with the weights of the best epoch, on the CPU; network(a) is u, and it has value_and_tangents(a, v)
    record   train.json: epochs, validation error, seconds, content of the data
    errors   errors.json: both errors on the test split; None where they have not been measured
    """

    folder: Path
    spec: TrainSpec
    problem: Problem
    network: Surrogate
    record: dict[str, Any] = field(repr=False)
    errors: dict[str, Any] | None = field(repr=False)

    def pairs(self, split: Split) -> tuple[Tensor, Tensor]:
        """Inputs a [samples, *input_shape] and responses u [samples, *response_shape] of a split.

        Those of "train" are the N samples that the network was trained on.
        """
        from stcl.runtime import stores

        arrays = stores.read(self._manifest("data", split), self.spec.n_train if split == "train" else None)
        return torch.from_numpy(arrays["a"]), torch.from_numpy(arrays["u"])

    def bank(self, split: Split) -> tuple[Tensor, Tensor]:
        """Directions v [r, *input_shape] and tangents w = DS(a)[v] [samples, r, *tangent_shape], where they are stored.

        The first axis of w is that of `pairs`. The bank of "train" may hold the tangents of fewer samples.
        """
        from stcl.runtime import stores

        manifest = self._manifest("banks", split)
        stored = stores.read_manifest(manifest)["samples"]
        arrays = stores.read(manifest, min(self.spec.n_train, stored) if split == "train" else stored)
        return torch.from_numpy(arrays["v"]), torch.from_numpy(arrays["w"])

    def _manifest(self, kind: Literal["data", "banks"], split: Split) -> Path:
        """The manifest of what the cell was trained or measured on, found by its content hash.

        What the cell did not read itself, such as the bank of a method without stored tangents, is that of its dataset.
        """
        results = self.folder.absolute().parents[5]
        content = self.record["contents"].get(_TRAINED_ON.get((kind, split)))
        if content is None and self.errors is not None:
            content = self.errors["contents"].get(_MEASURED_ON.get((kind, split)))
        if content is not None:
            for manifest in sorted(results.glob(f"{kind}/*/{split}.json")):
                if _json(manifest).get("content") == content:
                    return manifest
            raise FileNotFoundError(
                f"no {split} split below {results / kind} has the content {content} that {self.folder} was made from: "
                f"it was deleted or made anew; `snakemake` makes data and network fit each other again"
            )
        manifest = results / kind / self._manifest("data", "train").parent.name / f"{split}.json"
        if not manifest.is_file():
            made = Path("results", *manifest.parts[len(results.parts) - 1 :])
            raise FileNotFoundError(f"no {manifest}; `snakemake {made}` makes it if the study has it")
        given = _json(manifest).get("spec", {})
        if (given.get("problem"), given.get("options")) != (self.spec.problem, self.spec.options):
            raise ValueError(
                f"{manifest} is of {given.get('problem')} with options {given.get('options')}, but {self.folder} was "
                f"trained for {self.spec.problem} with {self.spec.options}; run snakemake again"
            )
        return manifest


def load_run(folder: str | Path) -> Run:
    """The trained cell in results/<preset>/runs/<problem>/N<size>/<method>/lam<λ>/seed<seed>.

        run = stcl.load_run("results/quick/runs/diffusion/N128/stcl/lam0.25/seed0")
        (a, u), (v, w) = run.pairs("test"), run.bank("test")
        u_network, w_network = run.network.value_and_tangents(a, v)

    What is missing, or does not fit together, is refused with the name of the file.
    """
    folder = Path(folder)
    path = folder / "train.json"
    if not path.is_file():
        raise FileNotFoundError(f"no {path}; expected the folder of a trained cell, results/<preset>/runs/<cell>")
    record = _json(path)
    missing = sorted({"spec", "contents", "best_epoch"} - set(record))
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; delete it and run snakemake again")
    try:
        spec = TrainSpec.model_validate(record["spec"])
    except ValidationError as error:
        raise ValueError(f"{path} was written by another version: {error}; run snakemake again") from error
    problem = _problem(folder, spec)
    network = _network(folder / "weights.pt", problem, spec, record)
    return Run(folder, spec, problem, network, record, _errors(folder, record))


def _problem(folder: Path, spec: TrainSpec) -> Problem:
    """The problem of a cell. The path of a user's file starts from the folder that `results` is in."""
    if problems.is_file(spec.problem):
        return problems.load(str(folder.absolute().parents[7] / spec.problem), **spec.options)
    return problems.load(spec.problem, **spec.options)


def _network(path: Path, problem: Problem, spec: TrainSpec, record: dict[str, Any]) -> Surrogate:
    weights = checkpoint.load_weights(path, record)
    try:
        return trained_surrogate(problem.layout, spec.network, weights)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the network that train.json describes: {error}") from error


def _errors(folder: Path, record: dict[str, Any]) -> dict[str, Any] | None:
    """The errors beside the weights, if they have been measured. Those of another training are refused."""
    path = folder / "errors.json"
    if not path.is_file():
        return None
    errors = _json(path)
    if not measured_for(record, errors):
        raise ValueError(f"{path} was measured for another training than {folder / 'train.json'}; run snakemake again")
    return errors


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON ({error}); delete it and run snakemake again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} does not hold a JSON object; delete it and run snakemake again")
    return found
