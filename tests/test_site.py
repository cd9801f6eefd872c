"""The documentation as a site: it has every page, and it is built without a warning."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import stcl

PROJECT = Path(__file__).parents[1]
CONF = runpy.run_path(str(PROJECT / "docs/site/conf.py"))


def test_the_site_has_every_page_of_the_documentation():
    pages = [page for pages in CONF["CONTENTS"].values() for page in pages]
    assert all((PROJECT / f"{page}.md").is_file() for page in pages)
    assert len(set(pages)) == len(pages)
    written = {path.relative_to(PROJECT).with_suffix("").as_posix() for path in (PROJECT / "docs").rglob("*.md")}
    assert written <= set(pages)


def test_the_site_has_every_public_name_and_example():
    names = re.findall(r"^\.\. auto\w+:: stcl\.(\w+)$", CONF["_names"](), re.MULTILINE)
    assert sorted(set(names) - {"inverse"}) == list(stcl.NAMES)
    assert "inverse" in names  # a module of its own
    shown = re.findall(r"literalinclude} /(\S+)", CONF["_examples"]())
    assert sorted(shown) == sorted(p.relative_to(PROJECT).as_posix() for p in (PROJECT / "examples").rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("‖A w‖² and |r| for [B, *grid]", r"‖A w‖² and \|r\| for [B, \*grid]"),
        ("what `a_` is, and u_θ", "what ``a_`` is, and u_θ"),
        ("from `x` to x_", r"from ``x`` to x\_"),
    ],
)
def test_plain_text_stays_plain(text, expected):
    assert CONF["_escaped"](text) == expected


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="needs the extra docs: make site")
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    """A warning ends the command. Links to other hosts are for readers; nothing is loaded from there."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "-d", str(tmp_path / "trees")]
    command += ["-c", "docs/site", ".", str(tmp_path / "site")]
    subprocess.run(command, cwd=PROJECT, check=True)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert tmp_path / "site/index.html" in pages
    for page in pages:
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', text)
        assert not re.findall(r'<link[^>]+rel="(?:stylesheet|preload|preconnect)"[^>]+href="(?:https?:)?//', text)
    assert "TangentConsistency" in (tmp_path / "site/docs/site/api.html").read_text()
