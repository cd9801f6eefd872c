"""This module writes what a report says: what the study is about, its settings, where its numbers come from.

`config` is a validated configuration as plain JSON.
"""

import csv
import hashlib
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stcl import problems
from stcl.core.version import __version__
from stcl.reporting.report.parts import Grid, Heading, Part, Text
from stcl.reporting.variants import differences
from stcl.study.canonical import canonical
from stcl.study.names import METHOD_NAMES, problem_name

ABOUT = (
    "A neural operator is a network that takes the place of a PDE solver: it maps an input a, for example a "
    "coefficient or a forcing, to the solution u = S(a), here called the response. Inverse problems, design and "
    "control use such a surrogate S_θ for its derivative as much as for its value: they ask how the response changes "
    "when the input is changed along a direction v. This change is the tangent w = DS(a)[v], and all tangents together "
    "are the Jacobian. A network that was trained on pairs (a, u) alone can be right in u and wrong in w.",
    "Three ways of training the same network are compared:",
    "**FNO**: a Fourier neural operator trained on pairs (a, u).",
    "**Offline DI** (derivative-informed): in addition on tangents that a solver computed for a bank of directions and "
    "that were stored before training.",
    "**sTCL** (sketched tangent consistency loss): stores no tangents. Each update draws q directions, the sketch, "
    "takes the network's own tangents along them by forward-mode differentiation, and penalises how far they are from "
    "solving the PDE's sensitivity equation Aw + Bv = 0, with A = ∂F/∂u, B = ∂F/∂a and F(u, a) = 0 the discrete PDE. "
    "The form of this penalty follows from the kind of operator A is.",
    "Both derivative terms are weighted against the data term: λ is the ratio of the two that is aimed at. N is the "
    "number of training pairs. A cell is one training: a problem, N, method, λ and seed.",
    "Two errors are measured on a test split that no training and no choice has seen, in percent; lower is better, and "
    "100 % is what a prediction of zero has:",
    "**Field error**: ‖S_θ(a) − u‖ / ‖u‖, mean over inputs.",
    "**Jacobian error**: ‖DS_θ(a)[v] − w‖ / ‖w‖, mean over inputs and directions.",
)
REDUCED = (
    "Reduced study: grids, samples or epochs are smaller than the paper's, so that it runs in minutes. It shows that "
    "everything works and what the comparison looks like; its numbers are not comparable with the paper's."
)
FULL = (
    "Settings are the paper's, except where docs/protocol.md says otherwise. Published numbers stand beside ours where "
    "there are any."
)
IMPLICIT_BURGERS = (
    "Burgers is such an exception: its implicit step is solved to convergence, where the paper's text and its "
    "published runs take three sweeps. A variant with `scheme: three_sweep` takes these sweeps."
)


def opening(config: dict[str, Any]) -> str:
    """The first words of a report: how its numbers compare with the paper's."""
    if config["reduced"]:
        return REDUCED
    burgers = [s for name, s in config["problems"].items() if (s["problem"] or name) == "burgers"]
    implicit = any(asdict(problems.load("burgers", **s["options"]))["scheme"] == "implicit" for s in burgers)
    return f"{FULL} {IMPLICIT_BURGERS}" if implicit else FULL


def settings(config: dict[str, Any]) -> list[Part]:
    """The parts that describe the problems, and what was trained on them."""
    return [
        Text(
            f"Preset `{config['preset']}`. Training seeds: {', '.join(map(str, config['seeds']))}. λ is "
            f"{_selection(config)}."
        ),
        Grid(
            ["Problem", "Equation", "Tangent operator", "Grid"],
            [_equation(name, s) for name, s in config["problems"].items()],
            " ".join(["The problems. A grid of a time-dependent problem has a time axis.", *differences(config)]),
        ),
        Grid(
            ["Problem", "N", "Val", "Test", "Epochs", "Batch", "Modes", "Width", "Layers", "q", "Stored", "Tested"],
            [_sizes(name, s) for name, s in config["problems"].items()],
            "Sizes: training sizes N, validation and test samples; epochs and samples per update; Fourier modes per "
            "axis, channels and layers of the network; directions per update of sTCL, directions per sample with "
            "stored tangents for offline DI, and directions of the Jacobian error.",
        ),
    ]


def _selection(config: dict[str, Any]) -> str:
    if config["selection"] == "fixed":
        return "fixed in the configuration"
    return "chosen by validation error wherever the configuration gives a grid"


def _equation(name: str, s: dict[str, Any]) -> list[str]:
    """The row of a problem. The first line of a problem's docstring is its equation."""
    problem = problems.load(s["problem"] or name, **s["options"])
    equation = " ".join((problem.__doc__ or "").strip().splitlines()[0].split())
    return [problem_name(name), equation, problem.tangent_class, " × ".join(map(str, problem.layout.grid))]


def _sizes(name: str, s: dict[str, Any]) -> list[str]:
    methods, training, network = s["methods"], s["training"], s["network"]
    values = [
        s["samples"]["val"],
        s["samples"]["test"],
        training["epochs"],
        training["batch"],
        network["modes"],
        network["width"],
        network["layers"],
        methods["stcl"]["q"] if methods["stcl"] else "—",
        s["bank"]["train"] if methods["offline_di"] else "—",
        s["bank"]["test"],
    ]
    return [problem_name(name), ", ".join(map(str, s["train_sizes"])), *map(str, values)]


def configuration_id(config: dict[str, Any]) -> str:
    """The id of a study. Two studies have the same id exactly when they have the same settings."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:16]


def read_run_rows(tables: list[Path]) -> list[dict[str, str]]:
    """The rows of the tables `by_problem/<problem>.csv`, one for each training."""
    rows: list[dict[str, str]] = []
    for path in tables:
        with path.open(newline="") as file:
            rows += csv.DictReader(file)
    return rows


def machine(runs: list[dict[str, str]]) -> str:
    """What the trainings of `by_problem` rows ran on, in words."""
    devices = sorted({row["device"] for row in runs if row["device"]})
    torches = sorted({row["torch"] for row in runs if row["torch"]})
    return f"{' and '.join(devices)}, torch {' and '.join(torches)}"


def provenance(config: dict[str, Any], runs: list[dict[str, str]], manifests: list[Path]) -> list[Part]:
    """The parts that say where the numbers come from. Datasets and banks have `manifests`, and ledgers beside them."""
    return [
        Text(
            f"Configuration `{configuration_id(config)}`; {len(runs)} evaluated trainings on {machine(runs)}. This "
            f"page: stcl {__version__}, Python {platform.python_version()}."
        ),
        Text(
            "Paths are relative to the folder of this page. Every training has a folder "
            "`runs/<problem or variant>/N<N>/<method>/lam<λ>/seed<seed>`: `train.json` holds its settings, the "
            "identity of the code and the hashes of the data it was trained on, `errors.npz` the error of each test "
            "sample and direction, `history.csv` its epochs. What a job printed is in `logs`, under the job's stage "
            "and the same name; `benchmarks` has its time and memory. A code id is a hash of the code that a job "
            "runs, without comments; a content hash is one of the stored numbers."
        ),
        Heading(3, "Datasets and banks of tangents"),
        Grid(
            ["Store", "Content", "Code", "Samples", "Directions", "Solver, s", "MB"],
            [_store(path) for path in manifests],
            "Stores with the hash of their content and the code that made them; CPU seconds of the reference solver.",
        ),
        Heading(3, "Trainings"),
        Grid(
            ["Cell", "λ", "Code", "Train data", "Train bank", "Best epoch", "Field, %", "Jacobian, %", "s", "Device"],
            [_run(row) for row in runs],
            "Every training behind the tables, with its own test errors; seconds as they passed, whatever else the "
            "machine did.",
            folded=True,
        ),
    ]


def _store(manifest: Path) -> list[str]:
    described = json.loads(manifest.read_text())
    ledger = json.loads(manifest.with_suffix(".ledger.json").read_text())
    spec = described["spec"]
    return [
        "/".join([*manifest.parts[-3:-1], manifest.stem]),
        f"`{described['content'][:12]}`",
        f"`{ledger['code']}`",
        str(described["samples"]),
        str(spec.get("directions", "—")),
        f"{ledger['seconds']:.3g}",
        f"{ledger['bytes'] / 1e6:.3g}",
    ]


def _run(row: dict[str, str]) -> list[str]:
    cell = f"{row['block']}, N = {row['n_train']}, {METHOD_NAMES[row['method']]}, seed {row['seed']}"
    if row["status"] != "done":
        return [cell, row["status"], *["—"] * 8]
    return [
        cell,
        row["lam"] or "—",
        f"`{row['code']}`",
        f"`{row['data'][:12]}`",
        f"`{row['bank'][:12]}`" if row["bank"] else "—",
        f"{row['best_epoch']} of {row['epochs']}" + (", ended early" if row["ended"] == "early" else ""),
        f"{100 * float(row['field_error']):.2f}",
        f"{100 * float(row['jacobian_error']):.2f}",
        f"{float(row['seconds']):.1f}",
        row["device"],
    ]
