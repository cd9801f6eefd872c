"""What snakemake shows while it runs: a line for each job, and on a terminal also a bar and what is running.

Snakemake's own output takes about seventeen lines for each job. The Snakefile puts this handler in the place of
snakemake's, so that it is there for every way of starting snakemake. Snakemake's log file, below .snakemake/log, keeps
all the details.
"""

import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from stcl.reporting import logs
from stcl.reporting.logs import clock

# What is the same at every start. All other messages are shown, because an unknown one may be important.
_USUAL = re.compile(
    r"Building DAG of jobs|Select jobs to execute|Assuming unrestricted shared filesystem|host:|Using shell:"
    r"|Conda environments: ignored|Workflow has started"
)
# The command of a job holds its whole spec. The log file has it.
_COMMAND = re.compile(r"RuleException:\s+CalledProcessError in file .*?Command '.*' (?=returned|died)", re.DOTALL)
# These are shown in another way, or are in the log file.
_UNSHOWN = {"workflow_started", "resources_info", "job_started", "progress", "shellcmd", "rulegraph"}


@dataclass(frozen=True)
class Job:
    name: str  # rule and wildcards, for example "train diffusion/N32/stcl/lam1/seed0"
    logs: tuple[str, ...]
    started: float
    collects: bool  # whether it only collects what others have made

    @classmethod
    def of(cls, record: Any) -> "Job":
        wildcards = (str(value) for name, value in record.wildcards.items() if name != "preset")
        name = " ".join([record.rule_name, "/".join(wildcards)]).strip()
        return cls(name, tuple(record.log), record.created, collects=not record.shellcmd)

    def advance(self, now: float) -> str:
        """How far the job is, as its log says. The log of an earlier attempt does not count."""
        for path in self.logs:
            log = logs.read(Path(path))
            if log and log.advance and log.written >= self.started - 1:
                return logs.describe(log.advance, now - log.written)
        return ""


class Terminal(logging.Handler):
    """A handler for snakemake's logger. `screen` is what shows the running jobs on a terminal."""

    def __init__(self, stream: TextIO, details: logging.Formatter | None, screen: "Screen | None" = None) -> None:
        super().__init__()
        self.stream, self.details, self.screen = stream, details, screen
        self.running: dict[int, Job] = {}
        self.failed: dict[str, str] = {}  # name to log
        self.stopped: dict[str, str] = {}
        self.done = self.total = 0
        self.started = time.time()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = list(self._lines(record))
        except Exception:  # the message must not be lost because this class does not understand it
            lines = self._in_full(record)
        try:
            if lines:
                self._write("\n".join(lines), record.levelno >= logging.ERROR)
            if self.screen and self.total > 1:  # a job that runs alone may write to the terminal itself
                self.screen.show(self)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        if self.screen:
            self.screen.close()
        super().close()

    def _lines(self, record: Any) -> Iterator[str]:
        event = getattr(record, "event", None)
        if event == "run_info":
            yield self._plan(record.stats)
        elif event == "job_info":
            job = self.running[record.jobid] = Job.of(record)
            if not job.collects and not self.screen:
                yield self._line("start", job.name)
        elif event == "job_finished":
            job = self.running.pop(record.job_id)
            self.done += 1
            for ended in (self.failed, self.stopped):
                ended.pop(job.name, None)  # it was tried again
            if not job.collects:
                counted = f"({self.done} of {self.total}, {clock(record.created - job.started)})"
                yield self._line("done", f"{job.name}  {counted}")
        elif event == "job_error":
            yield from self._error(record)
        elif event in _UNSHOWN or (record.levelno < logging.WARNING and _USUAL.match(record.getMessage())):
            return
        else:
            if record.getMessage().startswith("Complete log"):
                yield from self._unfinished()
            yield from (_COMMAND.sub("A command ", "\n".join(self._in_full(record)))).splitlines()

    def _plan(self, stats: dict[str, Any]) -> str:
        self.total = stats["total"]
        jobs = "job" if self.total == 1 else "jobs"
        return f"{self.total} {jobs}: " + ", ".join(f"{n} {rule}" for rule, n in stats.items() if rule != "total")

    def _error(self, record: Any) -> Iterator[str]:
        """The job, and the reason that its log gives. Where there is no log, everything that snakemake says.

        A job that was asked to stop has not failed.
        """
        job = self.running.pop(record.jobid)
        found = {path: log for path in record.log if (log := logs.read(Path(path))) and log.lines}
        stopped = any(log.stopped for log in found.values())
        (self.stopped if stopped else self.failed)[job.name] = ", ".join(found or record.log)
        yield self._line("stopped" if stopped else "FAILED", f"{job.name}  ({clock(record.created - job.started)})")
        told = [record.rule_msg, *(f"{name}: {value}" for name, value in record.aux.items())]
        yield from (f"    {line}" for message in filter(None, told) for line in str(message).splitlines())
        for path, log in () if stopped else found.items():
            yield f"    the end of {path}:"
            yield from (f"      {line}" for line in log.reason)
        if not found:
            yield from self._in_full(record)

    def _unfinished(self) -> Iterator[str]:
        """The jobs that did not come to their end, once more, because their lines have scrolled away."""
        for title, ended in (("stopped; the same command goes on", self.stopped), ("failed", self.failed)):
            if ended:
                yield f"{title}: {len(ended)} of {self.total} jobs"
                yield from (f"  {name}  {log}" for name, log in ended.items())

    def _in_full(self, record: logging.LogRecord) -> list[str]:
        text = self.details.format(record) if self.details else record.getMessage()
        return [line for line in (text or "").splitlines() if line.strip() and line != "None"]

    def _line(self, what: str, name: str) -> str:
        return f"{time.strftime('%H:%M:%S')} {what:<7} {name}"

    def _write(self, text: str, is_error: bool) -> None:
        if self.screen:
            self.screen.write(text, is_error)
        else:
            self.stream.write(f"{text}\n")
            self.stream.flush()


class Screen:
    """The lower part of a terminal: a bar, and a line for each running job. Written lines scroll above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self.shown: Terminal | None = None
        self.console = Console(file=stream, highlight=False)
        self.live = Live(console=self.console, get_renderable=self._render, refresh_per_second=1, transient=True)

    def show(self, terminal: Terminal) -> None:
        if self.shown is None:
            self.shown = terminal
            self.live.start()

    def write(self, text: str, is_error: bool) -> None:
        self.console.print(text, markup=False, soft_wrap=True, style="red" if is_error else None)

    def close(self) -> None:
        self.live.stop()

    def _render(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if self.shown is None:
            return Text()
        terminal, now = self.shown, time.time()
        running = [job for job in list(terminal.running.values()) if not job.collects]
        counts = [f"{terminal.done} of {terminal.total} jobs", f"{len(running)} running"]
        counts += [f"{len(terminal.failed)} failed"] if terminal.failed else []
        whole = Table.grid(padding=(0, 1), expand=True)
        whole.add_column(ratio=1)
        whole.add_column(no_wrap=True)
        bar = ProgressBar(total=terminal.total, completed=terminal.done)
        whole.add_row(bar, Text(", ".join([*counts, clock(now - terminal.started)])))
        jobs = Table.grid(padding=(0, 2))
        jobs.add_column(no_wrap=True, overflow="ellipsis", style="bold")
        jobs.add_column(no_wrap=True, justify="right")
        jobs.add_column(no_wrap=True, overflow="ellipsis")
        room = max(1, self.console.height - 4)
        for job in running[:room]:
            jobs.add_row(job.name, clock(now - job.started), job.advance(now))
        more = [Text(f"… and {len(running) - room} more")] if len(running) > room else []
        return Group(whole, jobs, *more)


def install(logger: logging.Logger, settings: Any) -> None:
    """Puts this output in the place of snakemake's, unless the options ask for another one.

    A dry run stays as it is, because its point is to say why each job would run. A logger plugin (`--logger`) leaves no
    default handler, and nothing is done.
    """
    asked = (settings.dryrun, settings.verbose, settings.printshellcmds, settings.debug_dag, settings.quiet)
    default = next((handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"), None)
    if any(asked) or not isinstance(default, logging.StreamHandler):
        return
    handler = Terminal(default.stream, default.formatter, _screen(default.stream, settings.nocolor))
    logger.removeHandler(default)
    logger.addHandler(handler)


def _screen(stream: TextIO, nocolor: bool) -> Screen | None:
    """The screen, where the stream is a terminal that can move its cursor and rich is installed."""
    if nocolor or not stream.isatty():
        return None
    try:
        screen = Screen(stream)
    except ImportError:
        return None
    return None if screen.console.is_dumb_terminal else screen
