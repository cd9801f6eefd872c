"""Which tables and figures a study has, and what each is made from."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stcl.reporting import captions
from stcl.reporting.figures.plan import figure_plans
from stcl.reporting.tables.plan import table_plans
from stcl.study.config import parse
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"
PROBLEMS = ("helmholtz", "diffusion", "burgers", "allen_cahn", "navier_stokes")


@pytest.fixture
def config():
    return yaml.safe_load((CONFIG / "test/tiny.yaml").read_text())


@pytest.fixture
def figures(config):
    return figure_plans(Plan(parse(config)))


def test_a_table_reads_the_runs_it_shows_and_no_others(config):
    tables = table_plans(Plan(parse(config)))
    assert {c.block for c in tables["minres_iterations"].cells} == {"helmholtz-m1", "helmholtz-m2"}
    assert {c.block for c in tables["field_error"].cells} == set(config["problems"])
    assert "banks/burgers/train.ledger.json" in tables["wallclock"].records
    assert [c.path for c in tables["forms"].cells] == [
        "diffusion/N16/fno/lam0/seed0",
        "diffusion/N16/offline_di/lam1/seed0",
        "diffusion/N16/stcl/lamselected/seed0",
        "diffusion-form-target/N16/stcl/lam1/seed0",
    ]
    ablation = tables["conditioning_ablation"]
    assert [c.path for c in ablation.cells] == [
        "helmholtz/N8/fno/lam0/seed0",
        "helmholtz/N8/offline_di/lam0.5/seed0",
        "helmholtz-ablation-raw/N8/stcl/lam0.5/seed0",
        "helmholtz/N8/stcl/lam0.5/seed0",
    ]
    assert ablation.records == ("conditioning/helmholtz-ablation-raw.json", "conditioning/helmholtz.json")


def test_what_a_training_cost_that_may_end_early_is_read_from_its_record(config):
    def runs():
        return [file for file in table_plans(Plan(parse(config)))["wallclock"].files if file.startswith("runs/")]

    assert runs() == []
    config["problems"]["helmholtz"]["training"]["finish_after"] = 2
    config["seeds"] = [0, 1]
    assert runs() == [
        f"runs/helmholtz/N8/{method}/lam{lam}/seed{seed}/train.json"
        for method, lam in (("fno", 0), ("offline_di", 0.5), ("stcl", 0.5))
        for seed in (0, 1)
    ]


def test_words_say_what_an_ablation_switches_off():
    plan = Plan(parse(yaml.safe_load((CONFIG / "config.yaml").read_text())))
    forms = table_plans(plan)["conditioning_ablation"].spec["forms"]
    assert {block: form["form"] for block, form in forms.items() if form["problem"] == "navier_stokes"} == {
        "navier_stokes": "preconditioned residual, leray oseen",
        "navier_stokes-ablation-no_projection": "preconditioned residual, leray oseen, no projection",
        "navier_stokes-ablation-no_weights": "preconditioned residual, leray oseen, no weights",
    }
    assert forms["diffusion-form-target"]["name"] == "solved target"


def test_every_figure_has_a_name_and_a_caption(figures, config):
    samples = [f"samples/{problem}" for problem in PROBLEMS]
    others = ["spread", "ledger", "sketch_tradeoff", "conditioning_ablation", "inverse/navier_stokes"]
    assert list(figures) == ["convergence", *samples, *others]
    assert {figure.module for figure in figures.values()} | {"beyond"} == set(captions.FIGURES)
    del config["studies"]["sketch_count"]
    del config["studies"]["conditioning_ablation"]
    assert not {"sketch_tradeoff", "conditioning_ablation"} & set(figure_plans(Plan(parse(config))))


def test_beyond_the_labels_reads_runs_times_and_what_was_stored(config):
    loss = {"form": {"name": "residual"}}
    config["studies"]["beyond"] = {"burgers": {"n_train": 8, "more": [16], "lambda": 1.0, "losses": {"raw": loss}}}
    plan = Plan(parse(config))
    table = table_plans(plan)["beyond"]
    store = "burgers-beyond"
    assert list(table.records) == [
        "timing/burgers-beyond.json",
        f"data/{store}/train.ledger.json",
        f"data/{store}/val.ledger.json",
        f"banks/{store}/train.ledger.json",
    ]
    assert table.spec["problems"] == {"burgers": store}
    assert [cell.path.rpartition("/")[0] for cell in table.cells] == list(table.spec["cells"])
    assert table.spec["cells"]["burgers-beyond-raw/N8/stcl/lam1"] == ["burgers", "raw"]
    assert figure_plans(plan)["beyond"].records == ("tables/beyond.csv",)


def test_samples_need_the_weights_of_the_first_seed_and_the_test_stores(figures):
    figure = figures["samples/diffusion"]
    runs = [f"runs/diffusion/N16/{cell}/seed0" for cell in ("fno/lam0", "offline_di/lam1", "stcl/lamselected")]
    stores = ("data/diffusion/test", "banks/diffusion/test")
    assert figure.arguments == [*(f"{run}/train.json" for run in runs), *(f"{store}.json" for store in stores)]
    assert list(figure.beside) == [f"{run}/weights.pt" for run in runs]
    assert figure.stores == stores
    assert figure.modules == ["stcl.reporting.figures.samples", "stcl.problems.diffusion"]


def test_convergence_reads_histories_and_no_data(config):
    config["figures"] = {"relative": ["burgers"], "smooth": False}
    figure = figure_plans(Plan(parse(config)))["convergence"]
    assert figure.stores == ()
    assert figure.modules == ["stcl.reporting.figures.convergence"]
    assert figure.spec == {"dpi": 150, "relative": ["burgers"], "smooth": False}
    long = [path for path in figure.arguments if "helmholtz" in path]
    assert len(long) == 3
    assert all(path.startswith("runs/helmholtz-long/") for path in long)
    assert [path.replace("train.json", "history.csv") for path in figure.records] == list(figure.beside)


def test_spread_reads_the_errors_of_every_seed(config):
    config["seeds"] = [0, 1]
    figure = figure_plans(Plan(parse(config)))["spread"]
    assert len(figure.records) == 5 * 3 * 2
    assert all(path.endswith("/errors.npz") for path in figure.records)
    assert {Path(path).name for path in figure.beside} == {"train.json", "errors.json"}


def test_the_ledger_counts_what_training_needed(figures):
    tables = [f"tables/{name}.csv" for name in ("field_error", "jacobian_error", "wallclock")]
    data = [f"data/{problem}/{split}.ledger.json" for problem in PROBLEMS for split in ("train", "val")]
    banks = [f"banks/{problem}/train.ledger.json" for problem in PROBLEMS]
    assert figures["ledger"].arguments == [*tables, *data, *banks]


def test_plans_load_nothing_heavy():
    """The Snakefile reads them at every start."""
    code = (
        "import sys; import stcl.reporting.captions, stcl.reporting.figures.plan, stcl.reporting.tables.plan; "
        "assert not {'torch', 'matplotlib', 'zarr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
