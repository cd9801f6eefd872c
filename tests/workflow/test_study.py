"""The built study: what it contains, and what a change of it reruns, by real dry runs whose planned jobs are counted.

One file, because distributed tests share the built study only within a file.
"""

import copy
import csv
import json

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.workflow

# The tiny study: diffusion with all methods (sTCL with two λ), Helmholtz with fno and offline_di; one N, one seed.
EVERYTHING = {
    "dataset": 6,
    "bank": 4,
    "train": 7,
    "evaluate": 5,
    "select": 1,
    "problem_cells": 2,
    "error_table": 2,
    "convergence": 1,
    "samples": 2,
}
DIFFUSION = EVERYTHING | {"dataset": 3, "bank": 2, "train": 5, "evaluate": 3, "problem_cells": 1, "samples": 1}


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


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("problems.diffusion.options.n", 15, DIFFUSION),
        (
            "problems.diffusion.basis",
            "white",
            {k: v for k, v in DIFFUSION.items() if k != "dataset"} | {"bank": 1, "train": 4, "evaluate": 2},
        ),
        (
            "problems.diffusion.methods.stcl.lambda",
            [0.5, 1.0, 2.0],
            {
                "train": 2,
                "select": 1,
                "evaluate": 1,
                "problem_cells": 1,
                "error_table": 2,
                "convergence": 1,
                "samples": 1,
            },
        ),
        (
            "problems.diffusion.training.epochs",
            4,
            {k: v for k, v in DIFFUSION.items() if k not in ("dataset", "bank")},
        ),
        ("seeds", [0, 1], {"train": 5, "evaluate": 5, "problem_cells": 2, "error_table": 2}),
        ("figures", {"dpi": 99}, {"convergence": 1, "samples": 2}),
        ("figures", {"colormap": "magma"}, {"samples": 2}),
    ],
    ids=["grid", "basis", "lambda", "epochs", "seed", "dpi", "colormap"],
)
def test_a_change_of_the_configuration(built, path, value, expected):
    assert built.planned(config=changed(built.config, path, value)) == expected


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
            {k: v for k, v in EVERYTHING.items() if k not in ("dataset", "bank")},
        ),
        (
            "src/stcl/losses/metrics/inverse_laplacian.py",
            {
                "train": 3,
                "select": 1,
                "evaluate": 1,
                "problem_cells": 1,
                "error_table": 2,
                "convergence": 1,
                "samples": 1,
            },
        ),
        ("src/stcl/figures/samples.py", {"samples": 2}),
        ("src/stcl/figures/style.py", {"convergence": 1, "samples": 2}),
        ("src/stcl/tables.py", {"problem_cells": 2, "error_table": 2}),
        ("src/stcl/plan.py", {}),
    ],
)
def test_an_edit_of_the_code(built, path, expected):
    assert built.planned_after_edit(path, lambda source: source + "\nCHANGED = True\n") == expected


def test_one_table_is_a_target(built):
    config = changed(built.config, "figures", {"dpi": 99})
    assert built.planned("results/tiny/tables/field_error.md", config=config) == {}


def test_rebuilding_a_producer_alone_makes_its_consumers_stale(empty):
    """The consumers' own specs do not change here: only the manifest tells them."""
    settings = {"fno": {}}
    problem = empty.config["problems"]["diffusion"] | {"methods": settings}
    config = empty.config | {"problems": {"diffusion": problem}}
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
