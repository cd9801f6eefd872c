"""What the built study contains."""

import csv
import html
import json
import re

import numpy as np
import pytest
from plans import EVERYTHING, changed
from plans_with_variants import with_variant

from stcl.reporting import status

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="session")
def results(built):
    return built.folder / "results/tiny"


REPORTED = {
    ("diffusion", 16): {"fno": "0", "offline_di": "1", "stcl": "selected"},
    ("helmholtz", 8): {"fno": "0", "offline_di": "0.5", "stcl": "0.5"},
    ("burgers", 8): {"fno": "0", "offline_di": "selected", "stcl": "selected"},
    ("allen_cahn", 8): {"fno": "0", "offline_di": "1", "stcl": "1"},
    ("navier_stokes", 8): {"fno": "0", "offline_di": "1", "stcl": "1"},
}


@pytest.mark.parametrize(("table", "errors"), [("field_error", "field"), ("jacobian_error", "jacobian")])
def test_tables_hold_the_mean_of_the_kept_errors_of_every_cell(results, table, errors):
    rows = list(csv.DictReader((results / f"tables/{table}.csv").open()))
    found = {(row["problem"], int(row["n_train"]), row["method"]): float(row["mean"]) for row in rows}
    assert set(found) == {(*key, method) for key, methods in REPORTED.items() for method in methods}
    for (problem, n, method), mean in found.items():
        lam = REPORTED[problem, n][method]
        kept = np.load(results / f"runs/{problem}/N{n}/{method}/lam{lam}/seed0/errors.npz")[errors]
        assert mean == pytest.approx(100 * kept.mean(), rel=1e-5)


def test_every_table_is_complete(results):
    """Each has its rows, in each of its formats, and none of a cell that is not there."""
    lengths = {
        "field_error": 15,
        "jacobian_error": 15,
        "per_cell_settings": 10,
        "wallclock": 5,
        "minres_iterations": 2 * 2,
        "sketch_resolution": 4 * 2,
        "gradient_variance": 4 * (3 + 1),
        "sketch_runtime": 2,
        "forms": (3 + 1) * 2,
        "conditioning": 2,
        "claims": 36,
        "conditioning_ablation": (2 + 2) * 2,
        "inverse": 3 + 1,
    }
    assert {path.stem for path in (results / "tables").glob("*.csv")} == set(lengths)
    for name, length in lengths.items():
        rows = list(csv.DictReader((results / f"tables/{name}.csv").open()))
        assert len(rows) == length, name
        page = (results / f"tables/{name}.md").read_text()
        assert "not comparable with the paper" in page
        assert "missing" not in page.split("|", 1)[1]
        assert r"\end{table}" in (results / f"tables/{name}.tex").read_text()
        assert json.loads((results / f"tables/{name}.json").read_text())["caption"] == page.split("\n")[0]


def test_a_run_without_a_terminal_takes_two_lines_for_a_job(built):
    lines = (built.folder / "output").read_text().splitlines()
    jobs = sum(EVERYTHING.values())
    for what in ("start", "done"):
        assert sum(re.match(rf"\d\d:\d\d:\d\d {what} ", line) is not None for line in lines) == jobs
    assert len(lines) <= 2 * jobs + 4  # the profile, the plan, the log file, the time
    assert any(f"({jobs} of {jobs + 1}, 0:" in line for line in lines)  # the last job only collects


def test_the_status_knows_every_job_of_the_rules_and_finds_it_done(built, results):
    ((folder, plan),) = status.studies([results], None)
    found = status.read(folder, plan, now=0.0)
    assert {item.state for item in found} == {"done"}
    kinds = {kind: sum(item.job.kind == kind for item in found) for kind in {item.job.kind for item in found}}
    named = {"dataset": "datasets", "bank": "banks", "train": "trainings", "evaluate": "evaluations"}
    named |= {"select": "choices of λ", "timing": "timings", "conditioning": "conditioning", "figure": "figures"}
    expected = {named[rule]: count for rule, count in EVERYTHING.items() if rule in named}
    expected["inverse problems"] = EVERYTHING["inverse_reference"] + EVERYTHING["inverse"]
    assert kinds == expected | {"tables": EVERYTHING["table"] + EVERYTHING["by_problem"], "report": 1}
    assert all((results / item.job.log).is_file() for item in found)


def test_the_status_sees_what_another_configuration_would_make_again(results, built):
    """More epochs for one problem: its trainings, and what is made from them."""
    config = changed(built.config, "problems.allen_cahn.training.epochs", 4)
    found = status.read(results, status.Plan(status.parse(config)), now=0.0)
    waiting = {(item.job.kind, item.job.name) for item in found if item.state == "waiting"}
    cells = {f"allen_cahn/N8/{method}/seed0" for method in ("fno/lam0", "offline_di/lam1", "stcl/lam1")}
    assert {name for kind, name in waiting if kind == "trainings"} == cells
    assert {name for kind, name in waiting if kind == "evaluations"} == {"allen_cahn"}  # one job for all three
    assert ("tables", "field_error") in waiting
    assert ("tables", "sketch_resolution") not in waiting
    assert {item.state for item in found} == {"done", "waiting"}


def test_a_preview_names_what_is_missing(built):
    config = changed(built.config, "seeds", [0, 1])
    code, output = built.run("preview", config=config)
    assert code == 0, output
    rows = list(csv.DictReader((built.folder / "results/tiny/preview/field_error.csv").open()))
    assert {(row["n_seeds"], row["n_unfinished"]) for row in rows} == {("1", "1")}
    assert "(1 missing)" in output


def test_the_cost_of_a_study_without_some_methods(empty):
    """The two methods that are left out are neither asked for their settings nor counted."""
    problem = empty.config["problems"]["helmholtz"] | {"methods": {"fno": {}}}
    code, output = empty.run("cost", config=empty.config | {"problems": {"helmholtz": problem}, "studies": {}})
    assert code == 0, output
    assert re.search(r"^\| Total +\| +1 \|", output, re.MULTILINE)


def test_a_problem_is_a_target(empty):
    jobs = empty.planned("burgers")
    assert jobs == {"dataset": 3, "bank": 2, "train": 4 + 3, "select": 1, "evaluate": 1, "by_problem": 1, "figure": 1}


def test_a_variant_is_a_target_with_data_of_its_own(empty):
    """Burgers stands there twice, and has another form and a longer training in both cases."""
    config = with_variant(empty.config)
    expected = {"dataset": 3, "bank": 2, "train": 4 + 3 + 1, "select": 1, "evaluate": 2, "by_problem": 1}
    for name in ("burgers", "burgers_published"):
        code, output = empty.run("-n", name, config=config)
        assert code == 0, output
        assert set(re.findall(r"results/tiny/(?:data|banks|select|runs)/(burgers\w*)", output)) == {name}
        assert empty.planned(name, config=config) == expected | {"figure": 1}


def test_a_variant_adds_its_own_jobs_and_no_others(empty):
    alone = changed(with_variant(empty.config), "problems", empty.config["problems"])
    for study in ("forms", "long_runs"):
        del alone["studies"][study]["burgers_published"]
    del alone["studies"]["conditioning"]["options"]["burgers_published"]
    before, after = empty.planned(config=alone), empty.planned(config=with_variant(empty.config))
    added = {"dataset": 3, "bank": 2, "train": 3 + 4 + 1 + 3, "evaluate": 2, "select": 1, "timing": 1}
    added |= {"conditioning": 1, "by_problem": 1, "figure": 1}
    assert {rule: after[rule] - before[rule] for rule in after if after[rule] != before[rule]} == added


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


def test_test_data_cannot_influence_the_selection(built):
    """Nothing of the test split is an input of the decisions, nor of anything they are made from."""
    targets = ("results/tiny/select/burgers.json", "results/tiny/select/diffusion/N16/stcl.json")
    code, output = built.run("-n", "-F", *targets)
    assert code == 0, output
    assert re.search(r"^rule train:", output, re.MULTILINE)
    assert "/test" not in "".join(re.findall(r"^    (?:input|output): .*$", output, re.MULTILINE))


def test_a_run_names_what_it_was_made_from(results):
    record = json.loads((results / "runs/diffusion/N16/offline_di/lam1/seed0/train.json").read_text())
    for name, path in (("train", "data"), ("bank", "banks")):
        manifest = json.loads((results / f"{path}/diffusion/train.json").read_text())
        assert record["contents"][name] == manifest["content"]
    assert record["code"]
    assert record["spec"]["training"]["epochs"] == 3


def test_figures_are_drawn(results):
    figures = ("convergence", "spread", "ledger", "sketch_tradeoff", "conditioning_ablation")
    for name in (*figures, *(f"samples/{problem}" for problem, _ in REPORTED)):
        assert (results / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (results / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_report_holds_every_table_and_figure(results):
    page = (results / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(list((results / "figures").rglob("*.png")))
    for table in (results / "tables").glob("*.md"):
        caption, *_, last = table.read_text().strip().splitlines()
        assert html.escape(caption, quote=False) in page
        assert html.escape(last.strip("| ").split("|")[-1].strip(), quote=False) in page
    content = json.loads((results / "data/burgers/train.json").read_text())["content"]
    assert content[:12] in page


def test_the_report_of_snakemake_carries_captions(built):
    code, output = built.run("--report", "provenance.html")
    assert code == 0, output
    page = (built.folder / "provenance.html").read_text()
    assert "Relative error of the response on the test split" in page
    assert "not comparable with the paper" in page
    assert "Accuracy against everything that it cost" in page
