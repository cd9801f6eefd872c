"""The page that sets records beside published numbers: against numbers worked out by hand, and up to date."""

import csv
import json
import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

from stcl.reporting import agreement, records
from stcl.reporting.figures import convergence
from stcl.reporting.runs import read_runs
from stcl.reporting.sources import source
from stcl.reporting.tables.variance_share import mean_variance
from stcl.study.config import parse
from stcl.study.plan import Plan

PROJECT = Path(__file__).parents[2]


def test_the_page_is_current():
    page = (PROJECT / agreement.PAGE).read_text()
    assert page == agreement.page(page, PROJECT), "run: make docs"


def test_the_picture_is_current():
    """It carries an id of the records that it was drawn from."""
    found = agreement.recorded(PROJECT)
    with Image.open(PROJECT / agreement.CURVES) as picture:
        assert picture.info["Description"] == agreement.curves(found)["content"], "run: make docs"


def test_the_words_have_no_number_that_is_not_in_the_records():
    """A number with a decimal point above the mark stands below it, too, where all comes from records."""
    words, _, generated = (PROJECT / agreement.PAGE).read_text().partition(agreement.MARK)
    quoted = re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", words.replace("[protocol.md]", ""))
    known = set(re.findall(r"\d+\.\d+", generated))
    assert [number for number in quoted if number not in known] == []


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/protocol.md", "docs/cluster.md"])
def test_no_page_has_errors_of_its_own(page):
    """A pair "field / Jacobian" of errors, as 4.94 / 15.2, belongs to a page that is generated."""
    pairs = re.findall(r"\d+\.\d+ / \d+\.\d+(?! /)", (PROJECT / page).read_text())
    assert [pair for pair in pairs if pair != "1.2 / 5.6"] == []  # that pair is an asymmetry on three grids


@pytest.fixture
def project(tmp_path):
    """A project with the paper's studies, and records of two seeds of one cell and of one sketch count."""
    (tmp_path / "config").mkdir()
    for name in ("paper.yaml", "paper-small.yaml", "bad-labels.yaml", "offline-di.yaml", "published.yaml"):
        (tmp_path / "config" / name).write_text((PROJECT / "config" / name).read_text())
    for path, field in {
        "paper-small/burgers/N32/fno/lam0/seed0": 0.16,
        "paper-small/burgers/N32/fno/lam0/seed7": 0.18,
        "paper-small/diffusion-n32-q4/N128/stcl/lam1/seed0": 0.0418,
        "bad-labels/burgers/N512/fno/lam0/seed0": 0.5,
    }.items():
        folder = tmp_path / "records" / path
        folder.mkdir(parents=True)
        training = {"epochs": 2000, "finish_after": 200}
        spec = {"lam": None, "training": training}
        train = {"spec": spec, "version": "9.9", "epochs": 300, "ended": "early", "contents": {}}
        (folder / "train.json").write_text(json.dumps(train))
        errors = {"spec": spec, "field_error": field, "jacobian_error": 10 * field}
        if "burgers" in path:
            errors["standard_errors"] = {"field_error": field / 10, "jacobian_error": field / 4}
        (folder / "errors.json").write_text(json.dumps(errors))
        write_history(folder / "history.csv", 300)
    return tmp_path


def write_history(path: Path, epochs: int) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ("data", "val_mse", "variance_raw", "variance_weighted", "variance_total")
        writer.writerow(["epoch", *names])
        writer.writerows([e, *(1 / (e + i) for i in range(len(names)))] for e in range(1, epochs + 1))


def test_a_cell_stands_beside_its_published_number(project):
    """Published are 17.75 ± 3.10. Ours are 16 and 18: 17 ± 1.414, and their combined deviation is 3.407."""
    published = yaml.safe_load((PROJECT / "config/published.yaml").read_text())
    table = agreement.list_of_runs(agreement.recorded(project, agreement.STUDIES), published)
    burgers, sketch = table.body
    assert burgers[:10] == [
        "Burgers, N = 32, FNO",
        "0, 7",
        "300, 300 of 2000",
        *("17.00 ± 1.41", "1.70", "17.75 ± 3.10", "0.96", "-0.2"),
        *("170.00 ± 14.14", "4.25"),
    ]
    run = "results/paper-small/runs/burgers/N32/fno/lam0/seed"
    command = f"snakemake {run}0/errors.json {run}7/errors.json --configfile config/paper-small.yaml"
    assert burgers[-1] == f"`{command} --config 'seeds=[0, 7]'`"
    assert sketch[0] == "Nonlinear diffusion, 32 x 32, q = 4, N = 128, sTCL, λ = 1"
    assert sketch[3:8] == ["4.18", "—", "4.18 ± 0.34", "1.00", "+0.0"]  # made when no standard error was kept


def test_tables_have_what_was_recorded_and_the_rest_was_not_run(project):
    text = agreement.generated(project)
    errors = text.partition("### Field error")[2].partition("###")[0]
    rows = {tuple(c.strip() for c in line.split("|")[1:3]): line for line in errors.splitlines()}
    assert "17.00 ± 1.41 [17.75 ± 3.10, ×0.96]" in rows["Burgers", "32"]
    assert "not run [0.580 ± 0.060]" in rows["Burgers", "512"]  # the reduced study has this cell with another budget
    assert "2 of 2 trainings are read from records, made by version 9.9." in errors
    assert "| Burgers, N = 512, FNO |" in text.partition("## Questions")[2].partition("## Convergence")[0]
    assert "not run [2412]" in text.partition("### Training time")[2]
    assert str(project) not in text


def test_results_come_before_records(tmp_path):
    results, kept = tmp_path / "results/p", tmp_path / "records/p"
    cell = "diffusion/N8/fno/lam0/seed0"
    assert source(f"runs/{cell}", results, [kept]) == results / "runs" / cell
    for folder in (kept / cell, results / "runs" / cell):
        folder.mkdir(parents=True)
        (folder / "train.json").write_text('{"best_epoch": 7}')
        if folder.is_relative_to(results):
            assert source(f"runs/{cell}/train.json", results, [kept]) == kept / cell / "train.json"  # not yet evaluated
            (folder / "errors.json").write_text('{"best_epoch": 6}')
            assert source(f"runs/{cell}", results, [kept]) == kept / cell  # it was trained again since
        (folder / "errors.json").write_text('{"best_epoch": 7}')
        assert source(f"runs/{cell}", results, [kept]) == folder
        assert source(f"runs/{cell}/train.json", results, [kept]) == folder / "train.json"
    (kept / "timing").mkdir()
    (kept / "timing/diffusion.json").touch()
    assert source("timing/diffusion.json", results, [kept]) == kept / "timing/diffusion.json"


def test_a_thinned_history_gives_the_numbers_of_the_whole(project, tmp_path):
    """Rows are means over four epochs. Epoch 26 is the second of its row."""
    cell = "diffusion-n32-q4/N128/stcl/lam1/seed0"
    whole = project / "results/paper-small/runs" / cell
    whole.parent.mkdir(parents=True)
    whole.symlink_to(project / "records/paper-small" / cell)
    write_history(whole / "history.csv", 1000)
    plan = Plan(parse(yaml.safe_load((PROJECT / "config/paper-small.yaml").read_text())))
    (kept,) = records.write(plan, project / "results/paper-small", tmp_path / "records2/records")
    few, many = read_runs([kept, whole])
    assert len(few.history()) == 250
    for part in ("raw", "total"):
        assert mean_variance(few, part, 25) == pytest.approx(mean_variance(many, part, 25), rel=1e-5)
        assert mean_variance(few, part, 26) == pytest.approx(mean_variance(many, part, 26), rel=1e-3)
    spec = {"relative": [], "smooth": True}
    drawn = [convergence.draw(spec, [folder / "train.json"]).axes[0] for folder in (kept, whole)]
    for thin, full in zip(*(axes.lines for axes in drawn), strict=True):
        assert thin.get_xdata() == pytest.approx(full.get_xdata())
        assert thin.get_ydata() == pytest.approx(full.get_ydata(), rel=1e-5)
    assert [axes.get_xlabel() for axes in drawn] == ["Epoch, means over 4"] * 2
