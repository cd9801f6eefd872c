"""The figure `spread` shows how errors differ between test samples, and between samples and directions."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, log_scale, plt
from stcl.reporting.runs import read_runs
from stcl.study.names import METHOD_NAMES, problem_name

Samples = dict[tuple[str, str], list[np.ndarray]]  # errors in percent of each problem and method, an array a seed


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` are errors of runs, with one N per problem. The seeds of a method are drawn together."""
    runs = read_runs([path.parent for path in inputs])
    sizes = {run.cell.block: run.cell.n_train for run in runs}
    methods = [m for m in METHOD_NAMES if any(run.cell.method == m for run in runs)]
    figure, axes = plt.subplots(2, 1, figsize=(2.2 + 1.5 * len(sizes), 6), sharex=True)
    for ax, kind, label in zip(axes, ("field", "jacobian"), ("Field error, %", "Jacobian error, %"), strict=True):
        errors: Samples = {}
        for run in runs:
            with np.load(run.folder / "errors.npz") as kept:
                errors.setdefault((run.cell.block, run.cell.method), []).append(100 * kept[kind].ravel())
        _boxes(ax, errors, list(sizes), methods)
        ax.set_xlim(-0.6, len(sizes) - 0.4)
        ax.set_ylabel(label)
        log_scale(ax.yaxis)
    axes[-1].set_xticks(range(len(sizes)), [f"{problem_name(p)}\nN = {n}" for p, n in sizes.items()])
    axes[-1].tick_params(axis="x", length=0)
    handles = [Patch(facecolor=COLOURS[m], alpha=0.55, label=METHOD_NAMES[m]) for m in methods]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _boxes(ax: Axes, errors: Samples, problems: list[str], methods: list[str]) -> None:
    """Draws quartiles and median, whiskers from the 5th to the 95th percentile, the mean, and the worst error."""
    width = 0.8 / len(methods)
    for (problem, method), seeds in errors.items():
        values = np.concatenate(seeds)
        x = problems.index(problem) + width * (methods.index(method) - (len(methods) - 1) / 2)
        ax.boxplot(
            [values],
            positions=[x],
            widths=0.75 * width,
            whis=(5, 95),
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": COLOURS[method], "alpha": 0.55, "linewidth": 0},
            medianprops={"color": "k", "linewidth": 1.1},
            whiskerprops={"color": COLOURS[method]},
            capprops={"color": COLOURS[method]},
        )
        ax.plot(x, values.mean(), marker="D", color="white", markeredgecolor="k", markeredgewidth=0.7, markersize=4)
        ax.plot(x, values.max(), marker=".", color=COLOURS[method], markersize=5)


if __name__ == "__main__":
    command.main("spread", draw)
