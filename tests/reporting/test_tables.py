"""Tables against numbers worked out by hand: the main ones, and what all of them have in common."""

import ast
import json
import math
from pathlib import Path

import pytest
from table_inputs import bank_ledger, timing, written

from stcl.reporting.runs import read_runs
from stcl.reporting.tables import (
    command,
    errors,
    per_cell_settings,
    render,
    wallclock,
)
from stcl.reporting.tables.by_problem import row
from stcl.reporting.tables.render import Table


def test_mean_and_sample_deviation_in_percent(two_seeds, tmp_path):
    fno, stcl = written(errors.build({"table": "field_error"}, two_seeds, None), tmp_path)
    assert float(stcl["mean"]) == pytest.approx(3.0)
    assert float(stcl["std"]) == pytest.approx(2**0.5)  # of 2 and 4 around 3, divided by n - 1 = 1
    assert stcl["n_seeds"] == "2"
    assert (float(fno["mean"]), fno["std"]) == (pytest.approx(50.0), "")


def test_markdown_and_latex_show_the_same(two_seeds, tmp_path):
    errors.build({"table": "jacobian_error"}, two_seeds, None).write(tmp_path / "jacobian_error.csv", reduced=True)
    markdown = (tmp_path / "jacobian_error.md").read_text()
    assert "not comparable with the paper" in markdown
    assert "| Nonlinear diffusion | 8 | 90.00 | 20.00 ± 14.14 |" in markdown
    latex = (tmp_path / "jacobian_error.tex").read_text()
    assert r"Nonlinear diffusion & 8 & 90.00 & 20.00 $\pm$ 14.14 \\" in latex
    assert r"\label{tab:jacobian_error}" in latex


def texts_in(source: str) -> list[str]:
    """All text in a file but docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return [node.value for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("module", sorted(Path(render.__file__).parent.glob("*.py")), ids=lambda module: module.stem)
def test_all_text_of_tables_has_letters_that_latex_knows(module):
    for text in texts_in(module.read_text()):
        latex = Table(text, [], [""], []).latex("table")
        assert latex.isascii(), f"LaTeX has no command for a letter of {text!r}; add it to `_LATEX`"


def test_what_is_missing_or_failed_is_never_a_number(two_seeds, run, tmp_path):
    folders = [
        *two_seeds,
        run("diffusion/N8/stcl/lam1/seed2", log="epoch 1\nerror: epoch 2: data is nan; training diverged"),
        run("diffusion/N8/offline_di/lam1/seed0"),
        run("diffusion/N8/offline_di/lam1/seed1", log="epoch 1 of 9"),
        run("diffusion/N16/fno/lam0/seed0", log="Traceback (most recent call last):"),
    ]
    table = errors.build({"table": "field_error"}, folders, None)
    assert table.body == [
        ["Nonlinear diffusion", "8", "50.00", "3.00 ± 1.41 (1 failed)", "2 missing"],
        ["Nonlinear diffusion", "16", "failed", "—", "—"],
    ]
    rows = written(table, tmp_path)
    missing = next(row for row in rows if row["method"] == "offline_di")
    assert (missing["mean"], missing["std"], missing["n_seeds"], missing["n_unfinished"]) == ("", "", "0", "2")


@pytest.mark.parametrize("end", ["KeyboardInterrupt", "stopped by SIGTERM; the same command goes on"])
def test_a_training_that_was_stopped_has_not_failed(run, end):
    log = f"epoch 1 of 9\nTraceback (most recent call last):\n{end}\n"
    (stopped,) = read_runs([run("diffusion/N8/fno/lam0/seed0", log=log)])
    assert stopped.status == "missing"


def test_errors_of_an_earlier_training_do_not_count(two_seeds):
    """A cell was trained again, and its evaluation has not begun."""
    train = two_seeds[1] / "train.json"
    train.write_text(json.dumps(json.loads(train.read_text()) | {"best_epoch": 6}))
    assert [run.status for run in read_runs(two_seeds)] == ["done", "missing", "done"]
    table = errors.build({"table": "field_error"}, two_seeds, None)
    assert table.body == [["Nonlinear diffusion", "8", "50.00", "4.00 (1 missing)"]]


@pytest.mark.parametrize("wrong", [math.inf, math.nan])
def test_an_error_that_is_not_finite_is_counted_and_has_no_mean(two_seeds, run, tmp_path, wrong):
    folders = [
        *two_seeds,
        run("diffusion/N8/stcl/lam1/seed2", wrong, 0.2),
        run("diffusion/N8/stcl/lam1/seed3"),
        run("diffusion/N8/offline_di/lam1/seed0", wrong, 0.2),
    ]
    published = {"field_error": {"diffusion": {8: {"stcl": [6.0, 0.5]}}}}
    for theirs, shown in ((None, "1 of 3 not finite"), (published, "1 of 3 not finite [6.00 ± 0.50]")):
        table = errors.build({"table": "field_error"}, folders, theirs)
        assert table.body[0][2:] == ["50.00", f"{shown} (1 missing)", "not finite"]
    row = next(row for row in written(table, tmp_path) if row["method"] == "stcl")
    assert (row["mean"], row["std"], row["n_seeds"], row["n_unfinished"]) == ("", "", "3", "1")


@pytest.mark.parametrize("log", ["diffusion/N8/fno/lam0/seed0", "diffusion"])
def test_a_failed_evaluation_is_seen_whether_it_is_of_a_cell_or_of_a_block(results, run, log):
    folders = [run("diffusion/N8/fno/lam0/seed0"), run("diffusion-m1/N8/fno/lam0/seed0")]
    file = results / f"logs/evaluate/{log}.log"
    file.parent.mkdir(parents=True)
    file.write_text("error: store … is missing")
    assert [run.status for run in read_runs(folders)] == ["failed", "missing"]


def test_published_numbers_stand_beside_ours_and_large_differences_are_marked(two_seeds, tmp_path):
    published = {"field_error": {"diffusion": {8: {"fno": [40.0, 2.0], "stcl": [6.0, 0.5]}}}}
    table = errors.build({"table": "field_error"}, two_seeds, published)
    # fno: one seed, |50 - 40| > 3 sqrt(2² + 2²) = 8.5; stcl: |3 - 6| < 3 sqrt(2 + 0.25) = 4.5
    assert table.body[0][2:] == ["50.00 [40.00 ± 2.00, ×1.25]*", "3.00 ± 1.41 [6.00 ± 0.50, ×0.50]"]
    table.write(tmp_path / "table.csv", reduced=False)
    assert "not comparable" not in (tmp_path / "table.md").read_text()


def test_settings_name_the_lambda_of_the_runs(run):
    folders = [
        run("diffusion/N8/fno/lam0/seed0", 1, 1, lam=None),
        run("diffusion/N8/stcl/lamselected/seed0", 1, 1, lam=0.5),
        run("diffusion/N8/offline_di/lam1/seed0", 1, 1),
    ]
    settings = {"bank": 64, "form": "residual", "grids": {"stcl": [0.5, 1.0], "offline_di": None}}
    published = {"per_cell_settings": {"diffusion": {"stcl": {8: 0.7}}}}
    table = per_cell_settings.build({"problems": {"diffusion": settings}}, folders, published)
    assert table.body == [
        ["Nonlinear diffusion", "8", "sTCL", "0.5", "0.5 1", "—", "residual", "0.7"],
        ["Nonlinear diffusion", "8", "Offline DI", "1", "—", "64", "stored tangents", "—"],
    ]


def test_labels_are_charged_to_offline_di(tmp_path):
    methods = {"fno": 1.0, "stcl": 5.0, "offline_di": 3.0}
    cells = {f"diffusion/N8/{m}/lam1/seed0": {"epoch_seconds": s, "epochs": 10} for m, s in methods.items()}
    inputs = [timing(tmp_path / "t.json", cells), bank_ledger(tmp_path, "diffusion", seconds=80.0)]
    table = wallclock.build({}, inputs, None)
    # half of the bank: 40 s, saved at 50 - 30 = 20 s a training
    assert table.body == [["Nonlinear diffusion", "8", "10", "50", "30", "40", "2", "8", "512", "2"]]
    assert wallclock.break_even(3.0, 5.0, 40.0) == float("inf")


def test_a_training_that_ended_early_costs_the_epochs_that_it_ran(run, tmp_path):
    """The budget is 10 epochs. Cells are timed with λ = 1 and have their epochs at any λ; another N does not count."""
    methods = {"fno": 1.0, "stcl": 4.0, "offline_di": 2.0}
    cells = {f"diffusion/N8/{m}/lam1/seed0": {"epoch_seconds": s, "epochs": 10} for m, s in methods.items()}
    ends = {
        "N8/fno/lam0/seed0": (10, "budget"),
        "N8/stcl/lam0.5/seed0": (10, "budget"),
        "N8/stcl/lam0.5/seed1": (5, "early"),
        "N8/offline_di/lam1/seed0": (4, "early"),
        "N16/stcl/lam0.5/seed0": (1, "budget"),
    }
    inputs = [timing(tmp_path / "t.json", cells), bank_ledger(tmp_path, "diffusion", seconds=44.0)]
    inputs += [run(f"diffusion/{p}", 0.1, 0.1, epochs=n, ended=why) / "train.json" for p, (n, why) in ends.items()]
    table = wallclock.build({}, inputs, None)
    # half of the bank: 22 s, saved at 30 - 8 s a training
    assert table.body == [["Nonlinear diffusion", "8", "10", "30", "8", "22", "2", "8", "512", "1"]]
    assert "2 of 5 trainings behind these rows ended early, after 4 to 5 epochs" in table.caption
    assert "published" not in table.caption
    beside = wallclock.build({}, inputs, {"wallclock": {"diffusion": {"stcl": 99}}})
    assert "The published trainings went through their budgets." in beside.caption
    assert "early" not in wallclock.build({}, inputs[:3], None).caption


def test_each_variant_is_charged_with_its_own_labels(tmp_path):
    names = {"burgers": 16.0, "burgers_published": 64.0}
    inputs = [
        timing(
            tmp_path / f"{name}.json",
            {f"{name}/N8/{m}/lam1/seed0": {"epoch_seconds": 1.0, "epochs": 10} for m in ("stcl", "offline_di")},
        )
        for name in names
    ]
    inputs += [bank_ledger(tmp_path, name, seconds, "burgers") for name, seconds in names.items()]
    table = wallclock.build({}, inputs, None)
    assert [(row["problem"], row["label_seconds"]) for row in table.rows] == [
        ("burgers", 8.0),  # half of each bank's samples
        ("burgers_published", 32.0),
    ]
    assert [line[0] for line in table.body] == ["Burgers", "Burgers (published)"]


def test_a_variant_stands_beside_the_numbers_of_its_problem_and_the_caption_says_what_both_are(run):
    folders = [run(f"{name}/N8/fno/lam0/seed0", 0.5, 0.9) for name in ("burgers", "burgers_published", "helmholtz")]
    published = {"field_error": {"burgers": {8: {"fno": [40.0, 9.0]}}}, "made_with": {"burgers": "three sweeps"}}
    spec = {"table": "field_error", "variant_of": {"burgers_published": "burgers"}, "note": "It has another scheme."}
    beside = command.with_variants(published, "field_error", spec)
    table = command.with_notes(errors.build(spec, folders, beside), "field_error", spec, published)
    assert [line[2] for line in table.body] == ["50.00 [40.00 ± 9.00, ×1.25]"] * 2 + ["50.00"]
    assert table.caption.endswith(
        "It has another scheme. The published numbers of Burgers were made with three sweeps."
    )
    own = {"field_error": published["field_error"] | {"burgers_published": {8: {"fno": [25.0, 9.0]}}}}
    table = errors.build(spec, folders, command.with_variants(own, "field_error", spec))
    assert "[25.00 ± 9.00, ×2.00]" in table.body[1][2]


def test_captions_without_published_numbers_do_not_speak_of_them(run):
    spec = {"table": "field_error"}
    table = errors.build(spec, [run("burgers/N8/fno/lam0/seed0", 0.5, 0.9)], None)
    assert command.with_notes(table, "field_error", spec, None) == table
    published = {"field_error": {}, "made_with": {"burgers": "three sweeps"}}
    assert command.with_notes(table, "forms", spec, published) == table


def test_every_training_has_a_row_and_errors_stay_fractions(two_seeds, run):
    rows = [row(found) for found in read_runs([two_seeds[2], run("diffusion/N8/fno/lam0/seed1")])]
    assert (rows[0]["field_error"], rows[0]["epochs"], rows[0]["status"]) == (0.04, 7, "done")
    assert (rows[0]["data"], rows[0]["bank"]) == ("da7a", "")
    assert (rows[1]["field_error"], rows[1]["status"]) == ("", "missing")
    early = run("diffusion/N8/fno/lam0/seed2", 0.1, 0.1, epochs=5, ended="early")
    assert [row(found)[key] for found in read_runs([early]) for key in ("epochs", "ended")] == [5, "early"]
