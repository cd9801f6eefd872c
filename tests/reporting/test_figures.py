"""What the figures show, read back from their axes, against numbers worked out by hand."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from stcl import problems
from stcl.operators.build import build_surrogate
from stcl.operators.settings import Network
from stcl.reporting.figures import (
    beyond,
    conditioning_ablation,
    convergence,
    graph,
    inverse,
    ledger,
    rulegraph,
    samples,
    sketch_tradeoff,
    spread,
)
from stcl.reporting.figures.style import COLOURS, plt, save
from stcl.runtime import checkpoint, stores
from stcl.stages import bank, data, inverse_reference
from stcl.study.inversions import Inversions
from stcl.study.specs.bank import BankSpec
from stcl.study.specs.data import DataSpec
from stcl.study.specs.inverse import InverseReferenceSpec


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def run(tmp_path):
    def write(block, method, seed=0, history=(), field=(), jacobian=(), problem=None):
        folder = tmp_path / f"results/p/runs/{block}/N8/{method}/lam1/seed{seed}"
        folder.mkdir(parents=True)
        spec = {"problem": problem or block, "n_train": 8, "method": method}
        (folder / "train.json").write_text(json.dumps({"spec": spec}))
        (folder / "errors.json").write_text(json.dumps({"spec": spec}))
        np.savez(folder / "errors.npz", field=np.array(field), jacobian=np.array(jacobian))
        rows = [",".join(map(str, (epoch, *values))) for epoch, values in enumerate(history, start=1)]
        names = ["epoch", "data", "val_mse", "val_relative", "val_jacobian"][: 1 + len([*history, (0, 0)][0])]
        (folder / "history.csv").write_text("\n".join([",".join(names), *rows]))
        return folder

    return write


def table(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def curve(ax, colour, style):
    return next(line for line in ax.lines if line.get_color() == colour and line.get_linestyle() == style)


def test_training_is_dashed_and_validation_solid(run):
    fno = run("helmholtz", "fno", history=[(4.0, 5.0), (2.0, 3.0)])
    stcl = run("helmholtz", "stcl", history=[(1.0, 1.5), (0.5, 0.7)])
    figure = convergence.draw({"relative": [], "smooth": True}, [fno / "train.json", stcl / "train.json"])
    ax = figure.axes[0]
    assert ax.get_title() == "Helmholtz, N = 8"
    assert list(curve(ax, COLOURS["fno"], "--").get_ydata()) == [4.0, 2.0]
    assert list(curve(ax, COLOURS["stcl"], "-").get_ydata()) == [1.5, 0.7]
    assert not [line for line in ax.lines if line.get_linestyle() == ":"]


def test_a_variant_has_a_panel_of_its_own_and_a_long_run_that_of_its_problem(run):
    blocks = {"burgers-long": 4.0, "burgers_published": 2.0}
    runs = [run(block, "fno", history=[(e, e)], problem="burgers") / "train.json" for block, e in blocks.items()]
    axes = convergence.draw({"relative": [], "smooth": True}, runs).axes
    titles = ["Burgers, N = 8", "Burgers (published), N = 8"]
    assert [ax.get_title() for ax in axes] == titles
    assert [list(curve(ax, COLOURS["fno"], "-").get_ydata()) for ax in axes] == [[4.0], [2.0]]


def test_a_training_that_ended_early_has_a_shorter_curve(run):
    lengths = {"fno": 501, "stcl": 750}
    runs = [run("burgers", m, history=[(1.0, 1.0)] * epochs) / "train.json" for m, epochs in lengths.items()]
    (ax,) = convergence.draw({"relative": [], "smooth": True}, runs).axes
    ends = [curve(ax, COLOURS[method], "-").get_xdata()[-1] for method in lengths]
    assert ends == [500, 749]  # windows of three epochs


@pytest.mark.parametrize(("epochs", "marked"), [(500, 0), (502, 1)])
def test_only_what_is_longer_has_epoch_500_marked(run, epochs, marked):
    run_ = run("burgers", "fno", history=[(float(e), 1.0) for e in range(epochs)])
    ax = convergence.draw({"relative": [], "smooth": True}, [run_ / "train.json"]).axes[0]
    lines = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert len(lines) == marked
    assert all(list(line.get_xdata()) == [500, 500] for line in lines)
    window = -(-epochs // convergence.POINTS)
    assert curve(ax, COLOURS["fno"], "--").get_ydata()[0] == np.mean(range(window))


@pytest.mark.parametrize(
    ("smooth", "shown", "label"),
    [(True, [1.5, 3.5], "Epoch, means over 2"), (False, [1.0, 2.0], "Epoch")],
)
def test_long_curves_are_averaged_unless_every_epoch_is_asked_for(run, smooth, shown, label):
    folder = run("burgers", "fno", history=[(1.0, float(e)) for e in range(1, 301)])
    ax = convergence.draw({"relative": [], "smooth": smooth}, [folder / "train.json"]).axes[0]
    assert list(curve(ax, COLOURS["fno"], "-").get_ydata()[:2]) == shown
    assert ax.get_xlabel() == label


def test_relative_panels_show_the_mean_relative_error_of_validation_alone(run):
    folder = run("allen_cahn", "fno", history=[(0.09, 0.04, 0.31), (0.08, 0.03, 0.22)])
    figure = convergence.draw({"relative": ["allen_cahn"], "smooth": True}, [folder / "train.json"])
    ax = figure.axes[0]
    assert [list(line.get_ydata()) for line in ax.lines] == [[0.31, 0.22]]
    assert ax.get_ylabel() == "Relative error"
    assert [text.get_text() for text in figure.legends[0].texts] == ["FNO", "validation"]


def test_recorded_jacobian_errors_have_an_axis_of_their_own(run):
    history = [(9, 8, 7, 0.5), (9, 8, 7, ""), (9, 8, 7, 0.25)]
    inputs = [run("burgers", "stcl", history=history), run("burgers", "fno", history=[(9, 8, 7)] * 3)]
    figure = convergence.draw({"relative": [], "smooth": True}, [folder / "train.json" for folder in inputs])
    left, right = figure.axes
    assert len(left.lines) == 4
    (line,) = right.lines
    assert (line.get_color(), line.get_linestyle()) == (COLOURS["stcl"], ":")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 3], [0.5, 0.25])
    assert right.get_ylabel() == "Jacobian error"


def test_samples_show_each_method_beside_the_references(tmp_path):
    """The order of the inputs does not matter: methods stand in the order of the tables."""
    spec = DataSpec(problem="diffusion", options={"n": 8}, split="test", samples=2)
    manifests = [tmp_path / "data.json", tmp_path / "bank.json"]
    data.generate(spec, manifests[0], tmp_path / "work", "", workers=1)
    labels = BankSpec(**spec.json_dict(), directions=3, basis="prior", check=True)
    bank.generate(labels, manifests[0], manifests[1], tmp_path / "work", "", workers=1)
    layout = problems.load("diffusion", n=8).layout
    network = Network(width=4, modes=2, layers=2, head=4)
    runs = []
    for method in ("stcl", "fno"):
        runs.append(tmp_path / f"{method}/train.json")
        runs[-1].parent.mkdir()
        trained = {"problem": "diffusion", "options": {"n": 8}, "method": method, "network": network.model_dump()}
        runs[-1].write_text(json.dumps({"spec": trained}))
        surrogate = build_surrogate(layout, network)
        checkpoint.save(runs[-1].with_name("weights.pt"), surrogate.state_dict())
    figure = samples.draw({"colormap": "viridis"}, [manifests[1], *runs, manifests[0]])
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_ylabel() for ax in panels[::4]] == ["reference", "FNO", "sTCL"]
    pairs, tangents = stores.read(manifests[0], samples=1), stores.read(manifests[1], samples=1)
    shown = [np.asarray(ax.collections[0].get_array()) for ax in panels]
    for field, expected in zip(shown, (pairs["a"], pairs["u"], tangents["v"], tangents["w"][0]), strict=False):
        assert np.array_equal(field, expected[0])
    u, w = surrogate.value_and_tangents(torch.from_numpy(pairs["a"]), torch.from_numpy(tangents["v"][:1]))  # of fno
    for place, predicted, reference in ((4, u[0], pairs["u"][0]), (6, w[0, 0], tangents["w"][0, 0])):
        error = predicted.detach().numpy() - reference
        assert np.allclose(shown[place + 1], error, atol=1e-6)
        percent = 100 * np.linalg.norm(error) / np.linalg.norm(reference)
        assert panels[place + 1].get_title() == f"error, {percent:.1f} %"


@pytest.mark.parametrize(
    ("problem", "options"), [("diffusion", {"n": 8}), ("burgers", {"nx": 8, "nt": 9, "solver_nx": 8, "solver_nt": 8})]
)
def test_an_inverse_problem_with_the_map_points_of_each_method(tmp_path, problem, options):
    posed = Inversions(sensors=[2, 2], noise=0.5, truths=1, outside=0, modes=3, points=1)
    manifest, record = tmp_path / "reference.json", tmp_path / "diffusion.json"
    asked = InverseReferenceSpec(problem=problem, options=options, inversions=posed)
    inverse_reference.generate(asked, manifest, tmp_path / "work", "", workers=1)
    known = stores.read(manifest)
    cells = {"fno": "p/N8/fno/lam0/seed0", "stcl": "p/N8/stcl/lam1/seed0"}
    arrays = {}
    for factor, cell in ((1.0, "solver"), (1.5, cells["fno"]), (0.9, cells["stcl"])):
        arrays |= {f"{cell}:a": factor * known["a"], f"{cell}:misfits": factor * np.array([4.0, 1.0])}
        arrays[f"{cell}:eigenvalues"] = factor * np.array([9.0, 0.1])
    np.savez(record.with_suffix(".npz"), **arrays)
    figure = inverse.draw({"colormap": "viridis", "cells": cells}, [record, manifest])
    panels = {ax.get_title(): ax for ax in figure.axes}
    misfit = panels["mean squared misfit / noise²"]
    assert [line.get_label() for line in misfit.lines[:3]] == ["Solver", "FNO", "sTCL"]
    assert [line.get_ydata()[0] for line in misfit.lines[:3]] == pytest.approx([4.0, 6.0, 3.6])
    assert [line.get_color() for line in misfit.lines[1:3]] == [COLOURS["fno"], COLOURS["stcl"]]
    assert panels["eigenvalue"].lines[1].get_ydata()[0] == pytest.approx(13.5)
    (sensors,) = panels["response to the truth, and sensors"].lines
    assert sorted(sensors.get_xydata().tolist()) == sorted(known["sensors"][:, ::-1].tolist())
    if problem == "diffusion":
        fields = [np.asarray(ax.collections[0].get_array()) for ax in figure.axes[:4]]
        assert list(panels)[:4] == ["truth", "MAP, Solver", "MAP, FNO, 50 %", "MAP, sTCL, 10 %"]
        assert np.array_equal(fields[0], known["truth"][0])
        np.testing.assert_allclose(fields[2], 1.5 * fields[1], rtol=1e-6)
    else:
        curves = panels["input $f$: truth and MAP points"].lines
        assert [line.get_label() for line in curves] == ["truth", "Solver", "FNO, 50 %", "sTCL, 10 %"]
        np.testing.assert_allclose(curves[1].get_ydata(), known["a"][0])


def test_costs_are_those_of_everything_that_was_needed():
    def of(split, samples, seconds, size, **more):
        spec = {"problem": "diffusion", "split": split, "samples": samples}
        spec |= {"directions": more.pop("directions")} if "directions" in more else {}
        return {"spec": spec, "seconds": seconds, "bytes": size} | more

    ledgers = {
        Path("data/diffusion/train.ledger.json"): of("train", 100, 10.0, 2e9, candidates=150),
        Path("data/diffusion/val.ledger.json"): of("val", 20, 3.0, 1e9),
        Path("banks/diffusion/train.ledger.json"): of("train", 80, 40.0, 16e9, directions=7),
    }
    row = {"problem": "diffusion", "n_train": "40", "fno_seconds": "5.0", "offline_di_seconds": "8.0"}
    found = ledger.total_costs(ledgers, [row | {"stcl_seconds": ""}])
    # 40 of 100 pairs from 60 of 150 candidates, and 20 for validation; half of the bank's 80 samples
    assert found["diffusion", "fno"] == ledger.Cost(60 + 20, 4 + 3 + 5, pytest.approx(0.8 + 1))
    assert found["diffusion", "offline_di"] == ledger.Cost(80 + 40 * 7, 4 + 3 + 8 + 20, pytest.approx(1.8 + 8))
    assert ("diffusion", "stcl") not in found
    # a variant has the same problem in its specs, and costs of its own
    ledgers[Path("data/diffusion_b/train.ledger.json")] = of("train", 40, 1.0, 1e9)
    ledgers[Path("data/diffusion_b/val.ledger.json")] = of("val", 20, 1.0, 1e9)
    row |= {"problem": "diffusion_b", "stcl_seconds": "", "offline_di_seconds": ""}
    assert ledger.total_costs(ledgers, [row]) == {
        ("diffusion_b", "fno"): ledger.Cost(40 + 20, 1 + 1 + 5, pytest.approx(2))
    }


def test_the_ledger_shows_the_errors_at_the_size_whose_cost_is_known(tmp_path):
    errors = [
        {"problem": "burgers", "n_train": n, "method": "fno", "mean": mean, "std": ""} for n, mean in ((4, 9), (8, 5))
    ]
    inputs = [table(tmp_path / f"{name}.csv", errors) for name in ("field_error", "jacobian_error")]
    row = {"problem": "burgers", "n_train": 8, "fno_seconds": 2.0, "stcl_seconds": "", "offline_di_seconds": ""}
    inputs.append(table(tmp_path / "wallclock.csv", [row]))
    for split in ("train", "val"):
        inputs.append(tmp_path / f"data/burgers/{split}.ledger.json")
        inputs[-1].parent.mkdir(parents=True, exist_ok=True)
        spec = {"problem": "burgers", "split": split, "samples": 8}
        inputs[-1].write_text(json.dumps({"spec": spec, "seconds": 1.0, "bytes": 1e9}))
    axes = ledger.draw({}, inputs).axes
    for ax, cost in zip(axes[:3], (16, 1 + 1 + 2, 2), strict=True):
        assert (*ax.lines[0].get_xdata(), *ax.lines[0].get_ydata()) == (cost, 5)


def test_boxes_hold_the_errors_of_all_seeds_in_percent(run):
    rng = np.random.default_rng(0)
    errors = rng.lognormal(-3, 1, (2, 50))
    runs = [run("burgers", "stcl", s, field=errors[s], jacobian=errors[s].reshape(10, 5) * 2) for s in (0, 1)]
    axes = spread.draw({}, [folder / "errors.npz" for folder in runs]).axes
    for ax, factor in zip(axes, (100, 200), strict=True):
        levels = {tuple(line.get_ydata()) for line in ax.lines}
        median = factor * np.median(errors)
        low = factor * errors[errors >= np.percentile(errors, 5)].min()
        assert any(found == pytest.approx((median, median)) for found in levels if len(found) == 2)
        assert any(min(found) == pytest.approx(low) for found in levels)
        singles = [found[0] for found in levels if len(found) == 1]
        assert sorted(singles) == pytest.approx([factor * errors.mean(), factor * errors.max()])


def test_sketches_show_errors_variance_share_and_relative_time(tmp_path):
    errors = [
        {"grid": 9, "q": q, "quantity": name, "mean": mean, "std": 0.5}
        for name in ("field_error", "jacobian_error")
        for q, mean in ((0, 8.0), (1, 4.0), (2, 3.0))
    ]
    parts = {0: (0.0, 5.0, ""), 1: (1.0, 10.0, 10.0), 2: (0.5, 10.0, 5.0)}
    variance = [
        {"grid": 9, "q": q, "quantity": name, "mean": value, "std": ""}
        for q, values in parts.items()
        for name, value in zip(("weighted", "total", "share"), values, strict=True)
    ]
    runtime = [{"q": q, "minutes": 2 * r, "ratio": r} for q, r in ((0, 1.0), (2, 2.6), (1, 1.8))]
    rows = {"sketch_resolution": errors, "gradient_variance": variance, "sketch_runtime": runtime}
    inputs = [table(tmp_path / f"{name}.csv", content) for name, content in rows.items()]
    field, _, share, time = sketch_tradeoff.draw({"grid": 9}, inputs).axes
    informed, alone = [c.lines[0] for c in field.containers]
    assert list(informed.get_ydata()) == [4.0, 3.0]
    assert list(alone.get_ydata()) == [8.0]
    assert list(share.lines[0].get_ydata()) == [10.0, 5.0]
    assert (list(time.lines[0].get_xdata()), list(time.lines[0].get_ydata())) == ([0, 1, 2], [1.0, 1.8, 2.6])


def test_the_ablation_shows_errors_against_condition_numbers_between_lines_of_reference(tmp_path):
    forms = [
        ("diffusion", "fno", "", "", 8.0, 40.0),
        ("diffusion", "stcl", "raw", 1e5, 6.0, 30.0),
        ("diffusion", "stcl", "target", 1.0, 2.0, 10.0),
        ("diffusion", "offline_di", "", "", 1.0, 5.0),
        ("helmholtz", "stcl", "singular", "", 3.0, 9.0),
        ("helmholtz", "stcl", "later", 7.0, "", ""),
        ("helmholtz", "stcl", "kept", 50.0, 4.0, 8.0),
    ]
    shared = {"n_train": 8, "std": 0.5}
    rows = [
        dict(zip(("problem", "method", "name", "condition"), form, strict=False)) | shared | {"quantity": q, "mean": m}
        for form in forms
        for q, m in (("field_error", form[4]), ("jacobian_error", form[5]))
    ]
    figure = conditioning_ablation.draw({}, [table(tmp_path / "conditioning_ablation.csv", rows)])
    field, other, jacobian, _ = figure.axes
    marks = {c.get_label(): (c.lines[0].get_xdata()[0], c.lines[0].get_ydata()[0]) for c in field.containers}
    assert marks == {"target": (1.0, 2.0), "raw": (1e5, 6.0)}
    assert [c.lines[0].get_ydata()[0] for c in jacobian.containers] == [10.0, 30.0]
    assert curve(field, COLOURS["fno"], "--").get_ydata()[0] == 8.0
    assert curve(field, COLOURS["offline_di"], "--").get_ydata()[0] == 1.0
    assert [c.get_label() for c in other.containers] == ["kept"]  # without κ or without error there is no place
    assert (field.get_title(), field.get_xscale()) == ("Nonlinear diffusion, N = 8", "log")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"FNO", "Offline DI"}


def test_losses_stand_beside_what_more_samples_give(tmp_path):
    found = [
        ("fno", "", 4, 10.0, 9.0, 40.0),
        ("stcl", "", 4, 30.0, 6.0, 20.0),
        ("stcl", "fresh_inputs", 4, 50.0, 2.0, 8.0),
        ("stcl", "untimed", 4, "", 1.0, 1.0),
        ("fno", "", 16, 40.0, 4.0, 16.0),
        ("offline_di", "", 4, 70.0, 3.0, 9.0),
    ]
    rows = [
        {
            "problem": "burgers",
            "method": m,
            "loss": loss,
            "n_train": n,
            "seconds": s,
            "quantity": q,
            "mean": e,
            "std": "",
        }
        for m, loss, n, s, *errors in found
        for q, e in zip(("field_error", "jacobian_error"), errors, strict=True)
    ]
    figure = beyond.draw({}, [table(tmp_path / "beyond.csv", rows)])
    for ax, fno, fresh in zip(figure.axes, ([9.0, 4.0], [40.0, 16.0]), (2.0, 8.0), strict=True):
        drawn = {c.get_label(): c.lines[0] for c in ax.containers}
        assert list(drawn) == ["FNO, more and more N", "Offline DI, more and more N", "sTCL", "sTCL, fresh inputs"]
        line = drawn["FNO, more and more N"]
        assert (list(line.get_xdata()), list(line.get_ydata())) == ([10.0, 40.0], fno)
        point = drawn["sTCL, fresh inputs"]
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (50.0, fresh)
        assert {text.get_text() for text in ax.texts} == {"4", "16"}


def test_every_loss_beyond_the_labels_is_drawn_however_many_there_are(tmp_path):
    losses = ["", *(f"loss_{i}" for i in range(1, 11))]
    cell = {"problem": "diffusion", "method": "stcl", "n_train": 4, "std": ""}
    rows = [
        cell | {"loss": loss, "quantity": quantity, "mean": 9 - 0.1 * place, "seconds": 10 + place}
        for quantity in ("field_error", "jacobian_error")
        for place, loss in enumerate(losses)
    ]
    figure = beyond.draw({}, [table(tmp_path / "beyond.csv", rows)])
    for ax in figure.axes:
        assert [c.lines[0].get_xdata()[0] for c in ax.containers] == [10 + place for place in range(11)]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "sTCL, loss 10"


def test_equal_figures_are_equal_files(tmp_path):
    for name in ("a", "b"):
        figure, ax = plt.subplots()
        ax.plot([1, 2])
        save(figure, tmp_path / f"{name}.png", dpi=50)
    for ending in ("png", "pdf"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_the_rule_graph_leaves_out_what_follows():
    dot = """digraph snakemake_dag {
        1[label = "data", color = "0.1 0.6 0.85"]; 2[label = "train"]; 3[label = "table"]; 4[label = "all"];
        1 -> 2
        2 -> 3
        1 -> 3
        3 -> 4
        2 -> 4
        2 -> 3
    }"""
    nodes, edges = rulegraph.parse(dot.replace("; ", ";\n"))
    assert nodes == {name: name for name in ("all", "data", "table", "train")}
    assert graph.direct(edges) == [("data", "train"), ("table", "all"), ("train", "table")]
    assert graph.layers(nodes, edges) == {"data": 0, "train": 1, "table": 2, "all": 3}
    late = graph.layers(nodes | {"constants": "constants"}, [*edges, ("constants", "all")])
    assert late["constants"] == 2
    renumbered = dot.replace("4", "0").replace("1", "4").replace("0[", "1[").replace("-> 0", "-> 1")
    assert rulegraph.parse(renumbered.replace("; ", ";\n")) == (nodes, edges)
