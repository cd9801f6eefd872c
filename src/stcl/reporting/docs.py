"""This module writes pages from the code, so that they cannot disagree with it.

python -m stcl.reporting.docs      writes what `make docs` is for, below
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stcl.reporting import agreement, beyond, rooms
from stcl.study.schema import Config

CONFIG_PAGE = Path("config/README.md")
SCHEMA = Path("workflow/schemas/config.schema.json")
RULE_GRAPH = Path("docs/rulegraph.png")
ARCHITECTURE = Path("docs/architecture.md")
ROOMS = Path("docs/rooms.png")
MARKS = ("<!-- rooms: written by `make docs` from the imports -->", "<!-- end of rooms -->")

INTRODUCTION = """\
# Configuration

A study is one YAML file. `config.yaml` is the quick study that `snakemake` runs by default; give another one with
`snakemake --configfile config/paper.yaml`. A file given on the command line replaces the default one as a whole.

The file is checked before any job starts: unknown keys, wrong types and values that cannot work together are refused,
all of them in one message. Keys with a default can be left out. Editors that know JSON Schema complete the keys after
this first line:

    # yaml-language-server: $schema=../workflow/schemas/config.schema.json

Changing a key reruns the jobs that depend on it and no others. Threads, memory and partitions are not here: they belong
to the machine, in `profiles/`.

This page is written by `make docs` from `schema.py` and `protocol.py` of `src/stcl/study` and from the `settings.py` of
`src/stcl/losses` and `src/stcl/operators`.
"""


def schema() -> dict[str, Any]:
    """The configuration as JSON Schema."""
    return Config.model_json_schema()


def config_page() -> str:
    """The page with every key, its type, default and meaning, one section per group."""
    found = schema()
    groups = {"Config": {k: v for k, v in found.items() if k != "$defs"}} | found["$defs"]
    sections = [_section(name, groups[name]) for name in _in_order(groups)]
    return "\n".join([INTRODUCTION, *sections])


def architecture_page(page: str) -> str:
    """The page on the architecture with its table of rooms written anew."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return "\n".join([before + MARKS[0], "", rooms.table(), "", MARKS[1] + after])


def _in_order(groups: dict[str, Any]) -> list[str]:
    """The groups in the order in which a reader of the file meets them."""
    met: list[str] = []

    def visit(name: str) -> None:
        if name in met:
            return
        met.append(name)
        for reference in _references(groups[name]):
            visit(reference)

    visit("Config")
    return met


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else []
        return own + [r for key, value in node.items() if key != "discriminator" for r in _references(value)]
    return [r for value in node for r in _references(value)] if isinstance(node, list) else []


def _section(name: str, group: dict[str, Any]) -> str:
    lines = [f"## {name}", "", group.get("description", ""), ""]
    if group.get("properties"):
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        required = group.get("required", [])
        for key, value in group["properties"].items():
            default = "required" if key in required else _default(value)
            lines.append(f"| `{key}` | {_type(value)} | {default} | {value.get('description', '')} |")
        lines.append("")
    return "\n".join(lines)


def _default(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return "its own defaults"
    return f"`{json.dumps(value['default'])}`" if value.get("default") is not None else ""


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value or "oneOf" in value:
        choices = value.get("anyOf") or value["oneOf"]
        return " or ".join(dict.fromkeys(_type(choice) for choice in choices if choice.get("type") != "null"))
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    if "additionalProperties" in value and isinstance(value["additionalProperties"], dict):
        return f"{_type(value['additionalProperties'])} by name"
    if "patternProperties" in value:
        return f"{_type(next(iter(value['patternProperties'].values())))} by name"
    limits = [
        f"{symbol} {value[key]:g}"
        for key, symbol in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("exclusiveMaximum", "<"), ("maximum", "≤"))
        if key in value
    ]
    return " ".join([value.get("type", "any"), *limits])


def main() -> None:
    CONFIG_PAGE.write_text(config_page())
    ARCHITECTURE.write_text(architecture_page(ARCHITECTURE.read_text()))
    rooms.draw(ROOMS)
    agreement.write(Path())
    beyond.write(Path())
    SCHEMA.write_text(json.dumps(schema(), indent=1, sort_keys=True) + "\n")
    # One rule of evaluation stands for the rules of all blocks that the quick study has.
    graph = subprocess.run(
        [sys.executable, "-m", "snakemake", "--rulegraph", "--config", "evaluation={jobs: cell}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    subprocess.run(
        [sys.executable, "-m", "stcl.reporting.figures.rulegraph", str(RULE_GRAPH)], check=True, input=graph, text=True
    )


if __name__ == "__main__":
    main()
