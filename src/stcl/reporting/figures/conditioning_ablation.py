"""The figure `conditioning_ablation` shows the errors of forms of the sTCL loss against their condition numbers."""

from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, log_scale, plt
from stcl.study.names import METHOD_NAMES, problem_name

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ERRORS = {"field_error": "Field error, %", "jacobian_error": "Jacobian error, %"}

Rows = list[dict[str, str]]


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """`inputs` is the table conditioning_ablation. It has a column of panels for each of its problems."""
    rows = command.read_table(inputs[0])
    sizes = {row["problem"]: row["n_train"] for row in rows}
    figure, axes = plt.subplots(
        len(ERRORS), len(sizes), figsize=(1.2 + 3.2 * len(sizes), 5.8), sharex="col", squeeze=False
    )
    for line, (quantity, label) in zip(axes, ERRORS.items(), strict=True):
        line[0].set_ylabel(label)
        for ax, problem in zip(line, sizes, strict=True):
            shown = [r for r in rows if r["problem"] == problem and r["quantity"] == quantity and r["mean"]]
            _forms(ax, [row for row in shown if row["condition"]])
            _references(ax, [row for row in shown if row["method"] != "stcl"])
            ax.set_ylim(0, 1.05 * max(ax.get_ylim()[1], *(float(row["mean"]) for row in shown), 0))
    for ax, (problem, n) in zip(axes[0], sizes.items(), strict=True):
        ax.set_title(f"{problem_name(problem)}, N = {n}")
    for ax in axes[-1]:
        ax.set_xlabel("Condition number κ of the loss")
    for ax in axes.flat:
        ax.margins(x=0.12)
        log_scale(ax.xaxis)
        ax.grid(True, axis="y")
    for ax in axes[0]:
        ax.legend(fontsize=7)
    handles = {
        label: handle
        for ax in axes[0]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
        if label in METHOD_NAMES.values()
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles) or 1)
    return figure


def _forms(ax: Axes, rows: Rows) -> None:
    """Marks every form at its condition number, and names it."""
    ordered = sorted(rows, key=lambda row: float(row["condition"]))
    for row, marker in zip(ordered, cycle(MARKERS), strict=False):
        ax.errorbar(
            float(row["condition"]),
            float(row["mean"]),
            float(row["std"] or 0),
            fmt=marker,
            color=COLOURS["stcl"],
            markersize=6,
            mec="white",
            mew=0.6,
            elinewidth=0.8,
            capsize=2,
            label=row["name"],
        )


def _references(ax: Axes, rows: Rows) -> None:
    """Draws what has no condition number as a line across the panel."""
    for row in rows:
        method = row["method"]
        ax.axhline(float(row["mean"]), color=COLOURS[method], linewidth=1.2, linestyle="--", label=METHOD_NAMES[method])


if __name__ == "__main__":
    command.main("conditioning_ablation", draw)
