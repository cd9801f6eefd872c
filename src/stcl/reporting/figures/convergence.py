"""The figure `convergence` shows training and validation error over epochs, one panel per problem."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, plt
from stcl.reporting.runs import read_history
from stcl.study.cells import Cell
from stcl.study.names import METHOD_NAMES, problem_name

MARKED_EPOCH = 500  # the dotted line is here, in trainings that go beyond it
POINTS = 250  # longer histories are averaged over equal windows, because dashes would not show
JACOBIAN: dict[str, Any] = {"linestyle": ":", "linewidth": 0.9, "marker": ".", "markersize": 3}

History = dict[str, np.ndarray]  # the columns of a history.csv; what was not recorded in an epoch is not a number


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """The figure has one panel per problem. `inputs` are records of training with histories beside them.

    The problems of `spec["relative"]` show relative errors, the others mean squared ones. Unless `spec["smooth"]`,
    every epoch is shown. Folders say which problem it is, because variants have the same problem in their specs. A
    block of an ablation has its title in `spec["titles"]`.
    """
    panels: dict[tuple[str, int], dict[str, History]] = {}
    for path in inputs:
        cell = Cell.parse("/".join(path.parts[-6:-1]))
        panel = panels.setdefault((cell.block.removesuffix("-long"), cell.n_train), {})
        panel[cell.method] = _history(path.with_name("history.csv"))
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(0.6 + 3.4 * columns, 0.4 + 2.7 * lines), squeeze=False)
    for ax, ((problem, n_train), runs) in zip(axes.flat, panels.items(), strict=False):
        epochs = max(history["epoch"][-1] for history in runs.values())
        window = -(-max(len(history["epoch"]) for history in runs.values()) // POINTS) if spec["smooth"] else 1
        averaged = window * max(int(history["epochs"][0]) for history in runs.values())
        relative = problem in spec["relative"]
        for method in (method for method in METHOD_NAMES if method in runs):
            _curves(ax, runs[method], COLOURS[method], relative, window)
        _jacobians(ax, runs)
        if epochs > MARKED_EPOCH:
            ax.axvline(MARKED_EPOCH, color="#555555", linestyle=":", linewidth=0.9, zorder=0)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        title = spec.get("titles", {}).get(problem, problem_name(problem))
        ax.set(title=f"{title}, N = {n_train}", yscale="log")
        ax.set(xlabel="Epoch" if averaged == 1 else f"Epoch, means over {averaged}")
        ax.set(ylabel="Relative error" if relative else "Mean squared error")
    methods = [method for method in METHOD_NAMES if any(method in runs for runs in panels.values())]
    handles = [Line2D([], [], color=COLOURS[m], linewidth=1.4, label=METHOD_NAMES[m]) for m in methods]
    if any(problem not in spec["relative"] for problem, _ in panels):
        handles.append(Line2D([], [], color="k", linewidth=1.0, linestyle="--", label="training"))
    handles.append(Line2D([], [], color="k", linewidth=1.4, label="validation"))
    if any("val_jacobian" in history for runs in panels.values() for history in runs.values()):
        handles.append(Line2D([], [], color="k", label="validation, Jacobian (right)", **JACOBIAN))
    _legend(figure, axes, len(panels), handles)
    return figure


def _history(path: Path) -> History:
    rows = read_history(path)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _curves(ax: Axes, history: History, colour: str, relative: bool, window: int) -> None:
    """Plots training and validation. A history has no relative error of the training set, so none is drawn."""
    epochs = _averaged(history["epoch"] - (history["epochs"] - 1) / 2, window)  # a row of several is in their middle
    if not relative:
        data = _averaged(history["data"], window)
        ax.plot(epochs, data, color=colour, linestyle="--", linewidth=1.0, alpha=0.8)
    errors = _averaged(history["val_relative" if relative else "val_mse"], window)
    ax.plot(epochs, errors, color=colour, linewidth=1.4)


def _jacobians(ax: Axes, runs: dict[str, History]) -> None:
    """Plots the Jacobian errors of the epochs that have one, on an axis to the right."""
    recorded = {method: history for method, history in runs.items() if "val_jacobian" in history}
    if not recorded:
        return
    right = ax.twinx()
    for method, history in recorded.items():
        known = np.isfinite(history["val_jacobian"])
        right.plot(history["epoch"][known], history["val_jacobian"][known], color=COLOURS[method], **JACOBIAN)
    right.spines["right"].set_visible(True)
    right.set(ylabel="Jacobian error", yscale="log")


def _averaged(values: np.ndarray, window: int) -> np.ndarray:
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
