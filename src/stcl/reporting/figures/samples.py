"""The figure `samples` shows one test sample with each method's prediction and error, for response and tangent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stcl import problems
from stcl.core.layout import Layout
from stcl.operators.build import trained_surrogate
from stcl.operators.settings import Network
from stcl.reporting.figures import command
from stcl.reporting.figures.style import plt
from stcl.runtime import checkpoint, stores
from stcl.runtime.ending import end
from stcl.study.names import METHOD_NAMES


def draw(spec: dict[str, Any], inputs: list[Path]) -> Figure:
    """The figure shows the first sample along the first direction, and the first of several components.

    `inputs` are records of training, one per method, and the manifests of the test split and of the test bank.
    """
    records = {path: json.loads(path.read_text()) for path in inputs}
    order = list(METHOD_NAMES)
    runs = [path for path in inputs if "method" in records[path]["spec"]]
    runs.sort(key=lambda run: order.index(records[run]["spec"]["method"]))
    trained = records[runs[0]]["spec"]
    layout = problems.load(trained["problem"], **trained["options"]).layout
    arrays: dict[str, np.ndarray] = {}
    for manifest in inputs:
        if manifest not in runs:
            arrays |= stores.read(manifest, samples=1)
    a, u, v, w = arrays["a"], layout.score(arrays["u"]), arrays["v"][:1], arrays["w"][:, :1]
    predictions = [_predict(run, records[run], layout, a, v) for run in runs]

    lines = 1 + len(runs)
    figure, axes = plt.subplots(lines, 4, figsize=(9.6, 0.3 + 2.2 * lines), squeeze=False)
    names = [
        f"input {_symbol(layout.inputs[0])}",
        f"response {_symbol(layout.responses[0])}",
        "direction $v$",
        "tangent $w$",
    ]
    for ax, name, field in zip(axes[0], names, (a, u, v, w), strict=True):
        _show(ax, field, layout, name, spec["colormap"])
    axes[0, 0].set_ylabel("reference")
    axes[0, 1].set(xlabel=_symbol(layout.axes[1]), ylabel=_symbol(layout.axes[0]))
    error_limits = [max(np.abs(p[i] - (u, w)[i]).max() for p in predictions) for i in (0, 1)]
    for row, run, predicted in zip(axes[1:], runs, predictions, strict=True):
        for i, (reference, symbol) in enumerate(((u, r"$S_\theta(a)$"), (w, r"$DS_\theta(a)[v]$"))):
            error = predicted[i] - reference
            percent = 100 * np.linalg.norm(error) / np.linalg.norm(reference)
            limits = (reference.min(), reference.max())
            _show(row[2 * i], predicted[i], layout, symbol, spec["colormap"], limits)
            bound = (-error_limits[i], error_limits[i])
            _show(row[2 * i + 1], error, layout, f"error, {percent:.1f} %", "RdBu_r", bound)
        row[0].set_ylabel(METHOD_NAMES[records[run]["spec"]["method"]])
    return figure


def _predict(run: Path, record: dict, layout: Layout, a: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weights = checkpoint.load_weights(run.with_name("weights.pt"), record)
    surrogate = trained_surrogate(layout, Network.model_validate(record["spec"]["network"]), weights)
    with torch.no_grad():
        u, w = surrogate.value_and_tangents(torch.from_numpy(a), torch.from_numpy(v))
    return layout.score(u).numpy(), layout.score(w).numpy()


def _symbol(name: str) -> str:
    """A name such as y1 with its index below."""
    return f"${name.rstrip('0123456789')}_{{{name[len(name.rstrip('0123456789')) :]}}}$"


def _show(ax: Axes, field: np.ndarray, layout: Layout, title: str, colormap: str, limits: tuple | None = None) -> None:
    """Draws one field over the grid, its first axis upwards. An input that lacks an axis is drawn as a curve."""
    field = field.reshape(-1, *field.shape[-len(layout.grid) :])[0] if field.ndim > 2 else field[0]
    ax.set_title(title)
    if field.ndim == 1:
        axis = layout.input_axes[0]
        ax.plot(layout.coordinates[layout.axes.index(axis)], field, color="k", linewidth=1)
        ax.set_xlabel(_symbol(axis))
        return
    low, high = limits if limits is not None else (field.min(), field.max())
    image = ax.pcolormesh(*layout.coordinates[::-1], field, cmap=colormap, vmin=low, vmax=high, rasterized=True)
    ax.set(xticks=[], yticks=[], aspect="equal" if len(set(layout.lengths)) == 1 else "auto")
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, format="%.2g")


if __name__ == "__main__":
    command.main("samples", draw)
    end()
