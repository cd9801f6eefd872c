"""What the log of a job says: how far it is, and why it ended.

A log is the one trace that every job leaves, on a cluster too and after a kill. `runtime.progress` writes the lines
that are read here; a test holds the two together. No job imports this module, so an edit of it makes nothing stale.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from stcl.reporting import endings

REASON_LINES = 20

_PROGRESS = re.compile(r".+: (\w+) (\d+)/(\d+), (\S+)/s, (\d+):(\d\d):(\d\d) left(?:  (.*))?")
_LOSSES = re.compile(r"data (\S+) .*? val \S+ \((\S+) %\)")


@dataclass(frozen=True)
class Advance:
    """How far a job was when it wrote the last line about it."""

    unit: str  # for example "epoch"
    done: int
    total: int
    rate: float  # units a second
    left: float  # seconds
    note: str = ""

    @property
    def losses(self) -> str:
        """The data loss and the validation error of a training."""
        found = _LOSSES.search(self.note)
        return f"data {float(found[1]):.1e}  val {found[2]} %" if found else ""


@dataclass(frozen=True)
class Log:
    """The end of a log."""

    written: float  # when the last line came, in seconds since 1970
    lines: tuple[str, ...]

    @property
    def advance(self) -> Advance | None:
        """The last line about progress, if there is one."""
        found = next(filter(None, map(_PROGRESS.fullmatch, reversed(self.lines))), None)
        if found is None:
            return None
        unit, done, total, rate, hours, minutes, seconds, note = found.groups()
        left = 3600 * int(hours) + 60 * int(minutes) + int(seconds)
        return Advance(unit, int(done), int(total), float(rate), left, note or "")

    @property
    def failed(self) -> bool:
        """Whether the job said that it failed. A job that was killed could not say anything."""
        return endings.failed(self.lines)

    @property
    def stopped(self) -> bool:
        """Whether the job ended because it was asked to: by Ctrl-C, or by a signal that made it save its state."""
        return endings.stopped(self.lines)

    @property
    def reason(self) -> list[str]:
        """The error or the traceback. Where there is none, the last lines."""
        starts = [i for i, line in enumerate(self.lines) if line.startswith(endings.ERROR)]
        return list(self.lines[starts[0] :][-REASON_LINES:] if starts else self.lines[-5:])


def read(path: Path) -> Log | None:
    """The end of a log, or None if there is no log."""
    try:
        written = path.stat().st_mtime
    except OSError:
        return None
    return Log(written, endings.last_lines(path))


def clock(seconds: float) -> str:
    """A duration as hours, minutes and seconds."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def describe(advance: Advance, age: float) -> str:
    """How far a job is. `age` is the number of seconds since it said so."""
    parts = [f"{advance.unit} {advance.done}/{advance.total}", advance.losses, f"{clock(advance.left - age)} left"]
    return "  ".join(filter(None, parts))
