"""How a job ended, by the last lines of its log.

Tables say which trainings failed, so they are made again when this module changes. What is shown of running jobs is in
`logs`, which no table reads.
"""

import os
from collections.abc import Sequence
from pathlib import Path

TAIL_BYTES = 16_384  # enough for a long traceback; a log of a night is a hundred times as long
ERROR = ("error:", "Traceback")  # the first words of what a job says when it fails


def last_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that are not empty. There are none if there is no log."""
    try:
        with log.open("rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES)
            file.seek(start)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(line for line in lines[1 if start else 0 :] if line.strip())


def failed(lines: Sequence[str]) -> bool:
    """Whether the job said that it failed. A job that was killed could not say anything."""
    return not stopped(lines) and any(line.startswith(ERROR) for line in lines)


def stopped(lines: Sequence[str]) -> bool:
    """Whether the job ended because it was asked to: by Ctrl-C, or by a signal that made it save its state."""
    return bool(lines) and (lines[-1] == "KeyboardInterrupt" or lines[-1].startswith("stopped by "))
