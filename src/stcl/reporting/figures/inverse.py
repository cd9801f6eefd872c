"""The figure `inverse` shows one inverse problem: truth, MAP points, data, misfit over the steps, and spectra."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stcl import problems
from stcl.core.layout import Layout
from stcl.reporting.figures import command
from stcl.reporting.figures.style import COLOURS, log_scale, plt
from stcl.runtime import stores
from stcl.study.names import METHOD_NAMES

BLACK = "#222222"


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """The figure shows the first truth. `spec["cells"]` has the cell of each method.

    `inputs` are the record of the stage `inverse`, with its arrays beside it, and the manifest of the solver's answers.
    """
    record, manifest = inputs
    posed = stores.read_manifest(manifest)["spec"]
    layout = problems.load(posed["problem"], **posed["options"]).layout
    known = stores.read(manifest, samples=1)
    arrays = np.load(record.with_suffix(".npz"))
    models = {"Solver": ("solver", BLACK)}
    models |= {METHOD_NAMES[m]: (spec["cells"][m], COLOURS[m]) for m in METHOD_NAMES if m in spec["cells"]}

    figure = plt.figure(figsize=(11.0, 5.4))
    halves: Any = figure.subfigures(2, 1)
    top, bottom = halves
    maps = {name: arrays[f"{cell}:a"][0] for name, (cell, _) in models.items()}
    if len(layout.input_axes) == 1:
        _curves(top.subplots(), layout, known["truth"][0], maps, {name: colour for name, (_, colour) in models.items()})
    else:
        _fields(top, layout, known["truth"][0], maps, spec["colormap"])
    response, misfit, spectrum = bottom.subplots(1, 3)
    _response(response, layout, known, spec["colormap"])
    for name, (cell, colour) in models.items():
        misfit.plot(arrays[f"{cell}:misfits"], color=colour, label=name, marker=".", linewidth=1)
        values = arrays[f"{cell}:eigenvalues"]
        spectrum.plot(np.arange(1, len(values) + 1), values, color=colour, label=name, marker=".", linewidth=1)
    misfit.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
    spectrum.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
    misfit.set(xlabel="step", title="mean squared misfit / noise²")
    spectrum.set(xlabel="number", title="eigenvalue")
    largest = max(arrays[f"{cell}:eigenvalues"][0] for cell, _ in models.values())
    spectrum.set_ylim(1e-3, 3 * largest)
    for ax in (misfit, spectrum):
        log_scale(ax.yaxis)
    misfit.legend()
    return figure


def _distance(a: np.ndarray, wanted: np.ndarray) -> str:
    return f"{100 * np.linalg.norm(a - wanted) / np.linalg.norm(wanted):.0f} %"


def _curves(ax: Axes, layout: Layout, truth: np.ndarray, maps: dict[str, np.ndarray], colours: dict[str, str]) -> None:
    axis = layout.input_axes[0]
    nodes = layout.coordinates[layout.axes.index(axis)]
    ax.plot(nodes, truth, color="#bbbbbb", linewidth=4, label="truth")
    for name, a in maps.items():
        label = name if name == "Solver" else f"{name}, {_distance(a, maps['Solver'])}"
        ax.plot(nodes, a, color=colours[name], linewidth=1.2, label=label)
    ax.set(xlabel=f"${axis}$", title=f"input ${layout.inputs[0]}$: truth and MAP points")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _fields(top: Any, layout: Layout, truth: np.ndarray, maps: dict[str, np.ndarray], colormap: str) -> None:
    """Truth and MAP points side by side, with one colour scale. Of several fields the first is shown."""
    shown = {"truth": truth} | maps
    axes = top.subplots(1, len(shown))
    first = {name: field.reshape(-1, *layout.grid)[0] for name, field in shown.items()}
    limits = {"vmin": first["truth"].min(), "vmax": first["truth"].max()}
    for ax, (name, field) in zip(axes, first.items(), strict=True):
        image = ax.pcolormesh(*layout.coordinates[::-1], field, cmap=colormap, rasterized=True, **limits)
        kind = "" if name == "truth" else "MAP, "
        far = "" if name in ("truth", "Solver") else f", {_distance(shown[name], maps['Solver'])}"
        ax.set(xticks=[], yticks=[], aspect="equal", title=f"{kind}{name}{far}")
        ax.spines[:].set_visible(False)
    top.colorbar(image, ax=axes, shrink=0.8, format="%.2g")


def _response(ax: Axes, layout: Layout, known: dict[str, np.ndarray], colormap: str) -> None:
    field = known["u"][0].reshape(-1, *layout.grid)[0]
    image = ax.pcolormesh(*layout.coordinates[::-1], field, cmap=colormap, rasterized=True)
    ax.plot(*known["sensors"].T[::-1], "o", color="w", markeredgecolor="k", markersize=4)
    ax.set(xlabel=f"${layout.axes[1]}$", ylabel=f"${layout.axes[0]}$", title="response to the truth, and sensors")
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, format="%.2g")


if __name__ == "__main__":
    command.main("inverse", draw)
