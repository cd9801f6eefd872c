"""Records hold what trainings measured, and are refused where they do not fit their study or each other."""

import csv
import json
import sys
from pathlib import Path
from statistics import fmean

import pytest
import yaml

from stcl import cli
from stcl.reporting import records, status
from stcl.reporting.runs import read_history
from stcl.study.config import parse
from stcl.study.plan import Plan

ROOT = Path(__file__).parents[2]
FNO, STCL = "diffusion/N16/fno/lam0/seed0", "diffusion/N16/stcl/lam1/seed0"
CONTENTS = {"train": "t", "val": "v"}


@pytest.fixture
def plan() -> Plan:
    return Plan(parse(yaml.safe_load((ROOT / "config/test/tiny.yaml").read_text()) | {"selection": "fixed"}))


def history(epochs: int) -> list[dict[str, float]]:
    return [
        {
            "epoch": e,
            "data": 1.0 / e,
            "val_jacobian": e if e % 3 == 0 else "",
            "learning_rate": 1e-3,
            "seconds": 2.0 * e,
        }
        for e in range(1, epochs + 1)
    ]


def run(results: Path, plan: Plan, path: str, epochs: int = 7, test: str = "test", **changes: object) -> None:
    """The folder of a cell as training and evaluation leave it."""
    folder = results / "runs" / path
    folder.mkdir(parents=True)
    spec = plan.train_spec(plan.cells[path]).json_dict() | changes
    train = {"spec": spec, "best_epoch": 5, "contents": CONTENTS, "code": "c", "version": "1.2", "seconds": 9.0}
    (folder / "train.json").write_text(json.dumps(train))
    errors = {"spec": spec, "best_epoch": 5, "field_error": 0.1, "contents": {"data": test}}
    (folder / "errors.json").write_text(json.dumps(errors))
    with (folder / "history.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, history(1)[0])
        writer.writeheader()
        writer.writerows(history(epochs))


def test_a_record_has_everything_but_the_weights(tmp_path, plan):
    results, kept = tmp_path / "results/tiny", tmp_path / "records"
    run(results, plan, FNO)
    (results / "runs" / FNO / "weights.pt").write_text("many numbers")
    (folder,) = records.write(plan, results, kept)
    assert folder == kept / "tiny" / FNO
    assert {file.name for file in folder.iterdir()} == {"train.json", "errors.json", "history.csv"}
    made = json.loads((results / "runs" / FNO / "train.json").read_text())
    assert made.pop("seconds") == 9.0  # nothing says how busy the machine was
    assert json.loads((folder / "train.json").read_text()) == made
    errors = "errors.json"
    assert json.loads((folder / errors).read_text()) == json.loads((results / "runs" / FNO / errors).read_text())
    assert records.check(plan, kept) == [folder]


@pytest.mark.parametrize("times", [False, True])
def test_times_are_kept_on_request(tmp_path, plan, times):
    results, kept = tmp_path / "results/tiny", tmp_path / "records"
    run(results, plan, FNO)
    for name, content in {
        "banks/diffusion/train.ledger.json": {"seconds": 3.0, "check_seconds": 1.0, "solves": 7, "spec": {"n": 1}},
        "timing/diffusion.json": {"cells": {}},
    }.items():
        (results / name).parent.mkdir(parents=True)
        (results / name).write_text(json.dumps(content))
    (folder,) = records.write(plan, results, kept, times=times)
    assert "seconds" not in json.loads((folder / "train.json").read_text())  # other trainings may have run beside it
    assert "seconds" not in read_history(folder / "history.csv")[0]
    ledger = json.loads((kept / "tiny/banks/diffusion/train.ledger.json").read_text())
    assert ledger == ({"seconds": 3.0, "check_seconds": 1.0} if times else {}) | {"solves": 7, "spec": {"n": 1}}
    assert (kept / "tiny/timing/diffusion.json").exists() is times
    records.write(plan, results, kept)  # what was measured once is not lost
    assert ("seconds" in json.loads((kept / "tiny/banks/diffusion/train.ledger.json").read_text())) is times


def test_a_record_says_which_version_made_it(tmp_path, plan):
    results, kept = tmp_path / "tiny", tmp_path / "records"
    run(results, plan, FNO)
    train = results / "runs" / FNO / "train.json"
    train.write_text(json.dumps({k: v for k, v in json.loads(train.read_text()).items() if k != "version"}))
    with pytest.raises(records.RecordError, match="which version made it; give it with --version"):
        records.write(plan, results, kept)
    (folder,) = records.write(plan, results, kept, version="0.9")
    assert json.loads((folder / "train.json").read_text())["version"] == "0.9"
    train.write_text(json.dumps(json.loads(train.read_text()) | {"version": "0.8"}))
    (folder,) = records.write(plan, results, kept, version="0.9")
    assert json.loads((folder / "train.json").read_text())["version"] == "0.9"


def test_a_key_that_is_newer_than_a_record_has_its_default(tmp_path, plan):
    results, kept = tmp_path / "tiny", tmp_path / "records"
    run(results, plan, STCL)
    (folder,) = records.write(plan, results, kept)
    for name in ("train.json", "errors.json"):
        content = json.loads((folder / name).read_text())
        del content["spec"]["training"]["cuda_graphs"], content["spec"]["settings"]["weighting"]["decay"]
        (folder / name).write_text(json.dumps(content))
    assert records.check(plan, kept) == [folder]
    for name in ("train.json", "errors.json"):
        content = json.loads((folder / name).read_text())
        content["spec"]["settings"]["gone"] = 1
        (folder / name).write_text(json.dumps(content))
    with pytest.raises(records.RecordError, match="settings that there are no more"):
        records.check(plan, kept)


def test_a_training_that_was_not_evaluated_has_no_record(tmp_path, plan):
    run(tmp_path / "tiny", plan, FNO)
    (tmp_path / "tiny/runs" / FNO / "errors.json").unlink()
    assert records.write(plan, tmp_path / "tiny", tmp_path / "records") == []


def test_a_thinned_history_keeps_means_and_ends(tmp_path, plan):
    run(tmp_path / "tiny", plan, FNO, epochs=1003)
    (folder,) = records.write(plan, tmp_path / "tiny", tmp_path / "records")
    rows, full = read_history(folder / "history.csv"), history(1003)
    assert len(rows) <= records.ROWS
    assert sum(row["epochs"] for row in rows) == 1003
    weighted = sum(row["epochs"] * row["data"] for row in rows) / 1003
    assert weighted == pytest.approx(fmean(row["data"] for row in full), rel=1e-5)
    assert rows[0]["data"] == pytest.approx(fmean(row["data"] for row in full[:5]), rel=1e-5)
    assert rows[0]["val_jacobian"] == 3  # the only measurement among five epochs
    assert rows[-1]["epoch"] == 1003
    assert (folder / "history.csv").stat().st_size < 20_000


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda results, plan: run(results, plan, STCL, lam=2.0), r"other settings than the study has now \(lam\)"),
        (lambda results, plan: run(results, plan, STCL, test="other"), "its test data of diffusion is other, that of"),
        (lambda results, plan: run(results, plan, STCL, n_train=99), r"\(n_train\)"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path, plan, spoil, message):
    results, kept = tmp_path / "tiny", tmp_path / "records"
    run(results, plan, FNO)
    spoil(results, plan)
    records.write(plan, results, kept)
    with pytest.raises(records.RecordError, match=message):
        records.check(plan, kept)


def test_a_record_of_another_study_or_training_is_refused(tmp_path, plan):
    results, kept = tmp_path / "tiny", tmp_path / "records"
    run(results, plan, FNO)
    (folder,) = records.write(plan, results, kept)
    elsewhere = kept / "tiny" / FNO.replace("N16", "N17")
    elsewhere.parent.mkdir(parents=True)
    folder.rename(elsewhere)
    with pytest.raises(records.RecordError, match="has no cell diffusion/N17/fno/lam0/seed0"):
        records.check(plan, kept)
    elsewhere.rename(folder)
    errors = json.loads((folder / "errors.json").read_text())
    for other in ({"spec": errors["spec"] | {"seed": 5}}, {"best_epoch": 6}):
        (folder / "errors.json").write_text(json.dumps(errors | other))
        with pytest.raises(records.RecordError, match=r"train\.json and errors\.json are of different trainings"):
            records.check(plan, kept)


def test_what_the_study_does_not_have_or_has_trained_again_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    """Cells of earlier settings stay below the results. Only what is left of them is written, and fits."""
    config = yaml.safe_load((ROOT / "config/test/tiny.yaml").read_text()) | {"selection": "fixed"}
    plan, results = Plan(parse(config)), Path("results/tiny")
    monkeypatch.chdir(tmp_path)
    status.keep_config(config, results)
    for path in (FNO, STCL, "diffusion/N16/offline_di/lam1/seed0"):
        run(results, plan, path)
    gone = STCL.replace("lam1", "lam2")
    (results / "runs" / STCL).parent.rename((results / "runs" / gone).parent)
    train = results / "runs/diffusion/N16/offline_di/lam1/seed0/train.json"
    train.write_text(json.dumps(json.loads(train.read_text()) | {"best_epoch": 6}))
    monkeypatch.setattr(sys, "argv", ["stcl", "records", "results/tiny"])
    cli.main()
    assert capsys.readouterr().out.splitlines() == [
        f"left out: {train.parent}: its errors do not belong to the training that is there; run snakemake again",
        f"left out: results/tiny/runs/{gone}: the study tiny has no such cell",
        "1 records written, 1 in records/tiny checked",
    ]
    assert records.folders(Path("records/tiny")) == [Path("records/tiny") / FNO]


def test_a_record_may_have_a_seed_that_the_study_has_not(tmp_path, plan):
    results, kept = tmp_path / "tiny", tmp_path / "records"
    run(results, plan, FNO)
    records.write(plan, results, kept)
    folder = kept / "tiny" / FNO
    for name in ("train.json", "errors.json"):
        content = json.loads((folder / name).read_text())
        content["spec"]["seed"] = 77
        (folder / name).write_text(json.dumps(content))
    with pytest.raises(records.RecordError, match=r"other settings than the study has now \(seed\)"):
        records.check(plan, kept)
    other = folder.rename(folder.with_name("seed77"))
    assert records.check(plan, kept) == [other]


@pytest.mark.parametrize("config", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_records_of_this_repository_fit_their_studies(config):
    content = yaml.safe_load(config.read_text())
    if "preset" in content:
        records.check(Plan(parse(content)), ROOT / "records")
