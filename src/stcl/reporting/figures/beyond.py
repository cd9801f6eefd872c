"""The figure `beyond` shows errors against all seconds: losses of sTCL beside more labelled samples."""

from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, ERRORS, MARKERS, log_scale, plt
from stcl.study.names import METHOD_NAMES, problem_name

Rows = list[dict[str, str]]


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` is the table beyond. It has a column of panels for each of its problems."""
    rows = command.read_table(inputs[0])
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    figure, axes = plt.subplots(
        len(ERRORS), len(problems), figsize=(1.2 + 3.4 * len(problems), 6.8), sharex="col", squeeze=False
    )
    for line, (quantity, label) in zip(axes, ERRORS.items(), strict=True):
        line[0].set_ylabel(label)
        for ax, problem in zip(line, problems, strict=True):
            known = [r for r in rows if r["problem"] == problem and r["quantity"] == quantity and r["mean"]]
            shown = [row for row in known if row["seconds"]]
            for method in ("fno", "offline_di"):
                _sizes(ax, sorted((r for r in shown if r["method"] == method), key=lambda r: int(r["n_train"])))
            _losses(ax, [row for row in shown if row["method"] == "stcl"])
    for ax, problem in zip(axes[0], problems, strict=True):
        ax.set_title(problem_name(problem))
    for ax in axes[-1]:
        ax.set_xlabel("Seconds, labels and training")
    for ax in axes.flat:
        ax.margins(0.12)
        log_scale(ax.xaxis)
        log_scale(ax.yaxis)
    handles = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(3, len(problems)))
    return figure


def _sizes(ax: Axes, rows: Rows) -> None:
    """Draws a line through the training sizes of a method, and writes N beside each of them."""
    if not rows:
        return
    colour, method = COLOURS[rows[0]["method"]], METHOD_NAMES[rows[0]["method"]]
    seconds, means, spread = ([float(row[name] or 0) for row in rows] for name in ("seconds", "mean", "std"))
    style: dict[str, Any] = {"color": colour, "linewidth": 1.0, "markersize": 4, "elinewidth": 0.8}
    ax.errorbar(seconds, means, spread, fmt="o-", label=f"{method}, more and more N", **style)
    for row, *point in zip(rows, seconds, means, strict=True):
        ax.annotate(row["n_train"], (point[0], point[1]), (3, 3), textcoords="offset points", fontsize=7, color=colour)


def _losses(ax: Axes, rows: Rows) -> None:
    """Marks each loss of sTCL. The first is the problem's own."""
    for row, marker in zip(rows, cycle(MARKERS), strict=False):
        name = METHOD_NAMES["stcl"] + (f", {row['loss'].replace('_', ' ')}" if row["loss"] else "")
        style: dict[str, Any] = {
            "color": COLOURS["stcl"],
            "markersize": 7,
            "elinewidth": 0.8,
            "mec": "white",
            "mew": 0.6,
        }
        ax.errorbar(float(row["seconds"]), float(row["mean"]), float(row["std"] or 0), fmt=marker, label=name, **style)


if __name__ == "__main__":
    command.main("beyond", draw)
