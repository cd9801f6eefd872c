"""The drawing of a directed graph in layers, without Graphviz."""

from pathlib import Path

from stcl.reporting.figures.style import plt

Edges = list[tuple[str, str]]  # from producer to consumer
Places = dict[str, tuple[float, float]]  # column and row of each node

COLOUR = "#d55e00"


def direct(edges: Edges) -> Edges:
    """The edges without those that follow from a longer way, each once."""
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


def layers(nodes: dict[str, str], edges: Edges) -> dict[str, int]:
    """The longest way from a source to each node. A source stands right before what it feeds."""
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for producer, consumer in edges:
            depth[consumer] = max(depth[consumer], depth[producer] + 1)
    for source in set(nodes) - {consumer for _, consumer in edges}:
        depth[source] = min((depth[consumer] - 1 for producer, consumer in edges if producer == source), default=0)
    return depth


def arrange(nodes: dict[str, str], edges: Edges) -> Places:
    """A place for each node: a column for each layer, ordered by where the producers are, so that few arrows cross."""
    depth = layers(nodes, edges)
    columns: dict[int, list[str]] = {}
    for node in nodes:
        columns.setdefault(depth[node], []).append(node)
    places: Places = {}
    for column in sorted(columns):

        def height(node: str) -> float:
            above = [places[p][1] for p, c in edges if c == node and p in places]
            return sum(above) / len(above) if above else 0.0

        members = sorted(columns[column], key=lambda n: (height(n), nodes[n]))
        for i, node in enumerate(members):
            places[node] = (column, i - (len(members) - 1) / 2 + (0.22 if column % 2 else 0.0))
    return places


def draw(
    nodes: dict[str, str],
    edges: Edges,
    out: Path,
    places: Places | None = None,
    colours: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Draw the nodes, given by name and label, and their direct edges; the PNG carries the metadata."""
    edges = direct(edges)
    places = places or arrange(nodes, edges)
    xs, ys = zip(*places.values(), strict=True)
    width, height = max(xs) - min(xs) + 1, max(ys) - min(ys) + 1
    figure, ax = plt.subplots(figsize=(1.5 * width, 0.6 + 0.62 * height))
    boxes = {}
    for node, (x, y) in places.items():
        style = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": (colours or {}).get(node, COLOUR)}
        text = ax.text(1.9 * x, y, nodes[node], ha="center", va="center", fontsize=8, bbox=style)
        boxes[node] = text.get_bbox_patch()
    for producer, consumer in edges:
        arrow = {"arrowstyle": "-|>", "color": "#999999", "linewidth": 0.8, "shrinkA": 1, "shrinkB": 2}
        arrow |= {"patchA": boxes[producer], "patchB": boxes[consumer]}
        # Arrows that pass a column bend away from the middle, where the boxes of that column are.
        outwards = 0.12 if places[producer][1] > 0 else -0.12
        passed = max(places[consumer][0] - places[producer][0] - 1, 0)
        arrow["connectionstyle"] = f"arc3,rad={outwards * passed}"
        ends = [(1.9 * x, y) for x, y in (places[consumer], places[producer])]
        ax.annotate("", xy=ends[0], xytext=ends[1], arrowprops=arrow, zorder=0)
    ax.set(xlim=(1.9 * min(xs) - 0.9, 1.9 * max(xs) + 0.9), ylim=(max(ys) + 0.7, min(ys) - 0.6))
    ax.axis("off")
    figure.savefig(out, dpi=150, metadata={"Software": None} | (metadata or {}))
    plt.close(figure)
