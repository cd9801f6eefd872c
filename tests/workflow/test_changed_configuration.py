"""What a change of the configuration reruns, by real dry runs whose planned jobs are counted."""

import pytest
import yaml
from plans import DRAWN, DRAWN_WITH_SKETCH, EVERYTHING, RETRAINED, changed

pytestmark = pytest.mark.workflow


def test_a_fresh_copy_plans_everything(empty):
    assert empty.planned() == EVERYTHING


def test_beyond_the_labels_has_data_and_cells_of_its_own(empty):
    """Three methods, one more loss, and two methods with more samples than the problem has."""
    loss = {"form": {"name": "solved_target", "solver": {"name": "krylov"}}}
    study = {"diffusion": {"n_train": 16, "more": [32], "lambda": 1.0, "losses": {"solved": loss}}}
    added = {"dataset": 3, "bank": 2, "train": 3 + 1 + 2, "evaluate": 3, "timing": 1, "table": 1, "figure": 1}
    everything = {rule: count + added.get(rule, 0) for rule, count in EVERYTHING.items()}
    assert empty.planned(config=changed(empty.config, "studies.beyond", study)) == everything


def test_a_built_copy_plans_nothing(built):
    assert built.planned() == {}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        # sketches have grids of their own
        (
            "problems.diffusion.options.n",
            15,
            {"dataset": 3, "bank": 2, "train": 6, "evaluate": 2, "select": 1, "timing": 1, "by_problem": 1, "table": 6}
            | DRAWN,
        ),
        # the fno cells are not trained: those of the problem, and q = 0
        (
            "problems.diffusion.basis",
            "white",
            RETRAINED | DRAWN_WITH_SKETCH | {"bank": 1, "train": 4 + 2 + 1, "evaluate": 1 + 2 + 1},
        ),
        (
            "problems.diffusion.methods.stcl.lambda_grid",
            [0.5, 1.0, 2.0],
            {"train": 2, "select": 1, "evaluate": 1, "by_problem": 1, "table": 5} | DRAWN,
        ),
        (
            "selection",
            "fixed",
            {"evaluate": 2, "by_problem": 2, "table": 5} | {"figure": 5},  # trained when tuning; samples of two
        ),
        ("problems.diffusion.training.epochs", 4, RETRAINED | DRAWN_WITH_SKETCH),
        (
            "seeds",
            [0, 1],
            {"train": 23, "evaluate": 5 + 2 + 4 + 1 + 1, "inverse": 1, "by_problem": 5, "table": 3 + 1 + 2 + 1 + 1 + 2}
            | {"figure": 4 + 1},
        ),
        (
            "studies.minres_iterations.steps",
            [1, 2, 3],
            {"train": 1, "evaluate": 1, "timing": 1, "by_problem": 1, "table": 2},
        ),
        (
            "studies.sketch_count.q",
            [0, 1, 2],
            {"train": 2, "evaluate": 2, "timing": 1, "by_problem": 1, "table": 4, "figure": 1},
        ),
        ("studies.sketch_count.first_epoch", 1, {"table": 2, "figure": 1}),
        (
            "studies.forms.diffusion.forms.target.steps",
            3,
            {"train": 1, "evaluate": 1, "by_problem": 1, "table": 1},
        ),
        (
            "studies.inverse.navier_stokes.noise",
            0.2,
            {"inverse_reference": 1, "inverse": 1, "table": 1, "figure": 1},
        ),
        ("studies.inverse.navier_stokes.sampling.steps", 12, {"inverse": 1, "table": 1, "figure": 1}),
        ("studies.long_runs.helmholtz.epochs", 5, {"train": 3, "figure": 1}),
        (
            "studies.conditioning_ablation.helmholtz.forms.raw.detach_state",
            False,
            {"train": 1, "evaluate": 1, "conditioning": 1, "by_problem": 1, "table": 1, "figure": 1},
        ),
        ("studies.conditioning.samples", 2, {"conditioning": 3, "table": 2, "figure": 1}),
        ("timing.epochs", 2, {"timing": 7, "table": 4, "figure": 2}),
        ("figures", {"dpi": 99}, {"figure": 11}),
        ("figures", {"colormap": "magma"}, {"figure": 6}),
        ("figures", {"smooth": False}, {"figure": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_of_the_configuration(built, path, value, expected):
    assert built.planned(config=changed(built.config, path, value)) == expected | {"report": 1}


def test_the_jacobian_error_on_validation_data_needs_one_more_bank(built):
    """Helmholtz' cells, those of its ablation and its long run are trained anew, with the bank as an input."""
    config = changed(built.config, "problems.helmholtz.training.jacobian_every", 1)
    planned = built.planned(config=changed(config, "problems.helmholtz.bank.val", 2))
    assert planned["bank"] == 1
    assert "dataset" not in planned
    assert planned.get("timing", 0) == 0  # what is timed is the plain training
    assert planned["train"] == 3 + 2 + 1 + 3


def test_more_seeds_of_a_choice_are_inputs_of_its_decision_alone(built):
    """The other seed is trained for both λ."""
    config = changed(built.config, "problems.diffusion.tune_seeds", [0, 1])
    assert built.planned("results/tiny/select/diffusion/N16/stcl.json", config=config) == {"train": 2, "select": 1}
    assert built.planned("results/tiny/select/burgers.json", config=config) == {}


def test_a_variant_reruns_no_dataset_and_no_training_of_what_is_there(built):
    config = changed(built.config, "problems.burgers_published", built.config["problems"]["burgers"])
    config = changed(config, "problems.burgers_published.problem", "burgers")
    config = changed(config, "problems.burgers_published.options.scheme", "three_sweep")
    added = {"dataset": 3, "bank": 2, "train": 3 + 4, "evaluate": 1, "select": 1, "timing": 1, "by_problem": 1}
    # the tables of all problems, convergence, spread, ledger, and the samples of the variant
    assert built.planned(config=config) == added | {"table": 5, "figure": 4, "report": 1}


def test_reordered_yaml_reruns_nothing(built):
    def reordered(node):
        return {k: reordered(node[k]) for k in reversed(node)} if isinstance(node, dict) else node

    config = reordered(built.config)
    assert yaml.safe_dump(config, sort_keys=False) != yaml.safe_dump(built.config, sort_keys=False)
    assert built.planned(config=config) == {}


def test_one_table_is_a_target(built):
    config = changed(built.config, "figures", {"dpi": 99})
    assert built.planned("results/tiny/tables/field_error.md", config=config) == {}


def test_one_figure_is_a_target(built):
    config = changed(built.config, "figures", {"dpi": 99})
    for name in ("spread.png", "samples/burgers.pdf"):
        assert built.planned(f"results/tiny/figures/{name}", config=config) == {"figure": 1}


def test_evaluations_of_single_cells(changeable):
    """What was measured is not measured again, neither with a new seed nor beside a cell that is trained again.

    Together or not, the errors are the same, but the jobs differ.
    """
    errors = [f"results/tiny/runs/diffusion/N16/{run}/seed0/errors.json" for run in ("fno/lam0", "offline_di/lam1")]
    together = [(changeable.folder / path).read_text() for path in errors]
    config = changed(changeable.config, "evaluation.jobs", "cell")
    assert changeable.planned(*errors, config=config) == {"evaluate": 2}
    code, output = changeable.run(*errors, config=config)
    assert code == 0, output
    assert [(changeable.folder / path).read_text() for path in errors] == together

    new = [path.replace("seed0", "seed1") for path in errors]
    seeds = changed(config, "seeds", [0, 1])
    assert changeable.planned(*errors, *new, config=seeds) == {"train": 2, "evaluate": 2}
    again = ("-R", errors[0].replace("errors", "train"))
    assert changeable.planned(*errors, *again, config=config) == {"train": 1, "evaluate": 1}
    assert changeable.planned(*errors) == {"evaluate": 1}


def test_rebuilding_a_producer_alone_makes_its_consumers_stale(changeable):
    """The consumers' own specs do not change here: only the manifest tells them."""
    config = changed(changeable.config, "problems.diffusion.samples.train", 17)
    code, output = changeable.run("results/tiny/data/diffusion/train.json", config=config)
    assert code == 0, output
    run = "results/tiny/runs/diffusion/N16/fno/lam0/seed0/train.json"
    assert changeable.planned(run, config=config) == {"train": 1}
