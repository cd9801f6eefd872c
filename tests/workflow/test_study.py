"""The built study: what it contains, and what a change of it reruns, by real dry runs whose planned jobs are counted.

One file, because distributed tests share the built study only within a file.
"""

import copy
import csv
import html
import json
import re

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.workflow

# The tiny study: five problems with three methods, one N, one seed; λ of diffusion's sTCL and of Burgers by validation;
# two Krylov steps for Helmholtz, two sketch counts on two grids for diffusion, a long run of Helmholtz.
EVERYTHING = {
    "dataset": 3 * (5 + 2),
    "bank": 5 + 5 + 2,
    "train": 15 + 2 + 4 + 2 + 4 + 3,
    "evaluate": 15 + 2 + 4,
    "select": 2,
    "timing": 5 + 2,
    "conditioning": 2,
    "by_problem": 5,
    "table": 9,
    "convergence": 1,
    "samples": 5,
    "spread": 1,
    "ledger": 1,
    "sketch_tradeoff": 1,
    "report": 1,
}
# What depends on diffusion: its own cells, the two sketch studies' data, five tables that hold none of it left out.
DIFFUSION = {
    "dataset": 9,
    "bank": 4,
    "train": 3 + 2 + 4,
    "evaluate": 3 + 4,
    "select": 1,
    "timing": 2,
    "conditioning": 1,
    "by_problem": 1,
    "table": 8,
    "convergence": 1,
    "samples": 1,
    "spread": 1,
    "ledger": 1,
    "sketch_tradeoff": 1,
    "report": 1,
}


def changed(config: dict, path: str, value) -> dict:
    """A copy of the configuration with the value at a dotted path replaced."""
    config = copy.deepcopy(config)
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    return config


def test_a_fresh_copy_plans_everything(empty):
    assert empty.planned() == EVERYTHING


def test_a_built_copy_plans_nothing(built):
    assert built.planned() == {}


RETRAINED = {"train": 5 + 4, "evaluate": 3 + 4, "select": 1, "timing": 2, "by_problem": 1, "table": 7}
DRAWN = {"convergence": 1, "samples": 1, "spread": 1, "ledger": 1}  # figures with one problem's cells
SKETCH = {"sketch_tradeoff": 1}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        # sketches have grids of their own
        (
            "problems.diffusion.options.n",
            15,
            {"dataset": 3, "bank": 2, "train": 5, "evaluate": 3, "select": 1, "timing": 1, "by_problem": 1, "table": 4}
            | DRAWN,
        ),
        # not the fno cells: those of the problem, and q = 0
        (
            "problems.diffusion.basis",
            "white",
            RETRAINED | DRAWN | SKETCH | {"bank": 1, "train": 4 + 2, "evaluate": 2 + 2},
        ),
        (
            "problems.diffusion.methods.stcl.lambda_grid",
            [0.5, 1.0, 2.0],
            {"train": 2, "select": 1, "evaluate": 1, "by_problem": 1, "table": 3} | DRAWN,
        ),
        (
            "selection",
            "fixed",
            {"evaluate": 3, "by_problem": 2, "table": 3} | DRAWN | {"samples": 2},  # trained when tuning
        ),
        ("problems.diffusion.training.epochs", 4, RETRAINED | DRAWN | SKETCH),
        (
            "seeds",
            [0, 1],
            {"train": 15 + 2 + 4, "evaluate": 15 + 2 + 4, "by_problem": 5, "table": 3 + 1 + 2, "spread": 1, "ledger": 1}
            | SKETCH,
        ),
        (
            "studies.minres_iterations.steps",
            [1, 2, 3],
            {"train": 1, "evaluate": 1, "timing": 1, "by_problem": 1, "table": 1},
        ),
        (
            "studies.sketch_count.q",
            [0, 1, 2],
            {"train": 2, "evaluate": 2, "timing": 1, "by_problem": 1, "table": 3} | SKETCH,
        ),
        ("studies.sketch_count.first_epoch", 1, {"table": 1} | SKETCH),
        ("studies.long_runs.helmholtz.epochs", 5, {"train": 3, "convergence": 1}),
        ("studies.conditioning.samples", 2, {"conditioning": 2, "table": 1}),
        ("timing.epochs", 2, {"timing": 7, "table": 3, "ledger": 1} | SKETCH),
        ("figures", {"dpi": 99}, DRAWN | SKETCH | {"samples": 5}),
        ("figures", {"colormap": "magma"}, {"samples": 5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_of_the_configuration(built, path, value, expected):
    assert built.planned(config=changed(built.config, path, value)) == expected | {"report": 1}


def test_reordered_yaml_reruns_nothing(built):
    def reordered(node):
        return {k: reordered(node[k]) for k in reversed(node)} if isinstance(node, dict) else node

    config = reordered(built.config)
    assert yaml.safe_dump(config, sort_keys=False) != yaml.safe_dump(built.config, sort_keys=False)
    assert built.planned(config=config) == {}


def test_comments_and_docstrings_rerun_nothing(built):
    for path in ("src/stcl/train.py", "src/stcl/problems/diffusion.py", "src/stcl/figures/samples.py"):
        assert built.planned_after_edit(path, lambda s: s.replace('"""', '"""Once more: ', 1) + "\n# a remark\n") == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/stcl/problems/diffusion.py", DIFFUSION),
        (
            "src/stcl/operators/fno.py",
            {k: v for k, v in EVERYTHING.items() if k not in ("dataset", "bank", "conditioning")} | {"table": 8},
        ),
        (
            "src/stcl/losses/metrics/inverse_laplacian.py",
            RETRAINED | DRAWN | SKETCH | {"train": 3 + 2, "evaluate": 1 + 2, "conditioning": 1, "table": 8},
        ),
        ("src/stcl/figures/samples.py", {"samples": 5}),
        ("src/stcl/figures/style.py", DRAWN | SKETCH | {"samples": 5}),
        ("src/stcl/tables/errors.py", {"table": 2, "ledger": 1}),
        ("src/stcl/tables/wallclock.py", {"table": 1, "ledger": 1}),
        ("src/stcl/timing.py", {"timing": 7, "table": 3, "ledger": 1} | SKETCH),
        ("src/stcl/report/page.py", {}),
    ],
)
def test_an_edit_of_the_code(built, path, expected):
    planned = built.planned_after_edit(path, lambda source: source + "\nCHANGED = True\n")
    assert planned == expected | {"report": 1}


def test_an_edit_of_the_plan_alone_reruns_nothing(built):
    assert built.planned_after_edit("src/stcl/plan.py", lambda source: source + "\nCHANGED = True\n") == {}


def test_one_table_is_a_target(built):
    config = changed(built.config, "figures", {"dpi": 99})
    assert built.planned("results/tiny/tables/field_error.md", config=config) == {}


def test_rebuilding_a_producer_alone_makes_its_consumers_stale(empty):
    """The consumers' own specs do not change here: only the manifest tells them."""
    settings = {"fno": {}}
    problem = empty.config["problems"]["diffusion"] | {"methods": settings}
    config = empty.config | {"problems": {"diffusion": problem}, "studies": {}}
    code, output = empty.run(config=config)
    assert code == 0, output
    larger = changed(config, "problems.diffusion.samples.train", 17)
    code, output = empty.run("results/tiny/data/diffusion/train.json", config=larger)
    assert code == 0, output
    planned = empty.planned(config=larger)
    assert planned["train"] == 1
    assert "dataset" not in planned


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
        "gradient_variance": 4 * 3,
        "sketch_runtime": 2,
        "conditioning": 2,
    }
    assert {path.stem for path in (results / "tables").glob("*.csv")} == set(lengths)
    for name, length in lengths.items():
        rows = list(csv.DictReader((results / f"tables/{name}.csv").open()))
        assert len(rows) == length, name
        page = (results / f"tables/{name}.md").read_text()
        assert "not comparable with the paper" in page
        assert "missing" not in page.split("|", 1)[1]
        assert r"\end{table}" in (results / f"tables/{name}.tex").read_text()


def test_a_preview_names_what_is_missing(built):
    config = changed(built.config, "seeds", [0, 1])
    code, output = built.run("preview", config=config)
    assert code == 0, output
    rows = list(csv.DictReader((built.folder / "results/tiny/preview/field_error.csv").open()))
    assert {(row["n_seeds"], row["n_unfinished"]) for row in rows} == {("1", "1")}
    assert "(1 missing)" in output


def test_a_problem_is_a_target(empty):
    jobs = empty.planned("burgers")
    assert jobs == {"dataset": 3, "bank": 2, "train": 4 + 3, "select": 1, "evaluate": 3, "by_problem": 1, "samples": 1}


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
    for name, path in (("train", "data"), ("bank", "labels")):
        manifest = json.loads((results / f"{path}/diffusion/train.json").read_text())
        assert record["contents"][name] == manifest["content"]
    assert record["code"]
    assert record["spec"]["training"]["epochs"] == 3


def test_figures_are_drawn(results):
    figures = ("convergence", "spread", "ledger", "sketch_tradeoff")
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
    assert "Relative error of the predicted response" in page
    assert "not comparable with the paper" in page
