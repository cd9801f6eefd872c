"""Zarr stores of samples, which are written in chunks and checked when they are read.

A store lives in a folder of its own next to a manifest:

    <name>/fields.zarr     Zarr v3 group; every array is readable by name with xarray.open_zarr
    <name>.json            manifest with the spec and the content hash; consumers depend on this file
    <name>.ledger.json     ledger of what the store cost, with seconds, solves, bytes and the code id

Axes that count fields, such as `response`, have the names of the fields as coordinates. These are names, as the axes
have them, and not data, so they are no part of the content: a field may be called otherwise without making data stale.

The ledger is apart from the manifest because it differs between two runs that give the same data, and equal data must
not make anything downstream stale. A store is written in a working folder and moved into place when it is complete.
"""

import errno
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from stcl.core.layout import Layout

FIELDS = "fields.zarr"
DIGEST_BYTES = 16
LABELLED = ("input", "response", "scored")  # the axes that count fields; each has an array with their names


class StoreError(RuntimeError):
    """A store is missing, incomplete, or not the one its manifest describes."""


@dataclass(frozen=True)
class Field:
    """An array with one entry per sample: names and sizes of its axes after `sample`, its meaning and its type."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    description: str
    units: str = "1"
    dtype: str = "float32"


def write_json(path: Path, content: Any) -> None:
    """Writes JSON so that a reader sees either the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, sort_keys=True, indent=1) + "\n")
    partial.replace(path)


class StoreWriter:
    """A store under construction. Opening the same folder again with the same key continues after the last chunk."""

    def __init__(
        self,
        folder: Path,
        key: str,
        samples: int,
        fields: Mapping[str, Field],
        constants: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
        labels: Mapping[str, tuple[str, ...]],
        attributes: Mapping[str, Any],
    ) -> None:
        self.folder, self.key, self.samples = folder, key, samples
        self.fields, self.constants = fields, constants
        self.done = 0
        self.cost: Counter = Counter()
        if self._continued():
            self.group = zarr.open_group(folder / FIELDS, mode="r+")
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.group = zarr.create_group(folder / FIELDS, zarr_format=3, attributes=dict(attributes))
        for name, field in fields.items():
            self.group.create_array(
                name,
                shape=(samples, *field.shape),
                chunks=(1, *field.shape),
                dtype=field.dtype,
                compressors=None,
                dimension_names=("sample", *field.dims),
                attributes={"description": field.description, "units": field.units},
            )
        for name, (dims, values) in constants.items():
            array = self.group.create_array(name, data=values, compressors=None, dimension_names=dims)
            array.attrs["units"] = "1"
        used = {dim for field in fields.values() for dim in field.dims} | {
            d for ds, _ in constants.values() for d in ds
        }
        write_labels(self.group, {dim: names for dim, names in labels.items() if dim in used})
        self.group.create_array(
            "digest",
            shape=(samples, DIGEST_BYTES),
            chunks=(samples, DIGEST_BYTES),
            dtype="uint8",
            compressors=None,
            dimension_names=("sample", "byte"),
            attributes={"description": "BLAKE2b of the sample's arrays in alphabetical order", "units": "1"},
        )
        self._note_progress()

    def array(self, name: str) -> zarr.Array:
        """The array of this name, as far as it has been written."""
        return _array(self.group, name)

    @property
    def _progress(self) -> Path:
        return self.folder / "progress.json"

    def _note_progress(self) -> None:
        write_json(self._progress, {"key": self.key, "done": self.done, "cost": self.cost})

    def _continued(self) -> bool:
        """Whether an interrupted run of the same job has left something. If so, its progress is taken over."""
        try:
            progress = json.loads(self._progress.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        if progress["key"] != self.key or not (self.folder / FIELDS).is_dir():  # a kill came after the move
            return False
        self.done, self.cost = progress["done"], Counter(progress["cost"])
        return True

    def append(self, arrays: Mapping[str, np.ndarray], cost: Mapping[str, float]) -> None:
        """Writes the next samples, every field [chunk, *shape], and adds what they cost to the ledger."""
        if set(arrays) != set(self.fields):
            raise ValueError(f"expected the arrays {sorted(self.fields)}, got {sorted(arrays)}")
        arrays = {name: np.ascontiguousarray(values, dtype=self.fields[name].dtype) for name, values in arrays.items()}
        count = len(next(iter(arrays.values())))
        rows = slice(self.done, self.done + count)
        for name, values in arrays.items():
            expected = (count, *self.fields[name].shape)
            if values.shape != expected:
                raise ValueError(f"expected {name} of shape {expected}, got {values.shape}")
            if not np.isfinite(values).all():
                raise StoreError(f"{name} of samples {rows.start}..{rows.stop - 1} has non-finite values; not stored")
            self.array(name)[rows] = values
        self.array("digest")[rows] = _digests(arrays)
        self.done = rows.stop
        self.cost.update(cost)
        self._note_progress()

    def finish(self, manifest: Path, spec: Any, code: str) -> None:
        """Moves the complete store to its place beside the manifest, and writes manifest and ledger."""
        if self.done != self.samples:
            raise StoreError(f"{self.folder} holds {self.done} of {self.samples} samples; it cannot be finished")
        content = content_hash(
            np.asarray(self.array("digest")[:]), {name: v for name, (_, v) in self.constants.items()}
        )
        size = sum(file.stat().st_size for file in (self.folder / FIELDS).rglob("*") if file.is_file())
        folder = manifest.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        _move(self.folder / FIELDS, folder / FIELDS)
        constants = sorted(self.constants)
        write_json(manifest, {"spec": spec, "content": content, "samples": self.samples, "constants": constants})
        write_json(ledger_path(manifest), {"spec": spec, "code": code, "bytes": size, **self.cost})
        self._progress.unlink()  # first, so that what a kill leaves of the folder is not taken for a whole store
        shutil.rmtree(self.folder)


def _move(source: Path, target: Path) -> None:
    """Puts a folder in the place of another, so that the target never holds a part of the source.

    A rename is all or nothing, but only within one file system. Across two, the source is copied beside the target,
    and the copy is renamed. The source then stays.
    """
    shutil.rmtree(target, ignore_errors=True)
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = target.with_name(f".{target.name}.copy")
        shutil.rmtree(copy, ignore_errors=True)  # a killed job may have left a part
        shutil.copytree(source, copy)
        copy.replace(target)


def axes(layout: Layout) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The nodes of the grid as coordinate arrays, for the constants of a `StoreWriter`."""
    return {axis: ((axis,), nodes) for axis, nodes in zip(layout.axes, layout.coordinates, strict=True)}


def labels(layout: Layout) -> dict[str, tuple[str, ...]]:
    """The names along the axes that count fields, for the labels of a `StoreWriter`."""
    return dict(zip(LABELLED, (layout.inputs, layout.responses, layout.scored), strict=True))


def write_labels(group: zarr.Group, labels: Mapping[str, tuple[str, ...]]) -> None:
    """Adds the names along axes as coordinates, so that xarray finds a field by its name."""
    for dim, names in labels.items():
        array = group.create_array(dim, shape=(len(names),), dtype=str, compressors=None, dimension_names=(dim,))
        array[:] = np.array(names, dtype=object)


def ledger_path(manifest: Path) -> Path:
    """The path of the file that says what a store cost."""
    return manifest.with_suffix(".ledger.json")


def read_manifest(manifest: Path, at_least: int = 0) -> dict[str, Any]:
    """The manifest of a store: spec, content hash, number of samples, names of constants.

    It is an error if the store has fewer samples than `at_least`.
    """
    try:
        found = json.loads(manifest.read_text())
    except FileNotFoundError:
        raise StoreError(f"no manifest {manifest}; build it with: snakemake {manifest}") from None
    except json.JSONDecodeError as error:
        raise StoreError(f"manifest {manifest} is not JSON ({error}); delete it and run snakemake again") from None
    missing = sorted({"spec", "content", "samples", "constants"} - set(found))
    if missing:
        raise StoreError(f"manifest {manifest} lacks {', '.join(missing)}; delete it and run snakemake again")
    if at_least > found["samples"]:
        raise StoreError(
            f"{manifest.with_suffix('')} has {found['samples']} samples, {at_least} were asked for; enlarge the dataset"
        )
    return found


def read(manifest: Path, samples: int | range | None = None) -> dict[str, np.ndarray]:
    """The arrays of a store, checked against the manifest.

    Arrays with one entry per sample hold all samples, the first `samples`, or a range of them.
    """
    wanted = samples if isinstance(samples, range) else range(samples or 0)
    described = read_manifest(manifest, at_least=wanted.stop)
    rows = range(described["samples"]) if samples is None else wanted
    folder = manifest.with_suffix("")
    try:
        group = zarr.open_group(folder / FIELDS, mode="r")
        digests = np.asarray(_array(group, "digest")[:])
        constants = {name: np.asarray(_array(group, name)[:]) for name in described["constants"]}
        others = {"digest", *constants, *LABELLED}
        arrays = {name: _rows(_array(group, name), rows) for name in group.array_keys() if name not in others}
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise StoreError(
            f"store {folder} is missing or truncated ({error}); delete it and run snakemake again"
        ) from error
    good = (
        content_hash(digests, constants) == described["content"]
        and len(digests) == described["samples"]
        and np.array_equal(_digests(arrays), digests[rows.start : rows.stop])
    )
    if not good:
        raise StoreError(
            f"store {folder} is not what {manifest.name} describes: its content hash differs. Some of it was changed "
            f"or is missing; delete both and run snakemake again"
        )
    return arrays | constants


def _array(group: zarr.Group, name: str) -> zarr.Array:
    found = group[name]
    if not isinstance(found, zarr.Array):
        raise ValueError(f"{name} is a group, expected an array")
    return found


def _rows(array: zarr.Array, rows: range) -> np.ndarray:
    if array.shape[0] < rows.stop:
        raise ValueError(f"{array.basename} has {array.shape[0]} samples, expected {rows.stop}")
    return np.asarray(array[rows.start : rows.stop])


def content_hash(digests: np.ndarray, constants: Mapping[str, np.ndarray]) -> str:
    """One hash for the whole store, from the digests of the samples and the arrays that they share."""
    total = hashlib.blake2b(np.ascontiguousarray(digests).tobytes(), digest_size=DIGEST_BYTES)
    for name in sorted(constants):
        total.update(f"{name}{constants[name].shape}".encode() + np.ascontiguousarray(constants[name]).tobytes())
    return total.hexdigest()


def _digests(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    names = sorted(arrays)
    count = len(arrays[names[0]])
    digests = np.empty((count, DIGEST_BYTES), np.uint8)
    for i in range(count):
        digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        for name in names:
            digest.update(np.ascontiguousarray(arrays[name][i]).data)
        digests[i] = np.frombuffer(digest.digest(), np.uint8)
    return digests


def job_key(spec: str, code: str, *contents: str) -> str:
    """The identity of a piece of work, by which its working folder is named.

    It depends on the spec as canonical text, on the code, and on what else is given: the content hashes of the data
    that is read, and the path of what is written where jobs with one spec may run at once.
    """
    return hashlib.sha256("\0".join([spec, code, *contents]).encode()).hexdigest()[:24]
