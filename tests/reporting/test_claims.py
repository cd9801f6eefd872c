"""The paper's claims: published values against the paper's text, ours and the verdicts against fake runs."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from stcl.reporting.tables import claims
from stcl.reporting.tables.plan import table_plans
from stcl.study.config import parse
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"
PUBLISHED = yaml.safe_load((CONFIG / "published.yaml").read_text())


def table(folders, reduced=True, variants=(), published=PUBLISHED, **spec):
    spec = {"reduced": reduced, "variants": dict(variants), "stands_for": {}} | spec
    built = claims.build(spec, [Path(folder) for folder in folders], published)
    return built, {row["name"]: row for row in built.rows}


@pytest.fixture
def run(tmp_path):
    def write(path, field=None, jacobian=None, history=""):
        folder = tmp_path / "results/p/runs" / path
        if field is not None:
            folder.mkdir(parents=True)
            (folder / "train.json").write_text("{}")
            (folder / "errors.json").write_text(json.dumps({"field_error": field, "jacobian_error": jacobian}))
            (folder / "history.csv").write_text(history)
        return folder

    return write


@pytest.fixture
def cell(run):
    """All methods of a cell with one seed: (field, Jacobian) of fno, sTCL and offline DI."""

    def write(problem, n, *errors):
        names = ("fno/lam0", "stcl/lam1", "offline_di/lam1")
        return [run(f"{problem}/N{n}/{name}/seed0", *both) for name, both in zip(names, errors, strict=True)]

    return write


@pytest.fixture
def timing(tmp_path):
    def write(group, seconds):
        path = tmp_path / f"{group}.json"
        cells = {f"{cell}/seed0": {"epoch_seconds": value, "epochs": 1} for cell, value in seconds.items()}
        path.write_text(json.dumps({"cells": cells}))
        return path

    return write


# -- what the paper's text says, typed from it ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("field_ratio_1.5", "14 of 15"),
        ("field_ratio_1.2", "11 of 15"),
        ("field_below_fno", "15 of 15"),
        ("field_di_lower", "6 of 6"),  # "in all three regimes for nonlinear diffusion and steady NS"
        ("jacobian_below_fno", "12 of 12"),
        ("jacobian_burgers_largest", "73.53 % (sTCL), 178.08 % (Offline DI)"),
        ("jacobian_di_below_fno", "6 of 6"),
        ("resolution_field", "4.18 to 4.41 % (32²), 4.50 to 4.66 % (64²), 5.53 to 5.88 % (128²)"),
        ("variance_share", "0.7 to 14.5 %"),
        ("variance_share_q4", "3.3 to 4.6 %"),
        ("variance_resolution_total", "6 of 6"),  # "below its 32² value for every q ≥ 1"
    ],
)
def test_the_published_value_is_what_the_text_says(name, stated):
    assert table([])[1][name]["published"] == stated


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("one_direction_field", (50.7, 49.3, 36.9)),
        ("one_direction_jacobian", (44.8, 43.5, 32.1)),
        ("variance_fall_raw", (94.8, 92.4, 93.6)),
        ("variance_fall_weighted", (94.3, 92.2, 93.1)),
        ("variance_fall_total", (24.3, 37.1, 32.8)),
        ("improvement_allen_cahn", (100 * (1 - 0.59 / 0.94), 100 * (1 - 3.82 / 15.64))),
        ("improvement_navier_stokes", (100 * (1 - 0.400 / 0.619), 100 * (1 - 0.570 / 1.084))),
        ("improvement_diffusion", (100 * (1 - 1.65 / 2.98), 100 * (1 - 6.07 / 10.88))),
        ("field_order_allen_cahn", (0.59 / 0.60, 0.40 / 0.35, 0.25 / 0.27)),
        ("jacobian_order_burgers", (74.76 / 67.83, 73.80 / 70.58, 73.53 / 178.08)),
        ("steps_first", (100 * (3.50 - 2.52) / (3.50 - 2.41), 100 * (23.03 - 15.52) / (23.03 - 14.51))),
    ],
)
def test_the_published_reductions_and_ratios_are_those_of_the_text(name, stated):
    """The text has them from more digits: those of the tables move a ratio of 5.88 / 9.33 by at most 0.1 %."""
    found = [float(part.split(" = ")[1]) for part in table([])[1][name]["published_values"].split("; ")]
    assert found == pytest.approx(stated, abs=0.1 if min(stated) > 2 else 1e-4)  # ratios are of the tables


@pytest.mark.parametrize("name", ["lowest_field", "lowest_jacobian"])
def test_the_published_errors_are_lowest_where_the_text_says(name):
    """ "At q = 4 on 32² and at q = 16 on both larger grids" """
    labels = [part.rpartition(" = ")[0] for part in table([])[1][name]["published_values"].split("; ")]
    assert labels == ["32², q = 4", "64², q = 16", "128², q = 16"]


def test_the_paper_bears_out_its_own_claims_except_for_the_cost_of_an_update():
    """Ten times FNO is not its order: Helmholtz, diffusion and Navier-Stokes take 12.6, 10.3 and 17.2 times as long."""
    built, rows = table([])
    assert [name for name, row in rows.items() if row["published_verdict"] != "holds"] == ["time_fno"]
    assert rows["time_fno"]["published"] == "5.3 to 17.2"
    assert "the paper's own tables do not bear out: an update of sTCL" in built.caption


# -- verdicts -------------------------------------------------------------------------------------------------


def test_nothing_run_is_never_a_verdict():
    for reduced in (True, False):
        assert {(row["ours"], row["verdict"]) for row in table([], reduced)[1].values()} == {("—", "not run")}


def test_counts_of_a_reduced_study_are_of_its_own_cells(cell):
    folders = [
        *cell("burgers", 8, (0.5, 2), (0.2, 0.7), (0.1, 0.5)),  # sTCL is 2 times offline DI
        *cell("burgers", 16, (0.4, 2), (0.11, 0.7), (0.1, 0.9)),
        *cell("helmholtz", 8, (0.1, 1), (0.13, 0.7), (0.1, 0.5)),  # above FNO
    ]
    _, rows = table(folders)
    assert (rows["field_ratio_1.5"]["ours"], rows["field_ratio_1.5"]["verdict"]) == ("2 of 3", "does not hold")
    assert (rows["field_ratio_1.2"]["ours"], rows["field_ratio_1.2"]["verdict"]) == ("1 of 3", "does not hold")
    assert (rows["field_below_fno"]["ours"], rows["field_below_fno"]["verdict"]) == ("2 of 3", "does not hold")
    assert (rows["jacobian_below_fno"]["ours"], rows["jacobian_below_fno"]["verdict"]) == ("1 of 1", "holds")
    assert rows["jacobian_burgers_largest"]["ours"] == "70.00 % (sTCL), 90.00 % (Offline DI)"
    assert rows["jacobian_burgers_largest"]["verdict"] == "holds"
    assert rows["jacobian_burgers_largest"]["cells"] == "runs/burgers/N16/stcl/lam1 runs/burgers/N16/offline_di/lam1"
    assert rows["jacobian_order_burgers"]["verdict"] == "holds"  # 1.4 at the smallest N, 0.8 at the largest
    assert rows["field_order_burgers"]["verdict"] == "does not hold"  # offline DI is lower at both
    row = rows["field_order_helmholtz"]
    assert (row["ours"], row["verdict"]) == ("—", "not run")  # one N has no order
    assert rows["field_di_lower"]["verdict"] == "not run"


def test_a_problem_that_is_not_the_papers_does_not_count(cell):
    folders = cell("poisson", 8, (0.5, 2), (0.9, 0.7), (0.1, 0.5)) + cell("burgers", 8, (0.5, 2), (0.1, 1), (0.1, 1))
    assert table(folders)[1]["field_below_fno"]["ours"] == "1 of 1"


def test_a_missing_cell_leaves_the_claim_open(cell, run):
    folders = cell("burgers", 8, (0.5, 2), (0.6, 0.7), (0.1, 0.5))
    for more in ("burgers/N16/stcl/lam1/seed0", "burgers/N8/stcl/lam1/seed1"):
        _, rows = table(sorted([*folders, run(more)]))
        row = rows["field_below_fno"]
        assert (row["ours"], row["verdict"]) == ("0 of 1", "not run")
        assert more.rpartition("/")[0] in row["not_run"]


def test_a_study_of_full_size_needs_the_papers_cells(cell):
    """The largest N of the study is not that of the paper."""
    built, rows = table(cell("burgers", 32, (0.2, 8), (0.1, 0.7), (0.05, 0.9)), reduced=False)
    assert (rows["jacobian_burgers_largest"]["ours"], rows["jacobian_burgers_largest"]["verdict"]) == ("—", "not run")
    assert "jacobian_error/burgers/512/stcl" in rows["jacobian_burgers_largest"]["not_run"]
    assert (rows["field_below_fno"]["ours"], rows["field_below_fno"]["verdict"]) == ("1 of 1", "not run")
    assert "reduced" not in built.caption


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_an_error_that_is_not_finite_gives_no_verdict(cell, run, wrong):
    folders = [*cell("burgers", 8, (0.5, 2), (0.1, 1), (0.1, 1)), run("burgers/N8/stcl/lam1/seed1", wrong, 1)]
    row = table(sorted(folders))[1]["field_below_fno"]
    assert (row["ours"], row["verdict"]) == ("—", "not run")


@pytest.mark.parametrize(("diffusion", "verdict"), [(25.0, "does not hold"), (5.0, "holds")])
def test_training_times_are_compared_where_they_were_measured(cell, timing, diffusion, verdict):
    folders = cell("diffusion", 8, (0.5, 2), (0.2, 0.7), (0.1, 0.5))
    seconds = {"diffusion/N8/fno/lam0": 1.0, "diffusion/N8/stcl/lam1": diffusion, "diffusion/N8/offline_di/lam1": 4.0}
    row = table([*folders, timing("diffusion", seconds)])[1]["time_fno"]
    assert (row["ours"], row["verdict"], row["cells"]) == (f"{diffusion}", verdict, "timing/diffusion.json")
    row = table([*folders, "nowhere/timing/diffusion.json"])[1]["time_fno"]
    assert (row["verdict"], row["not_run"]) == ("not run", "timing/diffusion.json")


def steps(run, errors):
    """Runs with two seeds a deviation of sqrt(2) percent around each error, and the variants."""
    folders = [
        run(f"helmholtz-m{m}/N8/stcl/lam1/seed{seed}", (error - 1 + 2 * seed) / 100, (error - 1 + 2 * seed) / 100)
        for m, error in errors.items()
        for seed in (0, 1)
    ]
    return folders, {f"helmholtz-m{m}": {"steps": m} for m in errors}


def test_steps_of_the_solver(run, timing):
    folders, variants = steps(run, {1: 30.0, 3: 18.0, 5: 11.0, 9: 10.0})
    times = timing("minres_iterations", {f"helmholtz-m{m}/N8/stcl/lam1": 10.0 + m for m in (1, 3, 5, 9)})
    _, rows = table([*folders, times], variants=variants)
    assert rows["steps_first"]["ours"] == "60.0 % (field), 60.0 % (Jacobian)"  # 12 of 20
    assert rows["steps_first"]["verdict"] == "holds"
    assert rows["steps_settled"]["ours"] == "0.50 (field, m = 9), 0.50 (Jacobian, m = 9)"  # 1 over sqrt(2 + 2)
    assert rows["steps_settled"]["verdict"] == "holds"
    assert (rows["steps_time"]["ours"], rows["steps_time"]["verdict"]) == ("78.9 %", "holds")  # 15 / 19


def test_five_steps_are_compared_with_every_larger_number(run):
    """The error of m = 9 is far away, that of the largest m is the same."""
    folders, variants = steps(run, {1: 30.0, 3: 18.0, 5: 11.0, 9: 15.0, 20: 11.0})
    row = table(folders, variants=variants)[1]["steps_settled"]
    assert row["verdict"] == "does not hold"
    assert row["ours"].startswith("2.00 (field, m = 9), 2.00 (Jacobian, m = 9), 0.00 (field, m = 20)")


def test_steps_that_are_the_largest_have_nothing_to_be_compared_with(run):
    folders, variants = steps(run, {1: 30.0, 3: 30.0, 5: 20.0})
    _, rows = table(folders, variants=variants)
    assert (rows["steps_first"]["ours"], rows["steps_first"]["verdict"]) == (
        "0.0 % (field), 0.0 % (Jacobian)",
        "does not hold",
    )
    assert rows["steps_settled"]["verdict"] == "not run"


def sketches(run, errors, variances):
    """Runs of one seed under (grid, q) with equal errors in percent and (raw, weighted, total), and the variants."""
    folders = []
    for (grid, q), error in errors.items():
        parts = ",".join(map(str, variances.get((grid, q), (0, 0, 1))))
        history = f"epoch,variance_raw,variance_weighted,variance_total,val_jacobian\n1,9,9,9,\n2,{parts},\n"
        method = "stcl/lam1" if q else "fno/lam0"
        folders.append(run(f"diffusion-n{grid}-q{q}/N8/{method}/seed0", error / 100, error / 100, history))
    return folders, {f"diffusion-n{grid}-q{q}": {"grid": grid, "q": q} for grid, q in errors}


def test_sketch_counts(run, timing):
    errors = {(9, 0): 10.0, (9, 1): 4.0, (9, 4): 5.0, (17, 0): 20.0, (17, 1): 18.0, (17, 4): 4.5}
    variances = {(9, 1): (8, 1, 20), (9, 4): (2, 0.25, 10), (17, 1): (16, 2, 10), (17, 4): (1, 0.1, 10)}
    folders, variants = sketches(run, errors, variances)
    times = timing(
        "sketch_runtime",
        {"diffusion-n17-q0/N8/fno/lam0": 60.0} | {f"diffusion-n17-q{q}/N8/stcl/lam1": 60.0 + 30.0 * q for q in (1, 4)},
    )
    _, rows = table([*folders, times], variants=variants, first_epoch=2, runtime_grid=17)
    ours = {name: (row["ours"], row["verdict"]) for name, row in rows.items()}
    assert ours["one_direction_field"] == ("60.0 % (9²), 10.0 % (17²)", "does not hold")  # half of 37 % on each grid
    assert ours["resolution_field"] == ("4.00 to 5.00 % (9²), 4.50 to 18.00 % (17²)", "does not hold")
    assert ours["lowest_field"] == ("1.250 (9², q = 1), 1.000 (17², q = 4)", "does not hold")
    assert ours["variance_share"] == ("1.0 to 20.0 %", "holds")  # 20 < 2 · 14.5
    assert ours["variance_share_q4"] == ("1.0 to 2.5 %", "holds")
    assert ours["variance_fall_raw"] == ("75.0 % (9²), 93.8 % (17²)", "holds")
    assert ours["variance_fall_total"] == ("50.0 % (9²), 0.0 % (17²)", "does not hold")
    assert ours["variance_resolution_raw"] == ("1 of 2", "does not hold")  # 16 > 8, 1 < 2
    assert ours["variance_resolution_weighted"] == ("1 of 2", "does not hold")
    assert ours["time_linear"] == ("R² = 1.0000, largest deviation 0.0 % of the longest time", "holds")
    assert rows["time_linear"]["cells"] == "timing/sketch_runtime.json"


@pytest.mark.parametrize(("middle", "verdict"), [(5.0, "holds"), (7.0, "does not hold"), (3.0, "does not hold")])
def test_errors_rise_at_every_grid(run, middle, verdict):
    errors = {(9, 1): 4.0, (17, 1): middle, (33, 1): 6.0}
    folders, variants = sketches(run, errors, {})
    assert table(folders, variants=variants, first_epoch=2)[1]["resolution_field"]["verdict"] == verdict


def test_one_sketch_count_has_no_lowest(run):
    folders, variants = sketches(run, {(9, 0): 9.0, (9, 1): 4.0}, {})
    row = table(folders, variants=variants, first_epoch=2)[1]["lowest_field"]
    assert (row["ours"], row["verdict"], row["not_run"]) == ("—", "not run", "sketch_resolution: q above 1")


def test_a_reduced_study_is_judged_by_the_problems_that_it_has(cell):
    """Diffusion alone answers for diffusion and Navier-Stokes. The caption says so, and is silent on Burgers."""
    built, rows = table(cell("diffusion", 8, (0.5, 2), (0.2, 0.7), (0.1, 0.5)))
    row = rows["field_di_lower"]
    assert (row["ours"], row["verdict"], row["not_run"]) == ("1 of 1", "holds", "")
    assert "judged by those that this study has" in built.caption
    assert "Burgers" not in built.caption
    full, rows = table(cell("diffusion", 128, (0.5, 2), (0.2, 0.7), (0.1, 0.5)), reduced=False)
    assert rows["field_di_lower"]["verdict"] == "not run"
    assert "judged by those that this study has" not in full.caption


def test_the_caption_of_a_reduced_study_says_so(cell, tmp_path):
    built, _ = table(cell("burgers", 8, (0.5, 2), (0.1, 1), (0.1, 1)))
    assert "published values are of the full size" in built.caption
    built.write(tmp_path / "claims.csv", reduced=False)
    assert r"\begin{tabular}{lp{3cm}p{3cm}p{3cm}rp{3cm}r}" in (tmp_path / "claims.tex").read_text()
    with (tmp_path / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len({row["name"] for row in rows}) == len(built.body)


# -- plans ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.yaml", "paper.yaml", "paper-small.yaml", "test/tiny.yaml"])
def test_the_table_asks_for_nothing_that_others_do_not(name):
    tables = table_plans(Plan(parse(yaml.safe_load((CONFIG / name).read_text()))))
    plan = tables.pop("claims")
    assert plan.published
    assert set(plan.files) <= {file for other in tables.values() for file in other.files}


def test_studies_that_are_left_out_are_not_asked_for():
    config = yaml.safe_load((CONFIG / "test/tiny.yaml").read_text()) | {"studies": {}}
    plan = table_plans(Plan(parse(config)))["claims"]
    assert {cell.block for cell in plan.cells} == set(config["problems"])
    assert set(plan.records) == {f"timing/{problem}.json" for problem in config["problems"]}


def test_a_variant_with_the_published_settings_stands_for_its_problem(cell):
    """The claim on Burgers at the largest N is judged by the variant's cells, and the caption says so."""
    folders = cell("burgers_published", 512, (0.2, 1.8), (0.1, 0.7), (0.1, 1.9))
    built, rows = table(folders, stands_for={"burgers_published": "burgers"})
    assert rows["jacobian_burgers_largest"]["verdict"] == "holds"
    assert "Burgers (published) stands for Burgers." in built.caption
    built, rows = table(cell("burgers", 512, (0.2, 1.8), (0.1, 0.7), (0.1, 0.6)))
    assert rows["jacobian_burgers_largest"]["verdict"] == "does not hold"
    assert "three sweeps" in built.caption
    assert "ours were not" in built.caption
