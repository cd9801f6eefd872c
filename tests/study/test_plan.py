"""Which cells there are, and which part of the configuration reaches which of them."""

from pathlib import Path

import pytest
import yaml

from stcl.study import modules
from stcl.study.cells import SELECTED, Cell
from stcl.study.config import ConfigError, parse
from stcl.study.plan import Plan

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture
def config():
    return yaml.safe_load((CONFIG / "test/tiny.yaml").read_text())


def reported(plan, problem):
    return {cell.method: cell for cell in plan.final_cells([plan.blocks[problem]])}


def test_only_a_grid_of_lambdas_is_tuned(config):
    plan = Plan(parse(config))
    assert plan.decisions == ["diffusion/N16/stcl", "burgers"]
    assert [c.lam for c in plan.tuning_cells("diffusion/N16/stcl")] == [0.5, 1.0]
    lams = {method: cell.lam for method, cell in reported(plan, "diffusion").items()}
    assert lams == {"fno": None, "offline_di": 1.0, "stcl": SELECTED}


@pytest.mark.parametrize("name", ["paper", "test/tiny"])
def test_no_cell_that_tunes_is_a_final_one(name):
    """A divergence is a result of the former and a failure of the latter."""
    study = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())
    plan = Plan(parse(study | {"selection": "validation"}))
    assert plan.tuning
    assert not plan.tuning & set(plan.final_cells(plan.blocks.values()))


def test_one_decision_for_a_problem_compares_both_methods_at_its_smallest_size(config):
    config["problems"]["burgers"] |= {"train_sizes": [8, 4]}
    plan = Plan(parse(config))
    tuned = [(c.n_train, c.method, c.lam) for c in plan.tuning_cells("burgers")]
    assert tuned == [(4, method, lam) for method in ("offline_di", "stcl") for lam in (0.5, 1.0)]
    cells = [c for c in plan.final_cells([plan.blocks["burgers"]]) if c.method != "fno"]
    assert {plan.decision(cell) for cell in cells} == {"burgers"}


def test_fixed_lambdas_train_no_grid(config):
    for method in ("offline_di", "stcl"):
        config["problems"]["burgers"]["methods"][method]["lambda"] = 2.0
    config["problems"]["diffusion"]["methods"]["stcl"]["lambda"] = {16: 0.7}
    plan = Plan(parse(config | {"selection": "fixed"}))
    assert plan.decisions == []
    assert reported(plan, "diffusion")["stcl"].lam == 0.7


def test_paths_are_distinct_and_stay_in_place(config):
    plan = Plan(parse(config))
    # 15 reported, 2 + 4 tuning, 2 Krylov steps, 2 grids of 2 sketches, 1 other form, 1 badly conditioned, 3 long
    assert len(plan.cells) == 15 + 6 + 2 + 4 + 1 + 1 + 3
    assert "diffusion/N16/stcl/lamselected/seed0" in plan.cells
    assert "diffusion-n12-q1/N16/stcl/lam1/seed0" in plan.cells
    assert not any(".." in path or path.startswith("/") for path in plan.cells)


def test_fno_does_not_depend_on_the_basis_and_the_others_do(config):
    before = Plan(parse(config))
    config["problems"]["diffusion"]["basis"] = "white"
    after = Plan(parse(config))
    cells = reported(before, "diffusion")
    assert before.train_spec(cells["fno"]) == after.train_spec(cells["fno"])
    assert before.train_spec(cells["stcl"]) != after.train_spec(cells["stcl"])
    assert before.bank_spec("diffusion", "train") != after.bank_spec("diffusion", "train")
    assert before.bank_spec("diffusion", "test") == after.bank_spec("diffusion", "test")


def test_a_bank_covers_the_largest_training_set_also_of_a_long_run(config):
    config["problems"]["diffusion"]["methods"]["stcl"] = {"lambda": 1.0}
    config["problems"]["diffusion"]["train_sizes"] = [8]
    config["studies"] = {"long_runs": {"diffusion": {"n_train": 12, "epochs": 4}}}
    config["selection"] = "fixed"
    del config["problems"]["burgers"]
    assert Plan(parse(config)).bank_spec("diffusion", "train").samples == 12


@pytest.mark.parametrize(("samples", "stored"), [(None, (8, 12)), (16, (16, 16)), (4, (8, 12))])
def test_a_bank_made_for_a_larger_training_set_stays_when_one_is_added(config, samples, stored):
    config["problems"]["diffusion"]["bank"]["samples"] = samples
    found = []
    for sizes in ([8], [8, 12]):
        config["problems"]["diffusion"]["train_sizes"] = sizes
        config["studies"] = {}
        plan = Plan(parse(config))
        found.append(plan.bank_spec("diffusion", "train"))
        assert plan.bank_spec("diffusion", "test").samples == config["problems"]["diffusion"]["samples"]["test"]
    assert tuple(spec.samples for spec in found) == stored
    assert (found[0] == found[1]) == (samples == 16)


def test_an_ablation_differs_from_its_problem_in_what_it_varies(config):
    plan = Plan(parse(config))

    def spec(block):
        (cell,) = plan.final_cells([plan.blocks[block]])
        return plan.train_spec(cell).json_dict()

    two = spec("helmholtz-m2")
    assert (two["settings"]["form"]["steps"], two["lam"]) == (2, 0.5)
    two["settings"]["form"]["steps"] = 1
    assert two == spec("helmholtz-m1")

    fine, coarse = spec("diffusion-n13-q1"), spec("diffusion-n12-q1")
    assert (fine["options"]["n"], coarse["options"]["n"]) == (13, 12)
    assert fine["training"].pop("gradient_variance")
    main = plan.train_spec(reported(plan, "diffusion")["stcl"]).json_dict()
    assert not main["training"].pop("gradient_variance")
    assert fine == main | {"settings": main["settings"] | {"q": 1}, "lam": 1.0}
    assert spec("diffusion-n13-q0")["method"] == "fno"

    target = spec("diffusion-form-target")
    assert target["settings"]["form"]["name"] == "krylov_target"
    assert target["settings"]["weighting"]["floor"] == 1e-3
    varied = {key: target["settings"][key] for key in ("form", "weighting")}
    assert not target["training"].pop("gradient_variance")
    assert target == main | {"settings": main["settings"] | varied, "lam": 1.0}


LAPLACE = {"name": "preconditioned_residual", "metric": {"name": "inverse_laplacian"}}


def ablation(config, **study):
    config["studies"]["conditioning_ablation"] = {"diffusion": {"n_train": 16} | study}
    return Plan(parse(config))


def test_a_form_of_the_ablation_differs_from_the_main_cell_in_the_form_alone(config):
    plan = Plan(parse(config))
    (raw,) = plan.final_cells(plan.ablation_blocks)
    assert raw.path == "helmholtz-ablation-raw/N8/stcl/lam0.5/seed0"
    spec, main = plan.train_spec(raw).json_dict(), plan.train_spec(reported(plan, "helmholtz")["stcl"]).json_dict()
    assert spec["settings"].pop("form") == {"name": "residual", "detach_state": True}
    assert main["settings"].pop("form")["name"] == "krylov_target"
    assert spec == main
    assert plan.blocks["helmholtz-ablation-raw"].dataset == "helmholtz"


def test_the_ablation_follows_the_lambda_that_validation_chooses(config):
    plan = ablation(config, forms={"raw": {"name": "residual"}, "own": LAPLACE})
    assert {name: block.name for name, block in plan.ablation["diffusion"].items()} == {
        "raw": "diffusion-ablation-raw",
        "own": "diffusion",
    }
    (raw,) = plan.final_cells(plan.ablation_blocks)
    assert raw.lam == SELECTED
    assert plan.decision(raw) == "diffusion/N16/stcl"


@pytest.mark.parametrize(
    ("lam", "shown"),
    [
        (0.7, {"own": "diffusion", "target": "diffusion-ablation-target"}),
        (1.0, {"own": "diffusion-ablation-own", "target": "diffusion-form-target"}),
    ],
)
def test_a_form_is_trained_again_only_with_another_lambda(config, lam, shown):
    """The problem's own form has λ = 0.7 here, the target of `forms` has λ = 1."""
    config["problems"]["diffusion"]["methods"]["stcl"] |= {"lambda": 0.7, "lambda_grid": None}
    target = config["studies"]["forms"]["diffusion"]
    del target["weighting"]
    plan = ablation(config, forms={"own": LAPLACE} | target["forms"], **{"lambda": lam})
    assert {name: block.name for name, block in plan.ablation["diffusion"].items()} == shown
    specs = [plan.train_spec(cell).canonical() for cell in plan.final_cells(plan.blocks.values())]
    assert len(plan.ablation_blocks) == 1
    assert len(set(specs)) == len(specs)
    # whatever trains it, the problem's own form is measured once
    assert plan.measured_block(plan.ablation["diffusion"]["own"]) == "diffusion"
    assert plan.measured_block(plan.ablation["diffusion"]["target"]) == shown["target"]


def test_a_form_with_other_settings_is_another_training(config):
    """The target of `forms` has a floor of its own in this study."""
    target = config["studies"]["forms"]["diffusion"]["forms"]
    plan = ablation(config, forms=target, **{"lambda": 1.0})
    assert plan.ablation["diffusion"]["target"].name == "diffusion-ablation-target"


def test_every_form_of_the_ablation_is_measured_at_the_same_states(config):
    plan = Plan(parse(config))
    own, raw = (plan.conditioning_spec(name).json_dict() for name in ("helmholtz", "helmholtz-ablation-raw"))
    assert (own.pop("form")["name"], raw.pop("form")["name"]) == ("krylov_target", "residual")
    assert own == raw
    assert modules.of_conditioning(plan, "helmholtz-ablation-raw") == [
        "stcl.stages.conditioning",
        "stcl.problems.helmholtz",
        "stcl.losses.forms.residual",
    ]


@pytest.mark.parametrize(("study", "trainings"), [("config.yaml", 10), ("paper.yaml", 18)])
def test_the_ablation_has_three_problems_with_three_forms(study, trainings):
    plan = Plan(parse(yaml.safe_load((CONFIG / study).read_text())))
    assert {problem: len(forms) for problem, forms in plan.ablation.items()} == dict.fromkeys(
        ("helmholtz", "diffusion", "navier_stokes"), 3
    )
    assert len(plan.final_cells(plan.ablation_blocks)) == trainings
    for problem, forms in plan.ablation.items():
        n = plan.config.studies.conditioning_ablation[problem].n_train
        lams = {c.lam for c in plan.final_cells(forms.values()) if c.method == "stcl" and c.n_train == n}
        assert len(lams) == 1
        assert problem in {block.name for block in forms.values()}


def test_timing_leaves_the_gradient_variance_out(config):
    specs = Plan(parse(config)).timing_spec("sketch_runtime").cells
    assert set(specs) == {"diffusion-n13-q0/N16/fno/lam0/seed0", "diffusion-n13-q1/N16/stcl/lam1/seed0"}
    assert not any(spec.training.gradient_variance for spec in specs.values())


def test_a_timed_training_does_not_end_early(config):
    plain = Plan(parse(config)).timing_spec("diffusion")
    config["problems"]["diffusion"]["training"]["finish_after"] = 2
    plan = Plan(parse(config))
    assert plan.timing_spec("diffusion") == plain
    assert {plan.train_spec(cell).training.finish_after for cell in plan.shown_cells("diffusion")} == {2}


def test_the_paper_holds_every_cell_of_its_tables():
    published = yaml.safe_load((CONFIG / "published.yaml").read_text())
    plan = Plan(parse(yaml.safe_load((CONFIG / "paper.yaml").read_text())))
    cells = plan.final_cells(plan.problem_blocks)
    expected = {
        (problem, n, method)
        for problem, sizes in published["field_error"].items()
        for n, methods in sizes.items()
        for method in methods
    }
    assert {(plan.blocks[c.block].problem, c.n_train, c.method) for c in cells} == expected
    burgers = {key for key in expected if key[0] == "burgers"}
    assert len(cells) == 3 * (len(expected) + len(burgers))  # burgers is there with two schemes
    for cell in cells:
        if cell.method != "fno":
            settings = published["per_cell_settings"][plan.blocks[cell.block].problem]
            chosen = getattr(plan.config.problems[cell.block].methods, cell.method)
            assert cell.lam == settings[cell.method][cell.n_train]
            assert chosen.lambda_grid == settings["grid"]
            assert plan.config.problems[cell.block].bank.train == settings["bank"]
    steps = [dict(block.variant)["steps"] for block in plan.minres_blocks]
    assert steps == list(published["minres_iterations"])
    variants = {(dict(b.variant)["grid"], dict(b.variant)["q"]) for b in plan.sketch_blocks}
    assert variants == {(grid, q) for grid, counts in published["sketch_resolution"].items() for q in counts}


def test_the_paper_trains_nothing_twice():
    """Its long run of Navier-Stokes is that of the main table, whose cells the figure takes."""
    plan = Plan(parse(yaml.safe_load((CONFIG / "paper.yaml").read_text())))
    specs = [plan.train_spec(cell).canonical() for cell in plan.cells.values()]
    assert len(set(specs)) == len(specs)
    shown = [cell for cell in plan.convergence_cells() if plan.blocks[cell.block].key == "navier_stokes"]
    assert [(c.block, c.n_train, c.method, c.seed) for c in shown] == [
        ("navier_stokes", 2048, method, 0) for method in ("fno", "offline_di", "stcl")
    ]
    assert {"burgers-long", "burgers_published-long"} <= set(plan.blocks)


@pytest.mark.parametrize(("n_train", "epochs", "built"), [(8, 3, False), (8, 4, True), (4, 3, True)])
def test_a_long_run_that_is_a_main_training_is_taken_from_there(config, n_train, epochs, built):
    """The figure's cells have the specs that were asked for, whether or not they have a block of their own."""
    config["studies"] = {"long_runs": {"helmholtz": {"n_train": n_train, "epochs": epochs}}}
    config |= {"seeds": [2, 1], "selection": "fixed"}
    plan = Plan(parse(config))
    assert ("helmholtz-long" in plan.blocks) == built
    specs = [plan.train_spec(cell) for cell in plan.convergence_cells() if cell.block.startswith("helmholtz")]
    found = [(spec.method, spec.n_train, spec.training.epochs, spec.seed) for spec in specs]
    assert found == [(method, n_train, epochs, 2) for method in ("fno", "offline_di", "stcl")]


def test_the_seeds_of_a_choice_are_those_of_the_problem(config):
    config |= {"tune_seeds": [4], "seeds": [0, 1, 2]}
    config["problems"]["diffusion"]["tune_seeds"] = [0, 1, 2]
    plan = Plan(parse(config))
    tuned = [(c.lam, c.seed) for c in plan.tuning_cells("diffusion/N16/stcl")]
    assert tuned == [(lam, seed) for lam in (0.5, 1.0) for seed in (0, 1, 2)]
    assert {c.path for c in plan.tuning_cells("diffusion/N16/stcl")} <= set(plan.cells)
    assert {c.seed for c in plan.tuning_cells("burgers")} == {4}


def test_the_paper_chooses_the_lambda_of_navier_stokes_by_all_seeds():
    plan = Plan(parse(yaml.safe_load((CONFIG / "paper.yaml").read_text()) | {"selection": "validation"}))
    seeds = {decision: {c.seed for c in plan.tuning_cells(decision)} for decision in plan.decisions}
    assert seeds["navier_stokes/N512/stcl"] == {0, 1, 2}
    assert seeds["helmholtz/N512/stcl"] == seeds["burgers_published"] == {0}


def test_the_small_paper_is_a_part_of_the_paper():
    """The same specs but for the early end, so that its numbers may stand beside the published ones.

    What is beyond the labels has no published numbers, and sizes of its own.
    """
    whole, part = (Plan(parse(yaml.safe_load((CONFIG / f"{n}.yaml").read_text()))) for n in ("paper", "paper-small"))
    assert part.cells
    beyond = {block.name for block in part.beyond_blocks}
    for path, cell in part.cells.items():
        if cell.block in beyond:
            continue
        spec = part.train_spec(cell)
        assert spec.training.finish_after == 200
        through = spec.training.model_copy(update={"finish_after": None})
        assert spec.model_copy(update={"training": through}) == whole.train_spec(whole.cells[path])
    # Helmholtz' filter looks at the whole pool, so its training set is a prefix only of the same pool
    assert part.data_spec("helmholtz", "train") == whole.data_spec("helmholtz", "train")
    for dataset in set(part.datasets) - {f"{key}-beyond" for key in part.beyond}:
        assert part.data_spec(dataset, "test") == whole.data_spec(dataset, "test")
        assert part.bank_spec(dataset, "test") == whole.bank_spec(dataset, "test")


BEYOND = {
    "n_train": 16,
    "more": [32, 48],
    "lambda": 1.0,
    "losses": {"solved": {"form": {"name": "solved_target", "solver": {"name": "krylov", "steps": 3}}}},
}


def with_beyond(config, **changes):
    config["studies"] = config["studies"] | {"beyond": {"diffusion": BEYOND | changes}}
    config["problems"]["diffusion"]["methods"]["stcl"].pop("lambda_grid", None)
    return Plan(parse(config))


def test_every_training_that_watches_the_jacobian_error_has_its_bank(config):
    """That of the comparison alone, then those of the problem, of its sketch counts and of the comparison."""
    config["problems"]["diffusion"]["bank"]["val"] = 2
    watched = config["problems"]["diffusion"]["training"] | {"jacobian_every": 1}
    plan = with_beyond(config, training=watched)
    assert [dataset for dataset, split in plan.banks if split == "val"] == ["diffusion-beyond"]
    config["problems"]["diffusion"]["training"] = watched
    plan = with_beyond(config)
    stores = [dataset for dataset, split in plan.banks if split == "val"]
    assert sorted(stores) == ["diffusion", "diffusion-beyond", "diffusion-n12", "diffusion-n13"]


def test_beyond_the_labels_trains_what_is_not_trained_anyway(config):
    """More samples than the problem has need data of their own, which all of the comparison shares."""
    plan = with_beyond(config)
    cells = {cell.path: loss for cell, loss in plan.beyond_cells("diffusion").items()}
    base = [f"diffusion-beyond/N16/{cell}/seed0" for cell in ("fno/lam0", "offline_di/lam1", "stcl/lam1")]
    more = [f"diffusion-beyond-more{n}/N{n}/{c}/seed0" for n in (32, 48) for c in ("fno/lam0", "offline_di/lam1")]
    assert list(cells) == [*base, "diffusion-beyond-solved/N16/stcl/lam1/seed0", *more]
    assert [loss for loss in cells.values() if loss] == ["solved"]
    assert set(cells) <= set(plan.cells)
    assert plan.data_spec("diffusion-beyond", "train").samples == 48
    assert plan.data_spec("diffusion", "train").samples == 16
    assert plan.bank_spec("diffusion-beyond", "train").samples == 48
    assert plan.banks.count(("diffusion-beyond", "train")) == 1
    own, solved = (plan.train_spec(plan.cells[path]).json_dict() for path in (base[2], list(cells)[3]))
    assert solved["settings"].pop("form")["name"] == "solved_target"
    assert own["settings"].pop("form")["name"] == "preconditioned_residual"
    assert own == solved  # they differ in the form alone
    assert [Cell.parse(path).n_train for path in plan.timing_spec("diffusion-beyond").cells] == [16] * 4 + [
        32,
        32,
        48,
        48,
    ]


def test_beyond_the_labels_takes_main_cells_with_the_same_settings(config):
    config["problems"]["diffusion"] |= {"samples": {"train": 48, "val": 8, "test": 8}, "train_sizes": [16, 32, 48]}
    plan = with_beyond(config)
    blocks = [cell.block for cell in plan.beyond_cells("diffusion")]
    assert blocks == ["diffusion"] * 3 + ["diffusion-beyond-solved"] + ["diffusion"] * 4
    assert "diffusion-beyond" not in plan.datasets
    assert [block.name for block in plan.beyond_blocks] == ["diffusion-beyond-solved"]
    longer = with_beyond(config | {"studies": {}}, training={"epochs": 9}, options={"n": 15}, q=1)
    assert {longer.blocks[cell.block].dataset for cell in longer.beyond_cells("diffusion")} == {"diffusion-beyond"}
    specs = [longer.train_spec(cell) for cell in longer.beyond_cells("diffusion")]
    assert {(spec.training.epochs, spec.options["n"], spec.settings.get("q", 1)) for spec in specs} == {(9, 15, 1)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": [16]}, "more: the same value twice"),
        ({"more": [8]}, "8 is not more than n_train = 16"),
        ({"training": {"epochs": 3, "finish_after": 9}}, "beyond.diffusion.training.finish_after: it is more than"),
        ({"q": 99}, "99 directions per update are more than the bank's 8"),
        ({"options": {"n": 5}}, "modes need a grid"),
        ({"losses": {"fresh": {"value": "residual"}}}, "losses.fresh.value: it is for inputs without labels"),
        ({"losses": {"more5": {}}}, "names that begin with `more`"),
        (
            {"losses": {"odd": {"form": {"name": "preconditioned_residual", "metric": {"name": "leray_oseen"}}}}},
            "losses.odd",
        ),
    ],
)
def test_what_cannot_be_compared_beyond_the_labels_is_refused(config, changes, message):
    with pytest.raises(ConfigError, match=message):
        with_beyond(config, **changes)


def test_a_loss_beyond_the_labels_may_have_a_lambda_of_its_own(config):
    config["problems"]["diffusion"]["methods"]["stcl"]["lambda_grid"] = [1.0, 2.0]
    config["selection"] = "validation"
    beyond = BEYOND | {"losses": {"own": {"lambda": 0.25}, "other": {"q": 1}}, "lambda": 3.0}
    config["studies"] = config["studies"] | {"beyond": {"diffusion": beyond}}
    plan = Plan(parse(config))
    cells = {loss or cell.method: cell.lam for cell, loss in plan.beyond_cells("diffusion").items()}
    assert cells == {"fno": None, "offline_di": 3, "stcl": 3, "own": 0.25, "other": 3}


@pytest.mark.parametrize("given", [{"lambda": {16: 0.5}}, {"lambda": 0.5, "lambda_grid": [0.5, 1.0]}, {"lambda": 0.5}])
def test_each_method_beyond_the_labels_has_its_own_lambda_if_the_study_has_none(config, given):
    """A number is λ for every N, but a table has λ for its own, and validation chooses it for those of the problem."""
    config["problems"]["diffusion"]["methods"]["offline_di"] |= given
    config["selection"] = "validation" if "lambda_grid" in given else "fixed"
    if given != {"lambda": 0.5}:
        with pytest.raises(
            ConfigError, match=r"that of offline_di is known for N in \[16\], not for all of \[16, 32, 48\]"
        ):
            with_beyond(config, **{"lambda": None})
        return
    plan = with_beyond(config, **{"lambda": None})
    assert {(c.method, c.lam) for c in plan.beyond_cells("diffusion")} == {
        ("fno", None),
        ("offline_di", 0.5),
        ("stcl", 1),
    }
