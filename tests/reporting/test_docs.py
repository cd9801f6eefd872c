"""The generated pages are those that the code would write now."""

import importlib
import json
import re
from pathlib import Path

import pytest
from PIL import Image

from stcl.reporting import docs, rooms

PROJECT = Path(__file__).parents[2]


def test_the_configuration_page_is_current():
    assert (PROJECT / docs.CONFIG_PAGE).read_text() == docs.config_page(), "run: make docs"


def test_the_schema_is_current():
    assert json.loads((PROJECT / docs.SCHEMA).read_text()) == docs.schema(), "run: make docs"


def test_the_table_of_rooms_is_current():
    page = (PROJECT / docs.ARCHITECTURE).read_text()
    assert page == docs.architecture_page(page), "run: make docs"
    assert rooms.table() in page


def test_the_picture_of_the_rooms_is_current():
    """It carries the imports that it was drawn from."""
    with Image.open(PROJECT / docs.ROOMS) as picture:
        assert picture.info["Description"] == rooms.description(), "run: make docs"


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/agreement.md", "docs/beyond.md"]
)
def test_what_a_page_names_is_there(page):
    """Links lead to files, and names such as `study/plan.py` or `stages.train.train_cell` exist in src/stcl."""
    text, here = (PROJECT / page).read_text(), (PROJECT / page).parent
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (here / link).exists(), link
    package = PROJECT / "src/stcl"
    for name in re.findall(r"`((?:\w+/)*\w+\.(?:py|c))\b", text):
        assert list(package.rglob(name)) or (PROJECT / name).exists(), name
    for name in re.findall(r"`((?:core|tangent|losses|operators|study|runtime|stages|reporting)(?:\.\w+)+)`", text):
        assert resolved(f"stcl.{name}"), name


def resolved(name: str) -> bool:
    """Whether the longest beginning of a name that is a module has what follows."""
    parts = name.split(".")
    for depth in range(len(parts), 1, -1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_every_key_is_explained():
    groups = [docs.schema(), *docs.schema()["$defs"].values()]
    silent = [
        f"{g.get('title')}.{k}" for g in groups for k, v in g.get("properties", {}).items() if "description" not in v
    ]
    assert silent == []
