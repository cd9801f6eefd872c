"""Which cells there are, and which part of the configuration reaches which of them."""

import json
from pathlib import Path

import pytest
import yaml

from stcl.config import parse
from stcl.plan import SELECTED, Plan


@pytest.fixture
def config():
    return yaml.safe_load((Path(__file__).parents[1] / "config/test/tiny.yaml").read_text())


def test_a_grid_of_lambdas_is_tuned_and_a_single_one_is_not(config):
    plan = Plan(parse(config))
    assert [c.lam for c in plan.tuning_cells("diffusion", 16, "stcl")] == [0.5, 1.0]
    assert plan.tuning_cells("diffusion", 16, "offline_di") == []
    assert plan.tuning_cells("diffusion", 16, "fno") == []
    reported = {(c.method, c.lam) for c in plan.final_cells("diffusion")}
    assert reported == {("fno", None), ("offline_di", 1.0), ("stcl", SELECTED)}


def test_paths_are_distinct_and_stay_in_place(config):
    plan = Plan(parse(config))
    assert len(plan.cells) == 7
    assert "diffusion/N16/stcl/lamselected/seed0" in plan.cells
    assert "helmholtz/N8/fno/lam0/seed0" in plan.cells
    assert not any(".." in path or path.startswith("/") for path in plan.cells)


def test_fno_does_not_depend_on_the_basis_and_the_others_do(config):
    before = Plan(parse(config))
    config["problems"]["diffusion"]["basis"] = "white"
    after = Plan(parse(config))
    cells = {cell.method: cell for cell in before.final_cells("diffusion")}
    assert before.train_spec(cells["fno"]) == after.train_spec(cells["fno"])
    assert before.train_spec(cells["stcl"]) != after.train_spec(cells["stcl"])
    assert before.bank_spec("diffusion", "train") != after.bank_spec("diffusion", "train")
    assert before.bank_spec("diffusion", "test") == after.bank_spec("diffusion", "test")


def test_the_bank_covers_the_largest_training_set(config):
    assert json.loads(Plan(parse(config)).bank_spec("diffusion", "train"))["samples"] == 16
