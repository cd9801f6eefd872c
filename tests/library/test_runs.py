"""stcl.load_run: what was trained comes back as it was, and what does not fit together is refused by name."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray as xr

import stcl
from stcl import problems
from stcl.stages.errors import field_errors, jacobian_errors


@pytest.mark.parametrize("name", ["diffusion", "navier_stokes"])
def test_the_errors_of_a_reloaded_network_are_those_that_were_measured(cells, name):
    """To the last bit. Navier-Stokes has a response that is not scored."""
    run = stcl.load_run(cells[name])
    (a, u), (v, w) = run.pairs("test"), run.bank("test")
    kept = np.load(cells[name] / "errors.npz")
    assert np.array_equal(field_errors(run.network, a, u).numpy(), kept["field"])
    assert np.array_equal(jacobian_errors(run.network, a, v, w).numpy(), kept["jacobian"])
    assert run.errors["field_error"] == float(kept["field"].mean(dtype=np.float64))
    assert run.errors["jacobian_error"] == float(kept["jacobian"].mean(dtype=np.float64))


def test_what_a_run_was_trained_with(cells):
    run = stcl.load_run(str(cells["diffusion"]))
    spec = run.spec
    assert (spec.problem, spec.method, spec.n_train, spec.lam, spec.seed) == ("diffusion", "stcl", 8, 1.0, 0)
    assert run.problem == problems.load("diffusion", n=9)
    assert (run.record["epochs"], run.network.training) == (3, False)
    a, u = run.pairs("train")
    expected = run.problem.inputs(8, "train")  # the first eight of twelve that are stored
    np.testing.assert_allclose(a, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(u, run.problem.solve(expected), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(run.pairs("val")[0], run.problem.inputs(4, "val"), rtol=1e-6, atol=1e-6)


def test_the_tangents_of_a_reloaded_network_are_its_derivative(cells, float64):
    run = stcl.load_run(cells["navier_stokes"])
    (a, _), (v, _) = run.pairs("test"), run.bank("test")
    a, v, step = a.double(), v.double(), 1e-6
    _, w = run.network.value_and_tangents(a, v)
    difference = (run.network(a + step * v[1]) - run.network(a - step * v[1])) / (2 * step)
    torch.testing.assert_close(w[:, 1], difference, rtol=1e-6, atol=1e-8)


def test_loading_takes_nothing_from_the_random_stream(cells):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    stcl.load_run(cells["diffusion"])
    assert torch.equal(torch.rand(2), expected)


def test_a_cell_without_errors_has_its_test_data_all_the_same(cell):
    expected = stcl.load_run(cell).bank("test")
    (cell / "errors.json").unlink()
    run = stcl.load_run(cell)
    assert run.errors is None
    assert all(torch.equal(x, y) for x, y in zip(run.bank("test"), expected, strict=True))


def test_data_are_found_by_their_content(cell):
    """A dataset that is called otherwise, as those of ablations are, and one that must not be taken for it."""
    folder = cell.parents[5] / "data"
    expected = stcl.load_run(cell).pairs("train")
    (folder / "diffusion").rename(folder / "other")
    assert all(torch.equal(x, y) for x, y in zip(stcl.load_run(cell).pairs("train"), expected, strict=True))
    shutil.rmtree(folder / "other")
    with pytest.raises(FileNotFoundError, match=r"no train split below .*/data has the content"):
        stcl.load_run(cell).pairs("train")


def test_a_bank_that_the_study_does_not_have(cell):
    message = "`snakemake results/test/banks/diffusion/train.json` makes it"
    with pytest.raises(FileNotFoundError, match=message):
        stcl.load_run(cell).bank("train")


def test_stored_fields_are_found_by_name(cells):
    """Through the stages that wrote them: the inputs of a bank, and the responses whose tangents are in it."""
    run = stcl.load_run(cells["navier_stokes"])
    v, w = run.bank("test")
    stored = xr.open_zarr(run.folder.parents[5] / "banks/navier_stokes/test/fields.zarr", consolidated=False)
    assert np.array_equal(stored["w"].sel(scored="y2"), w[:, :, 1])
    np.testing.assert_allclose(stored["v"].sel(input="u1"), v[:, 0])


def edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def widened(path):
    spec = json.loads(path.read_text())["spec"]
    edited(path, spec=spec | {"network": spec["network"] | {"width": 7}})


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (lambda cell: shutil.rmtree(cell), FileNotFoundError, r"no .*train\.json; expected the folder of a trained"),
        (lambda cell: (cell / "weights.pt").unlink(), FileNotFoundError, r"no weights at .*weights\.pt"),
        (lambda cell: (cell / "weights.pt").write_bytes(b"PK"), ValueError, r"weights\.pt is not a complete file"),
        (lambda cell: (cell / "train.json").write_text("{"), ValueError, r"train\.json is not JSON"),
        (lambda cell: (cell / "train.json").write_text("{}"), ValueError, r"train\.json lacks best_epoch, contents"),
        (lambda cell: edited(cell / "train.json", spec={"x": 1}), ValueError, r"train\.json was written by another"),
        (lambda cell: edited(cell / "errors.json", best_epoch=9), ValueError, r"errors\.json was measured for another"),
        (
            lambda cell: shutil.copy(cell.parents[5] / "runs/navier_stokes/N8/stcl/lam1/seed0/weights.pt", cell),
            ValueError,
            r"weights\.pt is not what train\.json describes: its hash differs",
        ),
        (
            lambda cell: widened(cell / "train.json"),
            ValueError,
            r"weights\.pt does not fit the network that train\.json",
        ),
    ],
    ids=["folder", "weights", "half weights", "broken", "empty", "spec", "errors", "other weights", "other network"],
)
def test_what_is_missing_or_wrong_is_refused_by_name(cell, damage, kind, message):
    damage(cell)
    with pytest.raises(kind, match=message):
        stcl.load_run(cell)


def test_changed_data_are_refused(cell):
    (cell.parents[5] / "data/diffusion/test/fields.zarr/u/c/0/0/0").write_bytes(b"\0" * 4 * 81)
    run = stcl.load_run(cell)
    with pytest.raises(RuntimeError, match="its content hash differs"):
        run.pairs("test")


def test_data_of_other_options_are_refused(cell):
    (cell / "errors.json").unlink()
    manifest = cell.parents[5] / "banks/diffusion/test.json"
    edited(manifest, spec=json.loads(manifest.read_text())["spec"] | {"options": {"n": 11}})
    with pytest.raises(ValueError, match=r"banks/diffusion/test\.json is of diffusion with options {'n': 11}"):
        stcl.load_run(cell).bank("test")


def test_a_network_needs_no_package_of_the_workflow(cells):
    hidden = "sys.modules.update(dict.fromkeys(['zarr', 'xarray', 'snakemake', 'yaml', 'matplotlib']))"
    code = f"import sys; {hidden}; import stcl; print(stcl.load_run({str(cells['diffusion'])!r}).spec.n_train)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "8"
