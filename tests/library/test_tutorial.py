"""The tutorial runs, prints what it says that it prints, and draws the pictures that it shows."""

import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_the_tutorial_says_what_it_prints(tmp_path):
    """The words are the same. The numbers of a training differ by rounding on another machine, and are near."""
    tutorial = runpy.run_path(str(DOCS / "site/run_tutorial.py"))
    outputs = tutorial["run"](DOCS / "tutorial.md", tmp_path)
    assert len(outputs) == 6
    for shown, printed in outputs:
        assert NUMBER.sub("#", shown) == NUMBER.sub("#", printed)
        expected, found = ([float(number) for number in NUMBER.findall(text)] for text in (shown, printed))
        assert found == pytest.approx(expected, rel=0.25, abs=0.005)
    shown = set(re.findall(r"\]\(([\w-]+\.png)\)", (DOCS / "tutorial.md").read_text()))
    assert {path.name for path in tmp_path.glob("*.png")} == shown
    for name in shown:
        with Image.open(DOCS / name) as kept, Image.open(tmp_path / name) as drawn:
            assert kept.size == drawn.size
        assert (DOCS / name).stat().st_size < 80_000
