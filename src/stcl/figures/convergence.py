"""Training and validation error over epochs, one panel per problem.

python -m stcl.figures.convergence --spec '{"dpi": 150}' --out figures/convergence.png runs/…/train.json …
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from stcl.figures.style import METHODS, plt, save


def draw(runs: list[Path], spec: dict[str, Any], out: Path) -> None:
    """`runs` are records of training; their histories are beside them."""
    panels: dict[tuple[str, int], list[Path]] = {}
    for run in runs:
        cell = json.loads(run.read_text())["spec"]
        panels.setdefault((cell["problem"], cell["n_train"]), []).append(run)
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(1 + 3.4 * columns, 0.4 + 2.7 * lines), squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, ((problem, n_train), members) in zip(axes.flat, panels.items(), strict=False):
        for run in members:
            _curves(ax, run)
        ax.set(
            title=f"{problem.replace('_', '-')}, N = {n_train}",
            xlabel="epoch",
            ylabel="mean squared error",
            yscale="log",
        )
    handles, _ = axes.flat[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="k", linewidth=0.8, linestyle="--", label="training"))
    handles.append(Line2D([], [], color="k", linewidth=1.4, label="validation"))
    axes.flat[0].legend(handles=handles)
    save(figure, out, spec["dpi"])


def _curves(ax: Axes, run: Path) -> None:
    label, colour = METHODS[json.loads(run.read_text())["spec"]["method"]]
    with run.with_name("history.csv").open(newline="") as file:
        history = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    epochs = [row["epoch"] for row in history]
    ax.plot(epochs, [row["data"] for row in history], "--", color=colour, linewidth=0.8, alpha=0.7)
    ax.plot(epochs, [row["val_mse"] for row in history], color=colour, linewidth=1.4, label=label)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stcl.figures.convergence", description="Draw convergence curves.")
    parser.add_argument("--spec", type=json.loads, required=True, help="looks, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="PNG; a PDF goes beside it")
    parser.add_argument("runs", type=Path, nargs="+", help="records of training")
    arguments = parser.parse_args()
    draw(arguments.runs, arguments.spec, arguments.out)


if __name__ == "__main__":
    main()
