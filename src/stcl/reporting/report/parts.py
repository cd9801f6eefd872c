"""A report is made of these parts, whatever it is written as. Text may hold `code` and **important words**."""

import json
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    level: int  # 1 is the page's title
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Grid:
    """A table as people read it."""

    header: list[str]
    body: list[list[str]]
    caption: str = ""
    folded: bool = False  # a long table is shown on demand

    def numbers(self) -> list[bool]:
        """Whether each column holds numbers: half of what is known in it starts with one. The first names rows."""
        columns = [[cell for cell in column if cell != "—"] for column in zip(*self.body, strict=True)]
        starts = [[bool(re.match(r"[-−]?\d", cell)) for cell in column] for column in columns]
        return [i > 0 and 2 * sum(found) >= len(found) for i, found in enumerate(starts)]


@dataclass(frozen=True)
class Picture:
    png: Path
    title: str


Part = Heading | Text | Grid | Picture


def read_grid(path: Path) -> Grid:
    """The table that `stcl.reporting.tables` wrote as JSON."""
    shown = json.loads(path.read_text())
    return Grid(shown["header"], shown["body"], shown["caption"])
