"""Runs the code of a Markdown page: `python docs/site/run_tutorial.py` writes the pictures of docs/tutorial.md anew.

The blocks ```python are one program. A block ```text holds what was printed since the one before it.
"""

import contextlib
import io
import os
import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "tutorial.md"


class Output(NamedTuple):
    """What the page says that was printed, and what was."""

    shown: str
    printed: str


def run(page: Path, folder: Path) -> list[Output]:
    """Runs the page in a folder, in which its pictures are left."""
    namespace: dict = {"__name__": page.stem}
    outputs, printed = [], io.StringIO()
    with contextlib.chdir(folder):
        for kind, block in re.findall(r"^```(python|text)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            if kind == "python":
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, str(page), "exec"), namespace)
            else:
                outputs.append(Output(block, printed.getvalue()))
                printed = io.StringIO()
    return outputs


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for output in run(PAGE, PAGE.parent):
        print(output.printed, end="")
