"""The command stcl: diagnose, predictions of a trained network, and what it says of files that do not fit."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

import stcl
from stcl import cli

POISSON = """
import stcl, torch

def residual(u, a):
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 32**2 - a[:, 1:-1]

equation = stcl.Equation(residual, torch.randn(4, 33), torch.nn.functional.pad(torch.randn(4, 31), (1, 1)), check=False)
"""


def page(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["stcl", "diagnose", *arguments])
    cli.main()
    return capsys.readouterr().out


def test_the_page_of_a_file(tmp_path, monkeypatch, capsys):
    file = tmp_path / "my_problem.py"
    file.write_text(POISSON)
    text = page(monkeypatch, capsys, str(file))
    expected = [
        "u on x (33 nodes), 31 unknowns, 2 values at walls held",
        "class      spd: definite elliptic; symmetric",
        "κ(AᵀA)  1.7e+05",  # cot(π/64)⁴
        "κ(AᵀMA) 4.1e+02",  # cot(π/64)²
        "form       solved_target",
        "solver direct",
        "limit 1073741824",
        "otherwise krylov",
        "method cg",
        "transforms sine",
        "weights 1024",
        "why        the eigenvalues of MA",
        "4 tangents along the value",
        "ms with gradient here",
        "an update with data alone is 1,",
        "solved_target, inverses kept for labels, up to 1 GiB",
        "krylov_target, nothing kept",
    ]
    assert [line for line in expected if line not in text] == []


def test_the_page_of_a_named_problem(monkeypatch, capsys):
    text = page(monkeypatch, capsys, "helmholtz", "--options", '{"n": 13}')
    assert "Helmholtz: u on x1 (13 nodes) × x2 (13 nodes), 121 unknowns" in text
    assert "method minres" in text


def test_the_page_of_a_problem_in_a_file(monkeypatch, capsys):
    poisson = Path(__file__).parents[2] / "examples/workflow/poisson.py"
    text = page(monkeypatch, capsys, str(poisson), "--options", '{"n": 13}')
    assert "Poisson: u on x1 (13 nodes) × x2 (13 nodes), 121 unknowns" in text
    assert "krylov_target, nothing kept" in text  # as poisson.yaml says


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must define `equation`"),
        (
            "import stcl, torch\nequation = stcl.Equation(lambda u, a: u, torch.ones(2, 9), torch.ones(2, 9))",
            "depend on a",
        ),
        (None, "no file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path, monkeypatch, capsys, content, message):
    file = tmp_path / "my_problem.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit, match=message):
        page(monkeypatch, capsys, str(file))


def test_unknown_problems_and_misplaced_options(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="unknown problem 'heat'; known problems: allen_cahn"):
        page(monkeypatch, capsys, "heat")
    file = tmp_path / "my_problem.py"
    file.write_text(POISSON)
    with pytest.raises(SystemExit, match="set what you need in the file"):
        page(monkeypatch, capsys, str(file), "--options", '{"n": 9}')


def predict(monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", ["stcl", "predict", *map(str, arguments)])
    cli.main()


@pytest.fixture
def expected(cells) -> dict[str, np.ndarray]:
    """What the networks of the flow give for inputs and directions that the study has stored: [6, …] and [3, …]."""
    run = stcl.load_run(cells["navier_stokes"])
    (a, _), (v, _) = run.pairs("test"), run.bank("test")
    with torch.no_grad():
        u, w = run.network.value_and_tangents(a, v)
    return {name: x.numpy() for name, x in {"a": a, "v": v, "u": u, "w": w}.items()}


def test_predictions_in_files_of_numpy(cells, expected, tmp_path, monkeypatch, capsys):
    """In several parts, of which the last is shorter."""
    monkeypatch.setattr(cli, "PREDICTED", 4)
    for name in "av":
        np.save(tmp_path / f"{name}.npy", expected[name].astype(np.float64))
    run = cells["navier_stokes"]
    predict(monkeypatch, run, tmp_path / "a.npy", tmp_path / "u.npy", "--directions", tmp_path / "v.npy")
    assert capsys.readouterr().out.split() == [str(tmp_path / "u.npy"), str(tmp_path / "u.tangents.npy")]
    np.testing.assert_allclose(np.load(tmp_path / "u.npy"), expected["u"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.load(tmp_path / "u.tangents.npy"), expected["w"], rtol=1e-5, atol=1e-6)
    predict(monkeypatch, run, tmp_path / "a.npy", tmp_path / "alone.npy")
    np.testing.assert_allclose(np.load(tmp_path / "alone.npy"), expected["u"], rtol=1e-5, atol=1e-6)


def test_predictions_in_zarr_carry_names_and_nodes(cells, results, expected, tmp_path, monkeypatch):
    """From a dataset of the study as it stands."""
    np.save(tmp_path / "v.npy", expected["v"])
    stored, out = results / "data/navier_stokes/test/fields.zarr", tmp_path / "out.zarr"
    predict(monkeypatch, cells["navier_stokes"], stored, out, "--directions", tmp_path / "v.npy")
    found = xr.open_zarr(out, consolidated=False)
    assert found["w"].dims == ("sample", "direction", "response", "x2", "x1")
    np.testing.assert_allclose(found["u"].sel(response="p"), expected["u"][:, 2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["w"].sel(response="y2"), expected["w"][:, :, 1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["x1"], stcl.load_run(cells["navier_stokes"]).problem.layout.coordinates[0])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 9, 8)), r"expected a of shape \[samples, 9, 9\] with axes samples, x1, x2, got \[4, 9, 8\]"),
        (np.zeros((9, 9)), r"got \[9, 9\]; a single one is a\[None\]"),
        (np.full((2, 9, 9), np.nan), "2 entries of a are not finite in float32, the first is 0"),
        (np.zeros((2, 9, 9), complex), "expected real numbers, got complex128"),
        (np.array([{}]), "is not a .npy file of numbers"),
        (None, "no file"),
    ],
    ids=["shape", "one", "nan", "complex", "objects", "missing"],
)
def test_inputs_that_do_not_fit_are_refused(cells, tmp_path, monkeypatch, array, message):
    if array is not None:
        np.save(tmp_path / "a.npy", array)
    with pytest.raises(SystemExit, match=message):
        predict(monkeypatch, cells["diffusion"], tmp_path / "a.npy", tmp_path / "u.npy")
    assert not (tmp_path / "u.npy").exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [("u.csv", r"must end with \.npy or \.zarr"), ("a.npy", "is there already"), ("no/u.npy", "there is no folder")],
)
def test_outputs_that_cannot_be_written_are_refused(cells, tmp_path, monkeypatch, out, message):
    np.save(tmp_path / "a.npy", np.zeros((1, 9, 9)))
    with pytest.raises(SystemExit, match=message):
        predict(monkeypatch, cells["diffusion"], tmp_path / "a.npy", tmp_path / out)


@pytest.mark.parametrize("device", ["foo", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused(cells, tmp_path, monkeypatch, device):
    np.save(tmp_path / "a.npy", np.zeros((1, 9, 9)))
    with pytest.raises(SystemExit, match=f"no device '{device}' here; there are: cpu"):
        predict(monkeypatch, cells["diffusion"], tmp_path / "a.npy", tmp_path / "u.npy", "--device", device)


def test_a_store_without_inputs_is_refused(cells, results, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"has no array a; it has: digest, v, w, x1, x2"):
        predict(monkeypatch, cells["diffusion"], results / "banks/diffusion/test/fields.zarr", tmp_path / "u.zarr")


def test_the_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stcl", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().out == f"stcl {stcl.__version__}\n"
