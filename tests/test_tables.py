"""Aggregation against numbers worked out by hand."""

import csv
import json

import pytest

from stcl import tables
from stcl.select import choose


def record(seed, field, jacobian, method="stcl", n=8, lam=1.0):
    spec = {"problem": "diffusion", "n_train": n, "method": method, "lam": lam, "seed": seed}
    return {"spec": spec, "field_error": field, "jacobian_error": jacobian, "best_epoch": 3}


@pytest.fixture
def cells(tmp_path):
    paths = []
    for i, content in enumerate(
        [record(0, 0.02, 0.1), record(1, 0.04, 0.3), record(0, 0.5, 0.9, method="fno", lam=None)]
    ):
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(json.dumps(content))
    tables.write_cells(paths, tmp_path / "cells.csv")
    return tmp_path / "cells.csv"


def test_mean_and_sample_deviation_in_percent(cells, tmp_path):
    tables.write_errors([cells], "field_error", reduced=True, out=tmp_path / "field_error.csv")
    rows = list(csv.DictReader((tmp_path / "field_error.csv").open()))
    stcl = next(row for row in rows if row["method"] == "stcl")
    assert float(stcl["mean"]) == pytest.approx(3.0)
    assert float(stcl["std"]) == pytest.approx(2**0.5)  # of 2 and 4 around 3, divided by n - 1 = 1
    assert stcl["n_seeds"] == "2"
    fno = next(row for row in rows if row["method"] == "fno")
    assert (float(fno["mean"]), fno["std"]) == (pytest.approx(50.0), "")


def test_markdown_and_latex_show_the_same(cells, tmp_path):
    tables.write_errors([cells], "jacobian_error", reduced=True, out=tmp_path / "jacobian_error.csv")
    markdown = (tmp_path / "jacobian_error.md").read_text()
    assert "not comparable with the paper" in markdown
    assert "| Nonlinear diffusion | 8 | 90.00 | 20.00 ± 14.14 |" in markdown
    latex = (tmp_path / "jacobian_error.tex").read_text()
    assert r"Nonlinear diffusion & 8 & 90.00 & 20.00 $\pm$ 14.14 \\" in latex


def test_full_size_tables_do_not_claim_to_be_reduced(cells, tmp_path):
    tables.write_errors([cells], "field_error", reduced=False, out=tmp_path / "field_error.csv")
    assert "not comparable" not in (tmp_path / "field_error.md").read_text()


def tuned(lam, seed, monitored):
    return {"spec": {"lam": lam, "seed": seed}, "monitored": monitored}


def test_lambda_is_chosen_by_the_mean_over_seeds():
    records = [tuned(0.5, 0, 1.0), tuned(0.5, 1, 5.0), tuned(1.0, 0, 2.0), tuned(1.0, 1, 2.0)]
    assert choose(records) == 1.0


def test_equal_lambdas_give_the_smaller_one():
    assert choose([tuned(2.0, 0, 1.0), tuned(1.0, 0, 1.0)]) == 1.0


def test_a_missing_seed_is_refused():
    with pytest.raises(ValueError, match="same seeds"):
        choose([tuned(0.5, 0, 1.0), tuned(0.5, 1, 1.0), tuned(1.0, 0, 1.0)])
