"""The page on what is beyond the labels: up to date, and its verdicts against numbers worked out by hand."""

import json
import re
from math import nan
from pathlib import Path

import pytest
from PIL import Image

from stcl.reporting import beyond
from stcl.reporting.costs import Cost
from stcl.reporting.tables.beyond import Row
from stcl.reporting.tables.estimate import Estimate
from stcl.study.cells import Cell

PROJECT = Path(__file__).parents[2]


def test_the_page_is_current():
    page = (PROJECT / beyond.PAGE).read_text()
    assert page == beyond.page(page, PROJECT), "run: make docs"
    rows = beyond.rows_with_times(beyond.recorded(PROJECT))
    if rows:
        with Image.open(PROJECT / beyond.PICTURE) as picture:
            assert picture.info["Description"] == beyond.content(rows), "run: make docs"


def test_the_words_have_no_number_that_is_not_in_the_records():
    words, _, generated = (PROJECT / beyond.PAGE).read_text().partition(beyond.MARK)
    quoted = re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", words)
    assert [number for number in quoted if number not in set(re.findall(r"\d+\.\d+", generated))] == []


def row(method, n, field, jacobian, seconds, loss=""):
    errors = {"field_error": Estimate((field,)), "jacobian_error": Estimate((jacobian,))}
    cell = Cell("burgers", n, method, 1.0, 0)
    return Row("burgers", cell, loss, errors, Cost(n, 0.0, 0.0), seconds, 0.0, "1")


CONTROLS = [
    row("fno", 10, 16.0, 64.0, 10.0),
    row("offline_di", 10, 8.0, 32.0, 100.0),
    row("fno", 40, 8.0, 32.0, 40.0),
    row("offline_di", 40, 4.0, 16.0, 400.0),
]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # 20 s buy FNO N = 20, half way between 10 and 40 in logarithms: 11.31 and 45.25
        (row("stcl", 10, 6.0, 40.0, 20.0, "fresh"), ("N = 20, with errors of about 11.31 / 45.25 %", "worse")),
        (
            row("stcl", 10, 12.0, 40.0, 20.0, "fresh"),
            ("N = 20, with errors of about 11.31 / 45.25 %", "neither"),
        ),
        (
            row("stcl", 10, 12.0, 50.0, 20.0, "fresh"),
            ("N = 20, with errors of about 11.31 / 45.25 %", "better"),
        ),
        (
            row("stcl", 10, 12.0, 50.0, 90.0, "fresh"),
            ("N = 90, which is more than the largest that was trained", ", 40, with errors of 8.00 / 32.00 %"),
        ),
        (row("stcl", 10, 12.0, 50.0, 5.0, "fresh"), ("N = 5, which is outside of what was trained", "outside")),
    ],
)
def test_the_better_deal(loss, expected):
    text = beyond.deal([*CONTROLS, loss], loss)
    field, jacobian = loss.errors["field_error"].mean / 8, loss.errors["jacobian_error"].mean / 32
    assert text.startswith(f"Burgers, N = 10, sTCL, fresh: {field:.2f} / {jacobian:.2f} times the field / Jacobian")
    fno = text.partition("would buy FNO ")[2].partition("Its seconds")[0]
    assert expected[0] in fno
    assert expected[1] in fno


def test_without_times_there_is_no_deal():
    loss = row("stcl", 10, 6.0, 40.0, nan, "fresh")
    assert "Its seconds" not in beyond.deal([*CONTROLS, loss], loss)
    missing = row("offline_di", 10, 8.0, 32.0, nan)
    object.__setattr__(missing, "errors", {name: Estimate((), ("missing",)) for name in missing.errors})
    assert "nothing to compare it with" in beyond.deal([missing, loss], loss)


def test_a_recorded_study_has_a_table(tmp_path):
    (tmp_path / "config").mkdir()
    for config in beyond.STUDIES:
        (tmp_path / config).write_text((PROJECT / config).read_text())
    assert beyond.generated(tmp_path) == "There are no records yet.\n"
    cells = {
        "diffusion-beyond/N128/offline_di/lam1/seed0": 0.08,
        "diffusion-beyond-solved_targets/N128/stcl/lam1/seed0": 0.04,
        "diffusion-beyond-solved_targets/N128/stcl/lam1/seed5": 0.06,
    }
    for path, error in cells.items():
        folder = tmp_path / "records/paper-small" / path
        folder.mkdir(parents=True)
        spec = {"lam": 1.0, "training": {"epochs": 1000}}
        (folder / "train.json").write_text(json.dumps({"spec": spec, "version": "9.9", "epochs": 300}))
        errors = {"spec": spec, "field_error": error, "jacobian_error": 2 * error}
        (folder / "errors.json").write_text(json.dumps(errors))
    text = beyond.generated(tmp_path)
    lines = {line.split("|")[2].strip(): line for line in text.splitlines() if line.startswith("| Nonlinear diffusion")}
    assert "5.00 ± 1.41 |" in lines["sTCL, solved targets"]
    assert "not run" in lines["sTCL"]
    assert "3 of 3 trainings are read from records, made by version 9.9." in text
    assert "sTCL, solved targets: 0.62 / 0.62 times the field / Jacobian error of offline DI with the same N." in text
    assert "Helmholtz" not in text  # nothing of it is recorded
    assert "config/paper.yaml" not in text
