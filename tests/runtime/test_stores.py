"""Stores are written whole, continued after a crash, and refused when they are not what their manifest says."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from stcl import problems
from stcl.runtime import stores
from stcl.runtime.stores import Field, StoreError, StoreWriter

FIELDS = {"a": Field(("x",), (3,), "input"), "u": Field(("x",), (3,), "response")}
GRID = {"x": (("x",), np.linspace(0, 1, 3))}


def writer(tmp_path, key="k", samples=6):
    return StoreWriter(tmp_path / "work", key, samples, FIELDS, GRID, {}, {"spec": "{}"})


def rows(start, stop):
    a = np.arange(3 * start, 3 * stop, dtype=np.float32).reshape(-1, 3)
    return {"a": a, "u": a**2}


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "train.json"
    store = writer(tmp_path)
    store.append(rows(0, 4), {"solves": 4, "seconds": 1.0})
    store.append(rows(4, 6), {"solves": 2, "seconds": 0.5})
    store.finish(path, {"n": 3}, code="abc")
    return path


def test_what_was_written_is_read(manifest):
    arrays = stores.read(manifest)
    assert np.array_equal(arrays["u"], rows(0, 6)["u"])
    assert np.array_equal(arrays["x"], [0, 0.5, 1])


def test_a_subset_is_a_prefix(manifest):
    assert np.array_equal(stores.read(manifest, samples=2)["a"], rows(0, 2)["a"])


def test_a_range_is_read_and_checked_alone(manifest):
    assert np.array_equal(stores.read(manifest, range(2, 5))["u"], rows(2, 5)["u"])
    (manifest.with_suffix("") / stores.FIELDS / "u/c/1/0").write_bytes(bytes(12))
    assert np.array_equal(stores.read(manifest, range(2, 5))["u"], rows(2, 5)["u"])
    with pytest.raises(StoreError, match="content hash differs"):
        stores.read(manifest, range(1, 3))


def test_xarray_reads_names_coordinates_and_units(manifest):
    data = xr.open_zarr(manifest.with_suffix("") / stores.FIELDS, consolidated=False)
    assert data["u"].dims == ("sample", "x")
    assert data["u"].attrs["units"] == "1"
    assert np.array_equal(data.coords["x"], [0, 0.5, 1])
    assert data.attrs["spec"] == "{}"


def test_the_ledger_adds_up(manifest):
    ledger = json.loads(stores.ledger_path(manifest).read_text())
    assert (ledger["solves"], ledger["seconds"], ledger["code"]) == (6, 1.5, "abc")
    assert ledger["bytes"] >= 2 * 6 * 3 * 4


def test_an_interrupted_store_continues_and_is_the_same(manifest, tmp_path):
    other = tmp_path / "other"
    writer(other).append(rows(0, 4), {"solves": 4})
    again = writer(other)
    assert (again.done, again.cost["solves"]) == (4, 4)
    again.append(rows(4, 6), {"solves": 2})
    again.finish(other / "train.json", {"n": 3}, code="abc")
    assert (other / "train.json").read_text() == manifest.read_text()
    assert np.array_equal(stores.read(other / "train.json")["u"], stores.read(manifest)["u"])


def test_another_job_does_not_continue_it(tmp_path):
    writer(tmp_path).append(rows(0, 4), {})
    assert writer(tmp_path, key="changed").done == 0


def test_an_incomplete_store_is_not_finished(tmp_path):
    store = writer(tmp_path)
    store.append(rows(0, 4), {})
    with pytest.raises(StoreError, match="4 of 6 samples"):
        store.finish(tmp_path / "train.json", {}, code="")
    assert not (tmp_path / "train.json").exists()


def test_bad_values_are_not_stored(tmp_path):
    store = writer(tmp_path)
    with pytest.raises(StoreError, match="non-finite"):
        store.append(rows(0, 2) | {"u": np.full((2, 3), np.nan)}, {})
    assert store.done == 0


def test_more_samples_than_stored_are_refused(manifest):
    with pytest.raises(StoreError, match="has 6 samples, 7 were asked for"):
        stores.read(manifest, samples=7)
    with pytest.raises(StoreError, match="has 6 samples, 8 were asked for"):
        stores.read(manifest, range(5, 8))


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"no manifest .*train\.json"):
        stores.read(tmp_path / "train.json")


def test_a_broken_manifest_is_named(manifest):
    manifest.write_text("{")
    with pytest.raises(StoreError, match="is not JSON"):
        stores.read(manifest)


def test_a_missing_store_is_named(manifest):
    shutil.rmtree(manifest.with_suffix(""))
    with pytest.raises(StoreError, match="missing or truncated"):
        stores.read(manifest)


def test_a_truncated_store_is_refused(manifest):
    shutil.rmtree(manifest.with_suffix("") / stores.FIELDS / "u" / "c" / "1")
    with pytest.raises(StoreError, match=r"is not what train\.json describes"):
        stores.read(manifest)
    assert len(stores.read(manifest, samples=1)["u"]) == 1  # the prefix before the damage is still good


def test_the_manifest_of_another_store_is_refused(manifest):
    described = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(described | {"content": "0" * 32}))
    with pytest.raises(StoreError, match="content hash differs"):
        stores.read(manifest)


def test_a_kill_between_moving_and_describing_starts_over(manifest, tmp_path):
    """The finished store was moved away, the working folder still says that everything is done."""
    store = writer(tmp_path / "other")
    store.append(rows(0, 6), {})
    shutil.rmtree(store.folder / stores.FIELDS)
    assert writer(tmp_path / "other").done == 0


@pytest.fixture
def two_file_systems(tmp_path, monkeypatch):
    """Renames out of the working folder fail, as they do where `results` is a link to another file system."""
    rename = Path.replace

    def replace(self, target):
        inside = [Path(path).is_relative_to(tmp_path / "work") for path in (self, target)]
        if inside[0] != inside[1]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.usefixtures("two_file_systems")
def test_a_store_is_finished_on_another_file_system(tmp_path):
    store, path = writer(tmp_path), tmp_path / "results/train.json"
    store.append(rows(0, 6), {})
    store.finish(path, {"n": 3}, code="abc")
    assert np.array_equal(stores.read(path)["u"], rows(0, 6)["u"])
    assert [file.name for file in path.with_suffix("").iterdir()] == [stores.FIELDS]
    assert not store.folder.exists()


@pytest.mark.usefixtures("two_file_systems")
def test_a_kill_during_the_copy_leaves_nothing_half_written(tmp_path, monkeypatch):
    store, path = writer(tmp_path), tmp_path / "results/train.json"
    store.append(rows(0, 6), {})

    def killed(source, target):
        target.mkdir()
        shutil.copy(source / "zarr.json", target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", killed)
        with pytest.raises(KeyboardInterrupt):
            store.finish(path, {}, code="")
    assert not (path.with_suffix("") / stores.FIELDS).exists()
    again = writer(tmp_path)
    assert again.done == 6
    again.finish(path, {}, code="")
    assert np.array_equal(stores.read(path)["u"], rows(0, 6)["u"])


@pytest.mark.usefixtures("two_file_systems")
def test_a_kill_after_the_copy_leaves_nothing_to_go_on_from(tmp_path, monkeypatch):
    """A part of the working folder is gone. The job that is run again must not take it for a whole store."""
    store, path = writer(tmp_path), tmp_path / "results/train.json"
    store.append(rows(0, 6), {})
    remove = shutil.rmtree

    def killed(folder, **options):
        if folder == store.folder:
            remove(folder / stores.FIELDS / "u/c")
            raise KeyboardInterrupt
        remove(folder, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            store.finish(path, {}, code="")
    assert np.array_equal(stores.read(path)["u"], rows(0, 6)["u"])
    assert writer(tmp_path).done == 0


def test_fields_of_an_axis_are_found_by_name(tmp_path):
    """The axes that count fields carry their names where they are used, and the content is that of the arrays alone."""
    layout = problems.load("navier_stokes", n=8).layout
    fields = {
        "a": Field(layout.input_dims, layout.input_shape, "input"),
        "u": Field(layout.response_dims, layout.response_shape, "response"),
    }
    arrays = {name: np.random.default_rng(0).random((2, *field.shape), np.float32) for name, field in fields.items()}
    for name, labels in (("labelled", stores.labels(layout)), ("bare", {})):
        store = StoreWriter(tmp_path / "work", name, 2, fields, stores.axes(layout), labels, {})
        store.append(arrays, {})
        store.finish(tmp_path / f"{name}.json", {}, code="")
    data = xr.open_zarr(tmp_path / "labelled" / stores.FIELDS, consolidated=False)
    assert np.array_equal(data["u"].sel(response="p"), arrays["u"][:, 2])
    assert np.array_equal(data["a"].sel(input="u2"), arrays["a"][:, 1])
    assert "scored" not in data.coords
    assert (tmp_path / "labelled.json").read_text() == (tmp_path / "bare.json").read_text()
    assert set(stores.read(tmp_path / "labelled.json")) == {"a", "u", *layout.axes}
