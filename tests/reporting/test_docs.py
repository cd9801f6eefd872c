"""The generated pages are those that the code would write now."""

import json
from pathlib import Path

from stcl.reporting import docs

PROJECT = Path(__file__).parents[2]


def test_the_configuration_page_is_current():
    assert (PROJECT / docs.CONFIG_PAGE).read_text() == docs.config_page(), "run: make docs"


def test_the_schema_is_current():
    assert json.loads((PROJECT / docs.SCHEMA).read_text()) == docs.schema(), "run: make docs"


def test_every_key_is_explained():
    groups = [docs.schema(), *docs.schema()["$defs"].values()]
    silent = [
        f"{g.get('title')}.{k}" for g in groups for k, v in g.get("properties", {}).items() if "description" not in v
    ]
    assert silent == []
