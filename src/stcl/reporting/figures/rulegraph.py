"""This module draws the rules of the workflow from `snakemake --rulegraph`, without Graphviz.

snakemake --rulegraph | python -m stcl.reporting.figures.rulegraph docs/rulegraph.png
"""

import argparse
import re
import sys
from pathlib import Path

from stcl.reporting.figures.style import plt


def parse(dot: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The names of the nodes, and the edges from producer to consumer."""
    nodes = dict(re.findall(r'^\s*(\d+)\[label = "([^"]+)"', dot, re.MULTILINE))
    edges = re.findall(r"^\s*(\d+) -> (\d+)", dot, re.MULTILINE)
    return nodes, edges


def direct(edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges that do not follow from a longer way, each of them once."""
    after: dict[str, set[str]] = {}
    for producer, consumer in edges:
        after.setdefault(producer, set()).add(consumer)

    def reaches(start: str, end: str) -> bool:
        return end in after.get(start, ()) or any(reaches(node, end) for node in after.get(start, ()))

    return [
        (producer, consumer)
        for producer, consumer in dict.fromkeys(edges)
        if not any(reaches(between, consumer) for between in after[producer] if between != consumer)
    ]


def layers(nodes: dict[str, str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way from a source to each node. A source stands right before what it feeds."""
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for producer, consumer in edges:
            depth[consumer] = max(depth[consumer], depth[producer] + 1)
    for source in set(nodes) - {consumer for _, consumer in edges}:
        depth[source] = min((depth[consumer] - 1 for producer, consumer in edges if producer == source), default=0)
    return depth


def draw(dot: str, out: Path) -> None:
    nodes, edges = parse(dot)
    edges = direct(edges)
    depth = layers(nodes, edges)
    columns: dict[int, list[str]] = {}
    for node in nodes:
        columns.setdefault(depth[node], []).append(node)
    place: dict[str, tuple[float, float]] = {}
    for column in sorted(columns):
        # Each column is ordered by where its producers are, so that fewer arrows cross.
        def height(node: str) -> float:
            above = [place[p][1] for p, c in edges if c == node and p in place]
            return sum(above) / len(above) if above else 0.0

        members = sorted(columns[column], key=lambda n: (height(n), nodes[n]))
        for i, node in enumerate(members):
            place[node] = (1.9 * column, i - (len(members) - 1) / 2 + (0.22 if column % 2 else 0.0))
    figure, ax = plt.subplots(figsize=(1.5 * (max(columns) + 1), 0.6 + 0.62 * max(map(len, columns.values()))))
    boxes = {}
    for node, (x, y) in place.items():
        style = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#d55e00"}
        text = ax.text(x, y, nodes[node], ha="center", va="center", fontsize=8, bbox=style)
        boxes[node] = text.get_bbox_patch()
    for producer, consumer in edges:
        arrow = {"arrowstyle": "-|>", "color": "#999999", "linewidth": 0.8, "shrinkA": 1, "shrinkB": 2}
        arrow |= {"patchA": boxes[producer], "patchB": boxes[consumer]}
        # Arrows that pass a column bend away from the middle, where the boxes of that column are.
        outwards = 0.12 if place[producer][1] > 0 else -0.12
        arrow["connectionstyle"] = f"arc3,rad={outwards * (depth[consumer] - depth[producer] - 1)}"
        ax.annotate("", xy=place[consumer], xytext=place[producer], arrowprops=arrow, zorder=0)
    xs, ys = zip(*place.values(), strict=True)
    ax.set(xlim=(min(xs) - 0.9, max(xs) + 0.9), ylim=(max(ys) + 0.6, min(ys) - 0.6))
    ax.axis("off")
    figure.savefig(out, dpi=150, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stcl.reporting.figures.rulegraph", description="Draw a rule graph."
    )
    parser.add_argument("out", type=Path, help="PNG to write")
    draw(sys.stdin.read(), parser.parse_args().out)


if __name__ == "__main__":
    main()
