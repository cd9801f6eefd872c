"""A study that holds a problem twice, the second time as a variant under a name of its own."""

import copy
from pathlib import Path

import pytest
import yaml
from plans_with_variants import with_variant

from stcl.reporting.figures.plan import figure_plans
from stcl.reporting.tables.plan import table_plans
from stcl.study import modules
from stcl.study.cells import SELECTED
from stcl.study.config import ConfigError, parse
from stcl.study.names import problem_name
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture
def config():
    return with_variant(yaml.safe_load((CONFIG / "test/tiny.yaml").read_text()))


@pytest.fixture
def plan(config):
    return Plan(parse(config))


def specs(plan, name):
    """The specs of the cells of a problem and of its ablations, by what is left of their paths without its name."""
    cells = [cell for cell in plan.cells.values() if plan.blocks[cell.block].key == name]
    return {cell.path.removeprefix(name): plan.train_spec(cell) for cell in cells}


def test_a_variant_stands_after_its_problem(config):
    order = list(parse(config).problems)
    assert order == ["helmholtz", "diffusion", "burgers", "burgers_published", "allen_cahn", "navier_stokes"]
    turned = config | {"problems": dict(reversed(config["problems"].items()))}
    assert list(parse(turned).problems) == order


def test_both_load_the_same_problem_with_other_options(plan):
    own, variant = (specs(plan, name) for name in ("burgers", "burgers_published"))
    assert own.keys() == variant.keys()
    assert len(own) == 3 + 4 + 1 + 3  # reported, tuning, another form, long
    for path, spec in own.items():
        assert variant[path].problem == spec.problem == "burgers"
        assert variant[path] == spec.model_copy(update={"options": spec.options | {"scheme": "three_sweep"}})
    assert modules.of_train(plan, plan.cells["burgers_published/N8/fno/lam0/seed0"])[1] == "stcl.problems.burgers"


def test_each_has_data_and_banks_of_its_own(plan):
    assert {"burgers", "burgers_published"} <= set(plan.datasets)
    for split in ("train", "val", "test"):
        own, variant = (plan.data_spec(name, split) for name in ("burgers", "burgers_published"))
        assert variant.problem == own.problem == "burgers"
        assert (own.options.get("scheme"), variant.options["scheme"]) == (None, "three_sweep")
    assert [plan.bank_spec("burgers_published", split).check for split in ("train", "test")] == [False, True]
    assert plan.bank_spec("burgers", "train").check
    assert modules.of_data(plan, "burgers_published") == ["stcl.stages.data", "stcl.problems.burgers"]


def test_each_has_a_decision_of_its_own(plan):
    (cell,) = [c for c in plan.final_cells([plan.blocks["burgers_published"]]) if c.method == "stcl"]
    assert cell.lam == SELECTED
    assert plan.decision(cell) == "burgers_published"
    assert {c.block for c in plan.tuning_cells("burgers_published")} == {"burgers_published"}
    assert {"burgers", "burgers_published"} <= set(plan.decisions)


def test_every_table_has_rows_of_both(plan):
    tables = table_plans(plan)
    both = {"burgers", "burgers_published"}
    for name in ("field_error", "jacobian_error", "per_cell_settings"):
        assert both <= {cell.block for cell in tables[name].cells}, name
    assert both <= set(tables["per_cell_settings"].spec["problems"])
    assert {f"timing/{name}.json" for name in both} <= set(tables["wallclock"].records)
    assert {f"banks/{name}/train.ledger.json" for name in both} <= set(tables["wallclock"].records)
    assert {f"conditioning/{name}.json" for name in both} <= set(tables["conditioning"].records)
    assert both == {v["problem"] for v in tables["forms"].spec["variants"].values()} - {"diffusion"}
    assert {block for block, v in tables["forms"].spec["variants"].items() if v["problem"] == "burgers_published"} == {
        "burgers_published",
        "burgers_published-form-penalty",
    }


def test_figures_have_both_and_follow_the_code_of_the_problem(config):
    config["figures"] = {"relative": ["burgers", "burgers_published"]}
    figures = figure_plans(Plan(parse(config)))
    assert figures["samples/burgers_published"].modules == ["stcl.reporting.figures.samples", "stcl.problems.burgers"]
    assert "data/burgers_published/test" in figures["samples/burgers_published"].stores
    assert any(file.startswith("runs/burgers_published-long/") for file in figures["convergence"].arguments)
    assert "data/burgers_published/train.ledger.json" in figures["ledger"].records


def test_claims_are_judged_by_the_variant_with_the_published_settings(plan):
    claims = table_plans(plan)["claims"]
    assert claims.spec["stands_for"] == {"burgers_published": "burgers"}
    blocks = {cell.block for cell in claims.cells}
    assert "burgers_published" in blocks
    assert "burgers" not in blocks


def test_conditioning_is_measured_with_the_options_of_the_variant():
    config = yaml.safe_load((CONFIG / "test/tiny.yaml").read_text())
    settings = copy.deepcopy(config["problems"]["helmholtz"])
    config["problems"]["helmholtz_k9"] = settings | {"problem": "helmholtz", "options": {"n": 13, "kappa": 9}}
    config["studies"]["conditioning"]["options"]["helmholtz_k9"] = {"n": 9}
    spec = Plan(parse(config)).conditioning_spec("helmholtz_k9")
    assert spec.options == {"n": 9, "kappa": 9}
    config["studies"]["conditioning"]["options"]["helmholtz_k9"] = {"bogus": 3}
    with pytest.raises(ConfigError, match=r"conditioning.options.helmholtz_k9: .*no option bogus"):
        parse(config)


def test_conditioning_loads_the_problem(plan):
    spec = plan.conditioning_spec("burgers_published")
    assert (spec.problem, spec.options["scheme"]) == ("burgers", "three_sweep")
    assert "stcl.problems.burgers" in modules.of_conditioning(plan, "burgers_published")


def test_a_study_without_variants_says_nothing_of_them():
    plan = Plan(parse(yaml.safe_load((CONFIG / "test/tiny.yaml").read_text())))
    assert not any("variant_of" in table.spec for table in table_plans(plan).values())


def test_a_configuration_survives_the_way_through_json(config):
    parsed = parse(config)
    assert parse(parsed.model_dump(mode="json", by_alias=True)) == parsed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("problem", "heat", r"problems.burgers_published: unknown problem .heat."),
        ("problem", None, r"problems.burgers_published: unknown problem .burgers_published."),
        ("problem", "../burgers", "problems.burgers_published.problem: "),
        ("options", {"shceme": "implicit"}, "problems.burgers_published: burgers has no option shceme"),
        ("train_sizes", [9], "problems.burgers_published.train_sizes: N = 9 is larger"),
        ("tune_seeds", [1, 1], "problems.burgers_published.tune_seeds: the same value twice"),
        ("tune_seeds", [], "problems.burgers_published.tune_seeds: "),
    ],
)
def test_what_is_wrong_is_named_by_the_name_of_the_variant(config, name, value, message):
    config["problems"]["burgers_published"][name] = value
    with pytest.raises(ConfigError, match=message):
        parse(config)


def test_studies_name_the_variant(config):
    config["studies"]["forms"]["burgers_published"]["n_train"] = 4
    with pytest.raises(ConfigError, match=r"studies.forms.burgers_published.n_train: 4 is not among .* of burgers_pub"):
        parse(config)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("helmholtz", "helmholtz is a problem itself and cannot be a variant of burgers"),
        ("sketch_runtime", "problems.sketch_runtime: a comparison of run times has this name"),
    ],
)
def test_a_variant_cannot_have_any_name(config, name, message):
    config["problems"][name] = copy.deepcopy(config["problems"]["burgers_published"])
    with pytest.raises(ConfigError, match=message):
        parse(config)


def test_the_shipped_variants_differ_in_the_scheme_and_the_check_alone():
    for name in ("paper", "paper-small"):
        raw = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())["problems"]
        own, variant = raw["burgers"], raw["burgers_published"]
        expected = own | {"problem": "burgers", "options": own["options"] | {"scheme": "three_sweep"}}
        assert variant == expected | {"bank": own["bank"] | {"check": False}}


def test_names_that_people_read():
    assert problem_name("burgers_published") == "Burgers (published)"
    assert problem_name("navier_stokes_at_re_10") == "Navier-Stokes (at re 10)"
    assert problem_name("heat_2d") == "Heat 2d"


def test_a_problem_of_ones_own_is_no_variant_for_its_name(monkeypatch):
    """A file diffusion_reaction.py is a problem, although a name of the paper begins like it."""
    assert problem_name("diffusion_reaction") == "Nonlinear diffusion (reaction)"
    monkeypatch.setattr("stcl.problems.names", lambda: ["diffusion", "diffusion_reaction"])
    assert problem_name("diffusion_reaction") == "Diffusion reaction"
