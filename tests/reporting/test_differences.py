"""What is said about the variants of a study."""

from pathlib import Path

import pytest
import yaml

from stcl.reporting.tables.plan import problems_of_variants, table_plans
from stcl.reporting.variants import differences
from stcl.study.config import parse
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.parametrize("name", ["paper", "paper-small"])
def test_the_tables_of_the_paper_say_what_its_variant_is(name):
    tables = table_plans(Plan(parse(yaml.safe_load((CONFIG / f"{name}.yaml").read_text()))))
    for table in ("field_error", "jacobian_error", "per_cell_settings", "wallclock"):
        spec = tables[table].spec
        assert spec["variant_of"] == {"burgers_published": "burgers"}
        assert spec["note"] == (
            "Burgers (published) is Burgers with options.scheme = three_sweep and bank.check = false."
        )


def test_the_file_of_a_user_is_a_problem_and_no_variant():
    plan = Plan(parse(yaml.safe_load((CONFIG.parent / "examples/workflow/poisson.yaml").read_text())))
    spec = table_plans(plan)["field_error"].spec
    assert spec["note"] == "Poisson is the problem of examples/workflow/poisson.py, with options.n = 17."
    assert "variant_of" not in spec
    assert problems_of_variants(plan) == {}
    files = {"heat": problem(problem="my/heat.py"), "fine": problem(problem="my/heat.py:Heat", options={"n": 9})}
    assert differences({"problems": files}) == [
        "Heat is the problem of my/heat.py.",
        "Fine is the problem of my/heat.py:Heat, with options.n = 9.",
    ]


def problem(**settings):
    return {"problem": None, "options": {}} | settings


def test_what_is_changed_or_left_out_is_named():
    own = problem(options={"n": 9, "k": 1.0}, sizes=[1, 2])
    variant = problem(problem="heat", options={"n": 17}, sizes=[1, 2, 3])
    assert differences({"problems": {"heat": own, "heat_fine": variant}}) == [
        "Heat fine is Heat with options.n = 17, sizes = [1, 2, 3] and options.k left out."
    ]
    assert differences({"problems": {"heat_fine": variant}}) == ["Heat fine is Heat with options.n = 17."]
    same = problem(problem="heat") | {key: own[key] for key in ("options", "sizes")}
    assert differences({"problems": {"heat": own, "other": same}}) == ["Other is Heat with the same settings."]
    assert differences({"problems": {"heat": own}}) == []
