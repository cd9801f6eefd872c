"""Tables of the ablations and of the studies beside the paper, against numbers worked out by hand."""

import json
import math
from pathlib import Path

import pytest
import yaml
from table_inputs import timing, written

from stcl.reporting.tables import (
    beyond,
    command,
    conditioning,
    conditioning_ablation,
    forms,
    inverse,
    minres_iterations,
    sketch,
    sketch_runtime,
)
from stcl.reporting.tables.plan import table_plans
from stcl.study.config import parse
from stcl.study.names import problem_name
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"
DIFFUSION = {"problem": "diffusion", "loaded": "diffusion", "n_train": 8}  # what an ablation is of


def test_steps_of_the_solver_with_their_time(run, tmp_path):
    folders = [run("helmholtz-m3/N8/stcl/lam1/seed0", 0.02, 0.2), run("helmholtz-m3/N8/stcl/lam1/seed1", 0.04, 0.2)]
    seconds = timing(tmp_path / "t.json", {"helmholtz-m3/N8/stcl/lam1/seed0": {"epoch_seconds": 0.5, "epochs": 60}})
    spec = {"variants": {"helmholtz-m3": {"steps": 3}}, "problem": "helmholtz", "loaded": "helmholtz", "n_train": 8}
    table = minres_iterations.build(spec, [*folders, seconds], None)
    assert table.body == [["3", "3.00 ± 1.41", "20.00 ± 0.00", "30"]]
    assert "for Helmholtz with N = 8" in table.caption


@pytest.mark.parametrize(
    ("name", "number", "changes"),
    [
        ("minres_iterations", "[3.50 ± 0.45]", {"problem": "diffusion"}),  # Helmholtz with m = 1
        ("minres_iterations", "[3.50 ± 0.45]", {"n_train": 128}),
        ("sketch_resolution", "[4.41 ± 0.23]", {"problem": "helmholtz"}),  # diffusion on 32² with q = 1
        ("sketch_resolution", "[4.41 ± 0.23]", {"n_train": 512}),
        ("gradient_variance", "[9.83e-07 ± 5.88e-07]", {"problem": "helmholtz"}),
        ("sketch_runtime", "[3.69]", {"problem": "helmholtz"}),  # diffusion on 64² with q = 1
        ("sketch_runtime", "[3.69]", {"n_train": 512}),
        ("sketch_runtime", "[3.69]", {"runtime_grid": 32}),
    ],
)
def test_published_numbers_of_an_ablation_stand_beside_its_own_problem_and_size_alone(name, number, changes, tmp_path):
    """The paper's study with the ablations of another problem, N or grid, and with those of a variant."""
    config = yaml.safe_load((CONFIG / "paper.yaml").read_text())
    config["problems"]["diffusion"]["methods"]["stcl"]["form"] = {
        "name": "krylov_target",
        "steps": 5,
        "metric": {"name": "inverse_laplacian"},
    }
    config["problems"] = {problem: config["problems"][problem] for problem in ("helmholtz", "diffusion")}
    for problem in list(config["problems"]):
        config["problems"][f"{problem}_again"] = config["problems"][problem] | {"problem": problem}
    own = {"minres_iterations": "helmholtz"}.get(name, "diffusion")
    study = "minres_iterations" if name == "minres_iterations" else "sketch_count"

    def built(**changes):
        plan = Plan(parse(config | {"studies": {study: config["studies"][study] | changes}, "figures": {}}))
        table = table_plans(plan)[name]
        cells = {path: {"epoch_seconds": 1.0, "epochs": 60} for path in plan.cells if "-q1/" in path}
        measured = [timing(tmp_path / Path(record).name, cells) for record in table.records]
        inputs = [*(tmp_path / "runs" / cell.path for cell in table.cells), *measured]
        published = yaml.safe_load((CONFIG / "published.yaml").read_text())
        return command.built(table.module, table.spec, inputs, published)

    for problem, shown in ((own, problem_name(own)), (f"{own}_again", f"{problem_name(own)} (again)")):
        table = built(problem=problem)
        assert number in table.markdown()
        assert f"for {shown} with N = {config['studies'][study]['n_train']}" in table.caption
    other = built(**changes)
    assert "[" not in other.markdown()
    assert "published" not in other.caption.lower()


def test_forms_stand_side_by_side(run, tmp_path):
    folders = [
        run("burgers/N8/fno/lam0/seed0", 0.2, 7.5, lam=None),
        run("burgers/N8/stcl/lamselected/seed0", 0.02, 0.2, lam=0.5),
        run("burgers/N8/stcl/lamselected/seed1", 0.04, 0.2, lam=0.5),
        run("burgers-form-penalty/N8/stcl/lam1/seed0", 0.1, 0.9),
        run("burgers-form-penalty/N8/stcl/lam1/seed1"),
    ]
    variants = {"burgers": "normalized residual", "burgers-form-penalty": "jacobian penalty"}
    spec = {"variants": {block: {"problem": "burgers", "form": form} for block, form in variants.items()}}
    table = forms.build(spec, folders, None)
    assert table.body == [
        ["Burgers", "8", "FNO", "—", "20.00", "750.00"],
        ["Burgers", "8", "sTCL, normalized residual", "0.5", "3.00 ± 1.41", "20.00 ± 0.00"],
        ["Burgers", "8", "sTCL, jacobian penalty", "1", "10.00 (1 missing)", "90.00 (1 missing)"],
    ]
    last = written(table, tmp_path)[-1]
    assert (last["form"], last["quantity"], last["n_unfinished"]) == ("jacobian penalty", "jacobian_error", "1")
    assert float(last["mean"]) == 90.0


def test_sketch_tables_average_the_late_epochs(run, tmp_path):
    history = "epoch,variance_raw,variance_weighted,variance_total\n1,9,9,9\n2,1,4,2\n3,3,6,4\n"
    data = history.replace("1,4,2", "0,0,2").replace("3,6,4", "0,0,4")
    folders = [
        run("diffusion-n9-q0/N8/fno/lam0/seed0", 0.5, 0.6, data),
        run("diffusion-n9-q2/N8/stcl/lam1/seed0", 0.1, 0.2, history),
    ]
    spec = DIFFUSION | {"variants": {"diffusion-n9-q0": {"grid": 9, "q": 0}, "diffusion-n9-q2": {"grid": 9, "q": 2}}}
    resolution = sketch.build(spec | {"table": "sketch_resolution", "first_epoch": 2}, folders, None)
    assert resolution.header == ["q", "9², field", "9², Jacobian"]
    assert resolution.body == [["0", "50.00", "60.00"], ["2", "10.00", "20.00"]]
    variance = sketch.build(spec | {"table": "gradient_variance", "first_epoch": 2}, folders, None)
    assert variance.body == [["0", "—", "—", "3.00", "—"], ["2", "2.00", "5.00", "3.00", "166.7"]]
    cells = {"diffusion-n9-q0/N8/fno/lam0/seed0": (2.0, 30), "diffusion-n9-q2/N8/stcl/lam1/seed0": (5.0, 30)}
    record = timing(tmp_path / "t.json", {path: {"epoch_seconds": s, "epochs": n} for path, (s, n) in cells.items()})
    runtime = sketch_runtime.build(spec | {"grid": 9}, [record], None)
    assert runtime.body == [["0", "1", "1.00"], ["2", "2.5", "2.50"]]


@pytest.mark.parametrize(("first_epoch", "mean"), [(2, (8 + 2 + 4 + 2 * 3) / 5), (5, 3.0), (6, 3.0)])
def test_variances_of_epochs_that_were_not_run_are_those_of_the_epochs_waited(run, first_epoch, mean):
    """A budget of 6 epochs, of which 4 were run. The last two of these waited for a better checkpoint."""
    rows = "\n".join(f"{epoch},0,0,{total}" for epoch, total in enumerate((99, 8, 2, 4), 1))
    history = f"epoch,variance_raw,variance_weighted,variance_total\n{rows}\n"
    training = {"epochs": 6, "finish_after": 2}
    path = "diffusion-n9-q0/N8/fno/lam0/seed0"
    folder = run(path, 0.1, 0.1, history, training=training, epochs=4, ended="early")
    spec = DIFFUSION | {"variants": {"diffusion-n9-q0": {"grid": 9, "q": 0}}, "table": "gradient_variance"}
    table = sketch.build(spec | {"first_epoch": first_epoch}, [folder], None)
    assert next(row["mean"] for row in table.rows if row["quantity"] == "total") == pytest.approx(mean)
    assert sketch.EARLY in table.caption


def test_the_share_of_the_weighted_variance_says_whether_a_larger_q_is_worth_it(run, tmp_path):
    def history(weighted, total):
        return f"epoch,variance_raw,variance_weighted,variance_total\n1,9,{weighted},{total}\n"

    # the share is that of the means: (1 + 3) / (10 + 30), not the mean of 1/10 and 3/30
    folders = [
        run("diffusion-n9-q1/N8/stcl/lam1/seed0", 0.1, 0.2, history(1, 30)),
        run("diffusion-n9-q1/N8/stcl/lam1/seed1", 0.1, 0.2, history(3, 10)),
        run("diffusion-n9-q2/N8/stcl/lam1/seed0", 0.1, 0.2, history(1, 50)),
        run("diffusion-n9-q4/N8/stcl/lam1/seed0"),
    ]
    spec = DIFFUSION | {"variants": {f"diffusion-n9-q{q}": {"grid": 9, "q": q} for q in (1, 2, 4)}}
    spec |= {"table": "gradient_variance", "first_epoch": 1}
    published = {"gradient_variance": {9: {1: {"raw": [1, 0], "weighted": [3, 0], "total": [20, 0]}}}}
    published["made_for"] = {"gradient_variance": {"problem": "diffusion", "n_train": 8}}
    table = sketch.build(spec, folders, published)
    assert [line[-1] for line in table.body] == ["10.0 [15.0]", "2.0", "—"]
    assert "2.0 to 10.0 % (published: 15.0 %)" in table.caption
    assert "the rule asks for no larger q" in table.caption
    rows = [row for row in written(table, tmp_path) if row["quantity"] == "share"]
    assert [(row["q"], row["mean"], row["n_seeds"]) for row in rows] == [
        ("1", "10.0", "2"),
        ("2", "2.0", "1"),
        ("4", "", "0"),
    ]
    (folders[2] / "history.csv").write_text(history(20, 50))
    assert "try a larger q for 9² with q = 2." in sketch.build(spec, folders, None).caption


def test_sketch_counts_and_grids_are_in_the_order_of_numbers(run, tmp_path):
    names = [(f"diffusion-n{grid}-q{q}", grid, q) for grid in (9, 16) for q in (0, 2, 16)]
    folders = [
        run(f"{name}/N8/{'stcl' if q else 'fno'}/lam1/seed0", 0.01 * grid, 0.1 * (q + 1)) for name, grid, q in names
    ]
    variants = {name: {"grid": grid, "q": q} for name, grid, q in sorted(names)}
    spec = DIFFUSION | {"variants": variants}
    table = sketch.build(spec | {"table": "sketch_resolution"}, folders, None)
    assert table.header == ["q", "9², field", "9², Jacobian", "16², field", "16², Jacobian"]
    assert [line[0] for line in table.body] == ["0", "2", "16"]
    assert [line[2] for line in table.body] == ["10.00", "30.00", "170.00"]
    assert table.body[0][1::2] == ["9.00", "16.00"]
    cells = {f"{name}/N8/stcl/lam1/seed0": {"epoch_seconds": 1.0, "epochs": 60} for name in sorted(variants)}
    runtime = sketch_runtime.build(spec | {"grid": 9}, [timing(tmp_path / "t.json", cells)], None)
    assert [line[0] for line in runtime.body] == ["0", "2", "16"]


def test_conditioning_shows_medians_and_leaves_out_what_a_form_has_not(tmp_path):
    names = [*conditioning.QUANTITIES]
    quantities = {name: {"median": float(i)} for i, name in enumerate(names)} | {"target_error": None}
    record = {"spec": {"problem": "diffusion"}, "tangent_class": "spd", "unknowns": 9, "quantities": quantities}
    names = ("diffusion", "diffusion_coarse")  # a variant has its problem's name in its spec
    for name in names:
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    forms = {"diffusion": "residual", "diffusion_coarse": "penalty"}
    table = conditioning.build({"forms": forms}, [tmp_path / f"{name}.json" for name in names], None)
    numbers = ["9", "0", "1", "2", "3", "4", "5", "6", "—"]
    assert table.body == [
        ["Nonlinear diffusion", "spd", "residual", *numbers],
        ["Nonlinear diffusion (coarse)", "spd", "penalty", *numbers],
    ]


def test_inverse_problems_show_means_over_seeds_and_what_is_missing(tmp_path):
    cells = [f"diffusion/N8/fno/lam0/seed{seed}" for seed in (0, 1)] + ["diffusion/N8/stcl/lam1/seed0"]
    cells.append("burgers/N8/fno/lam0/seed0")
    found = {
        "solver": {"misfit": 0.7, "evaluations": 9.0, "map_seconds": 0.25},
        cells[0]: {"gradient_error": 0.2, "misfit": 1.5, "evaluations": 4.0},
        cells[1]: {"gradient_error": 0.4, "misfit": 2.5, "evaluations": 4.0},
    }
    (tmp_path / "diffusion.json").write_text(json.dumps({"cells": found}))
    inputs = [tmp_path / "diffusion.json", tmp_path / "burgers.json"]  # the second is not there yet
    table = inverse.build({"cells": cells}, inputs, None)
    lines = {(row[0], row[2]): dict(zip(table.header, row, strict=True)) for row in table.body}
    solver, fno = (lines["Nonlinear diffusion", model] for model in ("Solver", "FNO"))
    assert (solver["Solves"], solver["Time"], solver["Gradient"]) == ("9", "250", "—")
    assert (fno["Gradient"], fno["Misfit"], fno["Solves"]) == ("30 ± 14", "2 ± 0.71", "4 ± 0")
    assert set(lines["Nonlinear diffusion", "sTCL"].values()) >= {"missing"}
    assert lines["Burgers", "FNO"]["Gradient"] == "missing"
    assert [row["status"] for row in table.rows] == ["done", "done", "done", "missing", "missing"]


def test_a_misfit_without_a_response_of_the_solver_is_no_number(tmp_path):
    """The stage sets it to infinity. It has no mean with those of other seeds, which would hide it."""
    cells = [f"diffusion/N8/{method}/seed{seed}" for method in ("fno/lam0", "stcl/lam1") for seed in (0, 1, 2)]
    misfits = dict(zip(cells, (2.0, math.inf, 1.0, math.inf, math.inf), strict=False))
    path = tmp_path / "diffusion.json"
    path.write_text(json.dumps({"cells": {cell: {"misfit": misfit} for cell, misfit in misfits.items()}}))
    table = inverse.build({"cells": cells}, [path], None)
    place = table.header.index("Misfit")
    assert [line[place] for line in table.body] == ["1 of 3 not finite", "2 of 2 not finite (1 missing)"]
    assert "it is not finite if the solver has no response there" in table.caption


def test_the_ablation_goes_from_the_worst_conditioned_form_to_the_best(run, tmp_path):
    def record(name, form, **medians):
        names = ("condition_scored", "condition_raw", "condition_metric", "condition_metric_all", "target_error")
        quantities = {key: {"median": medians[key]} if key in medians else None for key in names}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"spec": {"form": form}, "quantities": quantities}))
        return path

    metric = {"name": "preconditioned_residual", "metric": {}}
    forms = {
        "helmholtz": {"name": "target", "form": "krylov target"},
        "helmholtz-ablation-raw": {"name": "raw", "form": "residual"},
        "helmholtz-ablation-shifted": {"name": "shifted", "form": "preconditioned residual"},
        "helmholtz-ablation-blind": {"name": "blind", "form": "another"},
        "helmholtz-ablation-later": {"name": "later", "form": "later"},
    }
    spec = {"forms": {key: form | {"problem": "helmholtz", "measured": key} for key, form in forms.items()}}
    inputs = [
        run("helmholtz/N8/fno/lam0/seed0", 0.2, 0.5, lam=None),
        run("helmholtz/N8/offline_di/lam1/seed0", 0.01, 0.02),
        run("helmholtz/N8/stcl/lam1/seed0", 0.02, 0.1),
        run("helmholtz/N8/stcl/lam1/seed1", 0.04, 0.3),
        run("helmholtz-ablation-shifted/N8/stcl/lam1/seed0", 0.05, 0.4),
        run("helmholtz-ablation-blind/N8/stcl/lam1/seed0", 0.06, 0.4),
        run("helmholtz-ablation-raw/N8/stcl/lam1/seed0", 0.09, 0.8),
        run("helmholtz-ablation-later/N8/stcl/lam1/seed0"),
        record("helmholtz", {"name": "krylov_target", "metric": {}}, condition_metric=400.0, target_error=0.004),
        record("helmholtz-ablation-raw", {"name": "residual"}, condition_scored=9e4, condition_raw=9.5e4),
        record("helmholtz-ablation-shifted", metric, condition_scored=9e4, condition_metric=400.0),
        record("helmholtz-ablation-blind", metric, condition_metric=300.0, condition_metric_all=5e5),
        tmp_path / "helmholtz-ablation-later.json",
    ]
    table = conditioning_ablation.build(spec, inputs, None)
    assert [line[2:] for line in table.body] == [
        ["FNO", "—", "—", "—", "—", "20.00", "50.00"],
        ["sTCL, later", "—", "missing", "missing", "—", "missing", "missing"],
        ["sTCL, residual", "1", "9e+04", "9.5e+04", "—", "9.00", "80.00"],
        ["sTCL, preconditioned residual", "1", "4e+02", "singular", "—", "5.00", "40.00"],
        ["sTCL, another", "1", "3e+02", "5e+05", "—", "6.00", "40.00"],
        ["sTCL, krylov target", "1", "1", "1", "0.004", "3.00 ± 1.41", "20.00 ± 14.14"],
        ["Offline DI", "1", "—", "—", "—", "1.00", "2.00"],
    ]
    assert {tuple(line[:2]) for line in table.body} == {("Helmholtz", "8")}
    raw = next(row for row in written(table, tmp_path) if row["name"] == "raw" and row["quantity"] == "field_error")
    assert (float(raw["condition"]), float(raw["mean"]), raw["target_error"]) == (9e4, 9.0, "")


def test_beyond_the_labels_counts_all_that_was_solved_stored_and_waited_for(run, tmp_path):
    """N = 4 of 8 samples. An epoch takes 2 s with sTCL, and as many seconds as there are samples with offline DI."""
    base, more = "diffusion", "diffusion-beyond-more8"
    folders = [
        run(f"{base}/N4/fno/lam0/seed0", 0.5, 0.9, lam=None, epochs=10),
        run(f"{base}/N4/offline_di/lam1/seed0", 0.2, 0.3, epochs=10),
        run(f"{base}/N4/stcl/lam1/seed0", 0.3, 0.4, epochs=10),
        run(f"{base}-beyond-fresh/N4/stcl/lam1/seed0", 0.1, 0.2, epochs=20, ledger={"targets": 60, "corrections": 4}),
        run(f"{base}-beyond-fresh/N4/stcl/lam1/seed1", 0.1, 0.4, epochs=10, ledger={"targets": 30, "corrections": 2}),
        run(f"{more}/N8/fno/lam0/seed0", 0.4, 0.8, lam=None, epochs=10),
        run(f"{more}/N8/offline_di/lam1/seed0"),
    ]
    seconds = {f"{base}/N4/fno/lam0": 1.0, f"{base}/N4/offline_di/lam1": 4.0, f"{base}/N4/stcl/lam1": 2.0}
    seconds |= {f"{base}-beyond-fresh/N4/stcl/lam1": 2.0, f"{more}/N8/fno/lam0": 3.0, f"{more}/N8/offline_di/lam1": 8.0}
    cells = {f"{path}/seed0": {"epoch_seconds": s, "epochs": 99} for path, s in seconds.items()}
    stores = {
        "data/diffusion/train.ledger.json": {"samples": 8, "split": "train"},
        "data/diffusion/val.ledger.json": {"samples": 2, "split": "val"},
        "banks/diffusion/train.ledger.json": {"samples": 8, "split": "train", "directions": 5},
    }
    inputs = [*folders, timing(tmp_path / "t.json", cells)]
    for name, spec in stores.items():
        inputs.append(tmp_path / name)
        inputs[-1].parent.mkdir(parents=True, exist_ok=True)
        inputs[-1].write_text(json.dumps({"spec": spec, "seconds": 16.0, "bytes": 1e9}))
    paths = dict.fromkeys(str(f.parent.relative_to(tmp_path / "results/p/runs")) for f in folders)
    losses = {path: ["diffusion", "fresh" if "fresh" in path else ""] for path in paths}
    spec = {"problems": {"diffusion": "diffusion"}, "cells": losses}
    table = beyond.build(spec, inputs, None)
    name = "Nonlinear diffusion"
    assert table.body == [
        # half of the training pairs and all validation pairs: 8 + 16 s, 4 + 2 solves, 0.5 + 1 GB
        [name, "FNO", "4", "—", "50.00", "90.00", "34", "24", "6", "1.5", "0", "—"],
        # and half of a bank with 5 tangents for each of 8 samples
        [name, "Offline DI", "4", "1", "20.00", "30.00", "72", "32", "26", "2", "0", "—"],
        [name, "sTCL", "4", "1", "30.00", "40.00", "44", "24", "6", "1.5", "0", "5 / —"],
        [name, "sTCL, fresh", "4", "1", "10.00 ± 0.00", "30.00 ± 14.14", "54", "24", "6", "1.5", "48", "7 / —"],
        [name, "FNO", "8", "—", "40.00", "80.00", "62", "32", "10", "2", "0", "—"],
        [name, "Offline DI", "8", "—", "missing", "missing", "—", "48", "50", "3", "—", "—"],
    ]
    run(f"{more}/N8/offline_di/lam1/seed0", 0.1, 0.1, epochs=10)
    # FNO: 34 s with N = 4 and 62 s with 8, so 54 s buy 4 + 20 / 7; offline DI: 72 and 128 s, so 54 s buy 4 - 18 / 14
    assert [line[-1] for line in beyond.build(spec, inputs, None).body] == ["—", "—", "5 / 2", "7 / 3", "—", "—"]
    inputs[-1].write_text(json.dumps({"spec": stores["banks/diffusion/train.ledger.json"], "bytes": 1e9}))
    assert beyond.build(spec, inputs, None).body[1][6:9] == ["—", "—", "26"]  # a busy machine has no seconds
