"""Fields in files of a user: read from .npy or .zarr and checked, and written to them with names and coordinates.

Only .zarr needs the package zarr.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stcl.core.layout import Layout

KINDS = (".npy", ".zarr")


def check_kind(path: Path) -> None:
    """Refuses a file name that is neither."""
    if path.suffix not in KINDS:
        raise ValueError(f"{path} must end with {' or '.join(KINDS)}")


def files_of(out: Path, tangents: bool) -> list[Path]:
    """What is written for a name `out`: a Zarr group holds the tangents, too, and beside .npy they have a file."""
    return [out, out.with_suffix(".tangents.npy")] if tangents and out.suffix == ".npy" else [out]


def check_new(out: Path, tangents: bool) -> None:
    """Refuses to write where something is already, or where there is no folder."""
    check_kind(out)
    for path in files_of(out, tangents):
        if path.exists():
            raise ValueError(f"{path} is there already; delete it or give another name")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {out.absolute().parent} to write {out.name} into")


def read(path: Path, name: str, lead: str, layout: Layout) -> np.ndarray:
    """Inputs or directions [lead, *input_shape] in float32, from .npy, a Zarr array, or the array `name` of a group."""
    check_kind(path)
    if not path.exists():
        raise ValueError(f"no file {path}")
    found = _read_npy(path) if path.suffix == ".npy" else _read_zarr(path, name)
    shape, dims = layout.input_shape, layout.input_dims
    if found.shape[1:] != shape or found.ndim == 0:
        one = f"; a single one is {name}[None]" if found.shape == shape else ""
        raise ValueError(
            f"{path}: expected {name} of shape [{lead}, {', '.join(map(str, shape))}] with axes {lead}, "
            f"{', '.join(dims)}, got [{', '.join(map(str, found.shape))}]{one}"
        )
    if found.dtype.kind not in "fiu":
        raise ValueError(f"{path}: expected real numbers, got {found.dtype}")
    values = found.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))
    if len(bad):
        raise ValueError(f"{path}: {len(bad)} entries of {name} are not finite in float32, the first is {bad[0]}")
    return values


def _read_npy(path: Path) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers: {error}") from error
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path} holds several arrays; save one with numpy.save")
    return found


def _read_zarr(path: Path, name: str) -> np.ndarray:
    zarr = _zarr()
    try:
        found = zarr.open(path, mode="r")
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(f"{path} is not a Zarr store: {error}") from error
    if isinstance(found, zarr.Group):
        if name not in found:
            raise ValueError(f"{path} has no array {name}; it has: {', '.join(sorted(found.array_keys())) or 'none'}")
        found = found[name]
    return np.asarray(found[:])


def write(out: Path, arrays: Mapping[str, np.ndarray], layout: Layout) -> list[Path]:
    """Writes responses u [samples, *response_shape] and, where given, tangents w [samples, q, *response_shape].

    A Zarr group has names of axes and fields and the nodes of the grid, so that xarray shows them.
    """
    paths = files_of(out, "w" in arrays)
    if out.suffix == ".npy":
        for path, values in zip(paths, arrays.values(), strict=True):
            np.save(path, values)
        return paths
    zarr = _zarr()
    from stcl.runtime import stores

    lead = {"u": ("sample",), "w": ("sample", "direction")}
    group = zarr.create_group(out, zarr_format=3)
    for name, values in arrays.items():
        group.create_array(name, data=values, dimension_names=(*lead[name], *layout.response_dims))
    for name, (dims, nodes) in stores.axes(layout).items():
        group.create_array(name, data=nodes, dimension_names=dims)
    stores.write_labels(group, {"response": layout.responses} if "response" in layout.response_dims else {})
    return paths


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ValueError('files that end with .zarr need the package zarr: pip install ".[workflow]"') from None
    return zarr
