"""Options that the commands of several stages share."""

import argparse
from pathlib import Path


def add_resuming(parser: argparse.ArgumentParser, work: str) -> None:
    """Where unfinished work is kept, and what must be the same for it to be continued."""
    parser.add_argument("--work", type=Path, default=Path(work), help="folder of unfinished work")
    parser.add_argument(
        "--code", default="", help="identity of the code, which is recorded; a run with another one does not resume"
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
