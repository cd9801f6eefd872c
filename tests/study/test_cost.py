"""Estimates of a small study against numbers worked out by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from cost_study import PUBLISHED, SOLVERS, STUDY, estimate, timing

from stcl.operators.build import build_surrogate
from stcl.operators.fno import FNO
from stcl.operators.settings import Network
from stcl.runtime import checkpoint, stores
from stcl.stages import bank as labels
from stcl.stages import data
from stcl.study.cells import Cell
from stcl.study.config import parse
from stcl.study.cost import Step, fno_parameters, layout

PROJECT = Path(__file__).parents[2]


def seconds(found, method, n=40):
    lam = None if method == "fno" else 1.0
    return found.training_seconds(Cell("diffusion", n, method, lam, 0))


def test_trainings_are_scaled_from_the_published_updates():
    found = estimate()
    # half the samples and half the nodes; 5 epochs of 3 and 5 updates; the derivative part with 2/4 and 8/4 directions
    assert seconds(found, "fno", 20) == pytest.approx(15 * 0.25 * 1)
    assert seconds(found, "offline_di") == pytest.approx(25 * 0.25 * (1 + 2 * 0.5))
    assert seconds(found, "stcl") == pytest.approx(25 * 0.25 * (1 + 4 * 2))


def test_a_problem_with_everything_that_belongs_to_it():
    (row,) = estimate().rows()
    assert (row["trainings"], row["updates"]) == (2 * 3 * 2, 2 * 3 * (15 + 25))
    assert row["gpu_hours"] == pytest.approx(2 * 40 * 0.25 * (1 + 2 + 9) / 3600)
    assert row["cpu_hours"] == pytest.approx((60 * 0.1 + (40 * 7 + 10 * 3) * 0.02) / 3600)
    assert row["data_bytes"] == 60 * 2 * 169 * 4
    assert row["bank_bytes"] == 4 * 169 * (40 * 7 + 7 + 10 * 3 + 3)


def test_the_longest_chain():
    names = [step.name for step in estimate().longest_chain()]
    assert names == ["data", "sTCL of diffusion with N = 40"]
    assert sum(step.seconds for step in estimate().longest_chain()) == pytest.approx(40 * 0.1 + 25 * 0.25 * 9)
    slow = {"diffusion": SOLVERS["diffusion"] | {"tangent": 4.0}}
    data_step, bank, training = estimate(solvers=slow).longest_chain()
    assert (data_step, bank.name) == (Step("data", pytest.approx(4.0)), "tangents")
    assert bank.seconds == pytest.approx(40 * 7 * 2.0)
    assert training == Step("Offline DI of diffusion with N = 40", pytest.approx(12.5))


def test_a_choice_of_lambda_comes_before_the_training():
    methods = {"fno": {}, "stcl": {"lambda_grid": [0.1, 1.0], "q": 8}}
    problem = STUDY["problems"]["diffusion"] | {"methods": methods}
    found = estimate(STUDY | {"selection": "validation", "problems": {"diffusion": problem}})
    (row,) = found.rows()
    assert row["trainings"] == 2 * 2 * 2 + 2 * 2  # two N, two methods, two seeds; two λ with one seed for each N
    assert [step.seconds for step in found.longest_chain()] == pytest.approx([4.0, 56.25, 56.25])


def test_krylov_steps_take_time_in_a_straight_line():
    form = {"name": "krylov_target", "steps": 3, "metric": {"name": "inverse_laplacian"}}
    problem = STUDY["problems"]["diffusion"] | {"methods": {"stcl": {"lambda": 1.0, "q": 4, "form": form}}}
    runs = PUBLISHED["wallclock_runs"] | {"steps": {"diffusion": 5}}
    found = estimate(STUDY | {"problems": {"diffusion": problem}}, PUBLISHED | {"wallclock_runs": runs})
    assert seconds(found, "stcl") == pytest.approx(25 * 0.25 * 5 * 140 / 180)  # 100 + 2 · 80/4 of 180, not the 150


def test_batches_without_labels_take_passes_of_their_own():
    """Of 5 s, 1 is the labelled pass and 4 are the tangents of a batch; a batch of unlabelled inputs takes 1 + 4."""
    found = {}
    for inputs, batch in (("unlabelled", None), ("both", None), ("both", 4)):
        stcl = {"lambda": 1.0, "q": 4, "inputs": inputs, "unlabelled_batch": batch}
        problem = STUDY["problems"]["diffusion"] | {"methods": {"fno": {}, "stcl": stcl}}
        study = STUDY | {"problems": {"diffusion": problem}}
        found[inputs, batch] = seconds(estimate(study), "stcl") / (25 * 0.25)
        timings = timing({"fno": 10.0, "stcl": 90.0}, study)
        assert seconds(estimate(study, timings=timings), "stcl") == pytest.approx(5 * 90.0)
    assert found == pytest.approx({("unlabelled", None): 1 + 5, ("both", None): 5 + 5, ("both", 4): 5 + 2.5})


def test_measured_epochs_replace_published_times():
    found = estimate(timings=timing({"fno": 10.0, "offline_di": 20.0, "stcl": 30.0}))
    assert seconds(found, "stcl") == pytest.approx(5 * 30.0)
    assert seconds(found, "fno", 20) == pytest.approx(5 * 10.0 * 3 / 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("options", {"n": 17}),
        ("network", {"modes": 4, "width": 16, "layers": 2, "head": 16}),
        ("training", {"epochs": 5, "batch": 4}),
        ("methods", {"fno": {}, "offline_di": {"lambda": 1.0, "q": 2}, "stcl": {"lambda": 1.0, "q": 4}}),
        ("train_sizes", [10, 20]),
    ],
)
def test_times_of_other_settings_do_not_count(key, value):
    """A record is of the settings that it was measured with. One that does not say them is of an earlier version."""
    timings = timing({"fno": 10.0, "offline_di": 20.0, "stcl": 30.0})
    study = STUDY | {"problems": {"diffusion": STUDY["problems"]["diffusion"] | {key: value}}}
    assert estimate(study, timings=timings).rows() == estimate(study).rows()
    silent = {name: {k: v for k, v in record.items() if k != "spec"} for name, record in timings.items()}
    assert estimate(timings=silent).rows() == estimate().rows() != estimate(timings=timings).rows()


def test_a_variant_takes_the_times_of_its_problem_until_it_has_its_own():
    problem = STUDY["problems"]["diffusion"]
    study = STUDY | {"problems": {"diffusion": problem, "diffusion_b": problem | {"problem": "diffusion"}}}
    found = estimate(study)
    rows = found.rows()
    assert [row.pop("problem") for row in rows] == ["diffusion", "diffusion_b"]
    assert rows[0] == rows[1] == {k: v for k, v in estimate().rows()[0].items() if k != "problem"}
    timings = timing({"fno": 10.0, "offline_di": 20.0, "stcl": 30.0}, study, "diffusion_b")
    found = estimate(
        study, timings=timings, solvers=SOLVERS | {"diffusion_b": SOLVERS["diffusion"] | {"response": 2.0}}
    )
    assert seconds(found, "fno") == pytest.approx(25 * 0.25)
    assert found.training_seconds(Cell("diffusion_b", 40, "fno", None, 0)) == pytest.approx(50.0)
    assert found.data_seconds("diffusion_b", "train") == pytest.approx(10 * found.data_seconds("diffusion", "train"))


def test_disk_is_what_stores_hold(tmp_path):
    """Burgers' solver takes its input on another grid than the network, and both are stored."""
    options = {"nx": 12, "nt": 12, "solver_nx": 24, "solver_nt": 24, "probe_nt": 24}
    problem = STUDY["problems"]["diffusion"] | {"options": options, "samples": {"train": 40, "val": 10, "test": 4}}
    found = estimate(STUDY | {"problems": {"burgers": problem}})
    spec, bank = (f("burgers", "test") for f in (found.plan.data_spec, found.plan.bank_spec))
    data.generate(spec, tmp_path / "data.json", tmp_path / "work", "", workers=1)
    labels.generate(bank, tmp_path / "data.json", tmp_path / "bank.json", tmp_path / "work", "", workers=1)
    pairs, tangents = stores.read(tmp_path / "data.json"), stores.read(tmp_path / "bank.json")
    assert found.data_bytes("burgers", "test") == sum(pairs[name].nbytes for name in ("a", "u", "solver_input"))
    assert found.bank_bytes("burgers", "test") == tangents["w"].nbytes + tangents["v"].astype(np.float32).nbytes


@pytest.mark.parametrize(
    ("channels", "responses", "network"),
    [
        (3, 1, {}),
        (3, 1, {"width": 8, "modes": 3, "layers": 2, "head": 5}),
        (4, 3, {"width": 7, "modes": 4, "layers": 3, "head": 16}),
        (5, 2, {"width": 6, "modes": 1, "layers": 2, "head": 1}),
    ],
)
def test_parameters_are_counted_as_the_network_has_them(channels, responses, network):
    settings = Network(**network)
    built = FNO(channels, responses, **settings.model_dump(exclude={"standardise"}))
    assert fno_parameters(channels, responses, settings) == sum(p.numel() for p in built.parameters())


def test_an_estimate_loads_no_torch():
    code = "import sys, cost_study; cost_study.estimate().rows(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def test_weights_are_what_a_checkpoint_holds(tmp_path):
    found = estimate()
    block = found.plan.blocks["diffusion"]
    weights = build_surrogate(layout(block), block.settings.network).state_dict()
    checkpoint.save(tmp_path / "weights.pt", weights)
    assert found.weight_bytes["diffusion"] == pytest.approx((tmp_path / "weights.pt").stat().st_size, abs=10_000)
    assert found.rows()[0]["weight_bytes"] == 12 * found.weight_bytes["diffusion"]


def test_the_paper_at_its_own_sizes_takes_the_published_time():
    """N = 512 of each problem, as it stands in the paper's table."""
    published, solvers, config = (
        yaml.safe_load((PROJECT / f"config/{name}.yaml").read_text()) for name in ("published", "solvers", "paper")
    )
    parsed = parse(config)
    assert parse(json.loads(json.dumps(parsed.model_dump(mode="json", by_alias=True)))) == parsed
    found = estimate(config, published, solvers)
    for problem, methods in published["wallclock"].items():
        cells = {c.method: c for c in found.plan.final_cells([found.plan.blocks[problem]]) if c.n_train == 512}
        for method, value in methods.items():
            assert found.training_seconds(cells[method]) == pytest.approx(value), (problem, method)
