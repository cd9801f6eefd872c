"""What the built study contains."""

import csv
import json

import numpy as np
import pytest

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="session")
def results(built):
    return built.folder / "results/tiny"


@pytest.mark.parametrize(("table", "errors"), [("field_error", "field"), ("jacobian_error", "jacobian")])
def test_tables_hold_the_mean_of_the_kept_errors_of_every_cell(results, table, errors):
    rows = list(csv.DictReader((results / f"tables/{table}.csv").open()))
    found = {(row["problem"], row["n_train"], row["method"]): float(row["mean"]) for row in rows}
    lams = {"fno": "0", "offline_di": "1", "stcl": "selected"}
    expected = {("diffusion", n, method, lam): f"diffusion/N{n}" for n in ("16",) for method, lam in lams.items()}
    expected |= {("helmholtz", "8", m, lam): "helmholtz/N8" for m, lam in (("fno", "0"), ("offline_di", "0.5"))}
    assert set(found) == {key[:3] for key in expected}
    for (problem, n, method, lam), folder in expected.items():
        kept = np.load(results / f"runs/{folder}/{method}/lam{lam}/seed0/errors.npz")[errors]
        assert found[problem, n, method] == pytest.approx(100 * kept.mean(), rel=1e-5)


def test_the_selected_lambda_has_the_lowest_validation_error(results):
    records = [
        json.loads((results / f"runs/diffusion/N16/stcl/lam{lam}/seed0/train.json").read_text()) for lam in ("0.5", "1")
    ]
    best = min(records, key=lambda record: record["monitored"])
    decision = json.loads((results / "select/diffusion/N16/stcl.json").read_text())
    assert decision == {"lam": best["spec"]["lam"]}
    final = json.loads((results / "runs/diffusion/N16/stcl/lamselected/seed0/train.json").read_text())
    assert final["spec"] == best["spec"]
    assert final["val_mse"] == best["val_mse"]


def test_a_run_names_what_it_was_made_from(results):
    record = json.loads((results / "runs/diffusion/N16/offline_di/lam1/seed0/train.json").read_text())
    for name, path in (("train", "data"), ("bank", "labels")):
        manifest = json.loads((results / f"{path}/diffusion/train.json").read_text())
        assert record["contents"][name] == manifest["content"]
    assert record["code"]
    assert record["spec"]["training"]["epochs"] == 3


def test_figures_are_drawn(results):
    for name in ("convergence", "samples/diffusion", "samples/helmholtz"):
        assert (results / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (results / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_report_carries_captions(built):
    code, output = built.run("--report", "report.html")
    assert code == 0, output
    page = (built.folder / "report.html").read_text()
    assert "Relative error of the predicted response" in page
    assert "not comparable with the paper" in page
