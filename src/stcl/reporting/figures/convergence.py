"""The figure `convergence` shows training and validation error over epochs, one panel per problem."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from stcl import problems
from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, plt
from stcl.runtime import stores
from stcl.study.cells import Cell
from stcl.study.names import METHOD_NAMES, problem_name

MARKED_EPOCH = 500  # the dotted line is here, in trainings that go beyond it
POINTS = 250  # longer histories are averaged over equal windows, because dashes would not show


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """The figure has one panel per problem.

    `inputs` are records of training with histories beside them. For the problems of `spec["relative"]` they are also
    the manifests of the train and validation splits. Folders say which problem it is, because variants have the same
    problem in their specs.
    """
    records = {path: json.loads(path.read_text()) for path in inputs}
    scale = {
        (path.parent.name, record["spec"]["split"]): (path, record["spec"])
        for path, record in records.items()
        if "split" in record["spec"]
    }
    panels: dict[str, list[Path]] = {}
    for path, record in records.items():
        if "method" in record["spec"]:
            block = Cell.parse("/".join(path.parts[-6:-1])).block
            panels.setdefault(block.removesuffix("-long"), []).append(path)
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(0.6 + 3.4 * columns, 0.4 + 2.7 * lines), squeeze=False)
    for ax, (problem, runs) in zip(axes.flat, panels.items(), strict=False):
        n_train = records[runs[0]]["spec"]["n_train"]
        relative = problem in spec["relative"]
        sizes = [
            _mean_square(*scale[problem, split], count) if relative else None
            for split, count in (("train", n_train), ("val", None))
        ]
        for run in sorted(runs, key=lambda run: list(METHOD_NAMES).index(records[run]["spec"]["method"])):
            _curves(ax, run, COLOURS[records[run]["spec"]["method"]], *sizes)
        quantity = "Relative error" if relative else "Mean squared error"
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set(title=f"{problem_name(problem)}, N = {n_train}", xlabel="Epoch", ylabel=quantity, yscale="log")
    methods = [
        m for m in METHOD_NAMES if any(records[run]["spec"]["method"] == m for runs in panels.values() for run in runs)
    ]
    handles = [Line2D([], [], color=COLOURS[m], linewidth=1.4, label=METHOD_NAMES[m]) for m in methods]
    handles.append(Line2D([], [], color="k", linewidth=1.0, linestyle="--", label="training"))
    handles.append(Line2D([], [], color="k", linewidth=1.4, label="validation"))
    _legend(figure, axes, len(panels), handles)
    return figure


def _mean_square(manifest: Path, data: dict[str, Any], samples: int | None) -> float:
    """The mean of u² over all values of the scored responses."""
    layout = problems.load(data["problem"], **data["options"]).layout
    u = stores.read(manifest, samples)["u"]
    return float(np.square(layout.score(u), dtype=np.float64).mean())


def _curves(ax: Axes, run: Path, colour: str, train_scale: float | None, val_scale: float | None) -> None:
    """Plots mean squared errors or, given the mean squares of the responses, the roots of the ratios to these."""
    with run.with_name("history.csv").open(newline="") as file:
        history = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    window = -(-len(history) // POINTS)
    epochs = _averaged([row["epoch"] for row in history], window)
    for column, scale, style in (
        ("data", train_scale, {"linestyle": "--", "linewidth": 1.0, "alpha": 0.8}),
        ("val_mse", val_scale, {"linewidth": 1.4}),
    ):
        errors = _averaged([row[column] for row in history], window)
        ax.plot(epochs, errors if scale is None else np.sqrt(errors / scale), color=colour, **style)
    if len(history) > MARKED_EPOCH and not any(line.get_linestyle() == ":" for line in ax.lines):
        ax.axvline(MARKED_EPOCH, color="#555555", linestyle=":", linewidth=0.9, zorder=0)


def _averaged(values: list[float], window: int) -> np.ndarray:
    """The means over consecutive windows. The last window may be shorter."""
    return np.array([np.mean(values[i : i + window]) for i in range(0, len(values), window)])


def _legend(figure: Figure, axes: np.ndarray, used: int, handles: list[Line2D]) -> None:
    """Puts the legend in the first panel that is left over, or else below all of them."""
    for ax in axes.flat[used:]:
        ax.axis("off")
    if used < axes.size:
        axes.flat[used].legend(handles=handles, loc="center", fontsize=10)
    else:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


if __name__ == "__main__":
    command.main("convergence", draw)
