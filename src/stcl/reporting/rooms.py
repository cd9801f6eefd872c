"""The rooms of this package as a table and as a picture, both read off the imports."""

from pathlib import Path

from stcl.reporting.figures import graph
from stcl.runtime import provenance

TOP = "top level"
HOLDS = {
    "core": "layouts, the base class of settings, the interfaces `DiscreteEquation`, `Metric` and `TangentForm`, "
    "errors, functions on arrays",
    "problems": "one file per PDE: prior, reference solver, exact tangents, residual",
    "operators": "the Fourier neural operator, with value and tangents in one pass; C for its rows",
    "tangent": "the operator A and the equation A w + B v = 0: residual, products, unknowns, Krylov solvers, structure",
    "losses": "forms, metrics, the rule that chooses them, directions, weighting, objectives",
    TOP: "the public library: `equation`, `consistency`, `probe`, `diagnosis`, `tangents`, `inverse`; `runs`, which "
    "reads what the workflow wrote; `cli`, the command `stcl`",
    "study": "a study on paper: configuration, cells, specs of jobs, plan, cost; no torch",
    "runtime": "what jobs run on: stores, checkpoints, devices, processes, progress, signals, the identity of code",
    "stages": "the jobs, one module each: data, bank, train, evaluate, select, timing, conditioning, inverse",
    "reporting": "what is shown of runs: tables, figures, the report, generated pages, the status and the terminal",
}
# One reads what the workflow wrote, and the other is the command, which calls both sides. No other module of the
# library imports the workflow. The page says so in a sentence. Arrows for them would hide the rule that they are the
# exceptions of.
EXCEPTIONS = {"stcl.runs", "stcl.cli"}

WORKFLOW = 3.3  # the first row of the picture that belongs to the workflow
PICTURE = {  # column, row, and a few words
    "core": (0, 1.5, "layouts, settings,\ninterfaces"),
    "problems": (1.5, 0, "five PDEs"),
    "operators": (1.5, 1, "the network\nand its tangents"),
    "tangent": (1.5, 2.2, "A w + B v = 0"),
    "losses": (3, 1.5, "forms, metrics,\nrule, weighting"),
    TOP: (4.5, 1.5, "Equation,\nTangentConsistency,\ndiagnose"),
    "runtime": (1.5, 4.2, "stores, checkpoints,\ndevices"),
    "study": (3, 3.3, "configuration,\nplan, specs"),
    "stages": (4.5, 3.3, "data, bank, train,\nevaluate, …"),
    "reporting": (4.5, 4.6, "tables, figures,\nreport"),
}


def graph_of_rooms() -> dict[str, set[str]]:
    """The rooms that each room imports, without what the two exceptions import of the workflow."""
    found: dict[str, set[str]] = {room: set() for room in HOLDS}
    for module in provenance.modules():
        rooms = {_room(imported) for imported in provenance.imports(module) - {provenance.PACKAGE}}
        found[_room(module)] |= rooms - {_room(module)} - (_workflow() if module in EXCEPTIONS else set())
    return found


def _workflow() -> set[str]:
    return {room for room, (_, row, _) in PICTURE.items() if row >= WORKFLOW}


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in HOLDS else TOP


def table() -> str:
    """What each room holds and what it imports, in Markdown."""
    imports = graph_of_rooms()
    lines = ["| room | holds | imports |", "|---|---|---|"]
    for room, holds in HOLDS.items():
        lines.append(f"| {room} | {holds} | {', '.join(r for r in HOLDS if r in imports[room]) or 'nothing'} |")
    return "\n".join(lines)


def description() -> str:
    """The imports between rooms in one line, which the picture carries with it."""
    return "; ".join(f"{room}: {', '.join(sorted(imported))}" for room, imported in graph_of_rooms().items())


def draw(out: Path) -> None:
    """Draw the rooms, each to the right of what it imports: the library above, the workflow below it."""
    edges = [(imported, room) for room, found in graph_of_rooms().items() for imported in sorted(found)]
    labels = {room: f"$\\bf{{{room.replace(' ', '~')}}}$\n{few}" for room, (_, _, few) in PICTURE.items()}
    places = {room: (x, y) for room, (x, y, _) in PICTURE.items()}
    colours = dict.fromkeys(_workflow(), "#0072b2")
    graph.draw(labels, edges, out, places, colours, {"Description": description()})
