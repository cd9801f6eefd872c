"""Specs: what travels between the plan, the command line and the records, and what a stage depends on through them."""

import argparse
import json
from pathlib import Path

import pytest
import yaml

from stcl.runtime import provenance
from stcl.study.config import parse
from stcl.study.plan import Plan
from stcl.study.specs.data import DataSpec
from stcl.study.specs.train import TrainSpec

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module", params=["config.yaml", "paper.yaml", "test/tiny.yaml"])
def plan(request) -> Plan:
    return Plan(parse(yaml.safe_load((CONFIG / request.param).read_text())))


def test_every_spec_survives_the_command_line(plan):
    """Text and back, for every job of a study."""
    specs = [plan.data_spec(d, split) for d in plan.datasets for split in ("train", "val", "test")]
    specs += [plan.bank_spec(dataset, "test") for dataset in plan.datasets]
    specs += [plan.train_spec(cell) for cell in plan.cells.values()]
    specs += [plan.timing_spec(problem) for problem in plan.config.problems]
    if plan.config.studies.conditioning:
        specs += [plan.conditioning_spec(problem) for problem in plan.config.studies.conditioning.options]
    specs += [plan.conditioning_spec(block.name) for block in plan.ablation_blocks]
    for spec in specs:
        assert type(spec).parse(spec.canonical()) == spec
        assert type(spec).model_validate(spec.json_dict()) == spec


def test_two_cells_of_the_main_tables_are_two_trainings(plan):
    cells = [cell for cell in plan.final_cells(plan.problem_blocks) if not isinstance(cell.lam, str)]
    assert len({plan.train_spec(cell).canonical() for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"samples": 0}, "greater than 0"), ({"sample": 4}, "sample\n.*not permitted"), ({"split": "dev"}, "'train'")],
)
def test_a_bad_spec_is_refused_with_the_reason(change, message):
    good = {"problem": "diffusion", "options": {"n": 9}, "split": "train", "samples": 4}
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--spec", type=DataSpec.parse)
    with pytest.raises(argparse.ArgumentError, match=message):
        parser.parse_args(["--spec", json.dumps(good | change)])


def test_a_lambda_of_the_decision_takes_its_place(plan):
    cell = next(cell for cell in plan.cells.values() if cell.method == "stcl")
    spec = plan.train_spec(cell).model_copy(update={"lam": 0.125})
    assert TrainSpec.parse(spec.canonical()).lam == 0.125


def closure(module: str) -> set[str]:
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += provenance._parse(name)[1]
    return reached


def test_a_stage_does_not_depend_on_the_specs_of_others():
    """Else a new key of one stage would make the results of another stale."""
    specs = {f"stcl.study.specs.{name}" for name in ("data", "bank", "train", "timing", "conditioning")}
    used = {
        "data": {"data"},
        "bank": {"data", "bank"},
        "train": {"train"},
        "evaluate": {"train"},
        "timing": {"train", "timing"},
        "conditioning": {"conditioning"},
        "select": set(),
    }
    for stage, names in used.items():
        assert closure(f"stcl.stages.{stage}") & specs == {f"stcl.study.specs.{name}" for name in names}, stage
    assert not closure("stcl.stages.data") & {"stcl.study.protocol", "stcl.losses.settings", "stcl.study.schema"}
