"""How far a study is: what is done, running, stopped and failed. `stcl status` prints the page that is made here.

Nothing is asked of a running process, so the page is the same on every machine that sees the folder, and after a crash.
A job is

- done if its file is there, says that it was made from what the study asks for now, and all that it needs is done;
- failed if its log says so;
- running if snakemake has marked it as begun, its log is younger than the mark and has not been silent for long;
- stopped if its log ends on the way;
- waiting otherwise.

Code that has changed since is not seen here. `snakemake -n` is the last word on what would be made again.
"""

import json
import os
import time
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stcl.reporting import logs
from stcl.reporting.jobs import Job, jobs
from stcl.reporting.logs import Log, clock
from stcl.study.coercion import plain
from stcl.study.config import parse
from stcl.study.plan import Plan

CONFIG = "config.json"  # below the results: the configuration of the last run
STATES = ("done", "running", "waiting", "stopped", "failed")
# A job that reports its progress and has said nothing for so long, and for ten times as long as a step takes, is dead.
SILENT_SECONDS = 600.0
FRESH_SECONDS = 60.0
SHOWN = 10  # jobs of a state that a page shows
REASON_LINES = 5


class StatusError(ValueError):
    """There is no study to report on; the message says what to do."""


# -- the study ----------------------------------------------------------------------------------------------------


def keep_config(config: dict[str, Any], folder: Path) -> None:
    """Writes the configuration beside the results, so that `stcl status` knows what the study consists of.

    It is the configuration as it was given. A validated one has every key, and a method that was left out would look
    like one with its defaults.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{CONFIG}.{os.getpid()}"
    partial.write_text(json.dumps(plain(config), indent=1) + "\n")
    partial.replace(folder / CONFIG)


def studies(folders: list[Path], configfile: Path | None) -> list[tuple[Path, Plan]]:
    """The folders of results with their plans. Without a folder these are all below `results`."""
    if configfile is not None:
        import yaml

        plan = Plan(parse(yaml.safe_load(configfile.read_text())))
        if len(folders) > 1:
            raise StatusError("a configuration belongs to one folder of results; name one folder or none")
        return [(folders[0] if folders else Path(plan.results), plan)]
    return [(folder, _kept_plan(folder)) for folder in folders or _started()]


def _started() -> list[Path]:
    """The folders below `results` in which a study has been started."""
    folders = sorted(path.parent for path in Path("results").glob(f"*/{CONFIG}"))
    if not folders:
        raise StatusError(
            f"no study has been started here: there is no results/*/{CONFIG}. Call `stcl status` in the folder of the "
            f"Snakefile, or name the study: stcl status --configfile config/config.yaml"
        )
    return folders


def _kept_plan(folder: Path) -> Plan:
    if not (folder / CONFIG).exists():
        raise StatusError(
            f"{folder} has no {CONFIG}, which snakemake leaves there when it starts; name the study: "
            f"stcl status {folder} --configfile FILE"
        )
    try:
        return Plan(parse(json.loads((folder / CONFIG).read_text())))
    except (ValueError, OSError) as error:
        raise StatusError(
            f"{folder / CONFIG}: {error}\nRun the study again, or name its configuration: "
            f"stcl status {folder} --configfile FILE"
        ) from error


# -- the state of its jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A job, its state, and what there is to say about it."""

    job: Job
    state: str  # one of STATES
    log: Log | None = None
    begun: float | None = None  # when snakemake began it, if it is running


class Marks:
    """What snakemake notes about jobs it has begun, in the .snakemake beside the folder `results`."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        self.results = f"results/{folder.name}"
        self.base = folder.parents[1] / ".snakemake"
        self.begun = dict(self._begun())
        self.locked = self._is_locked()

    def _begun(self) -> Iterator[tuple[str, float]]:
        """The files of jobs that began and have not ended, and when they began. Names are paths in base64."""
        root = self.base / "incomplete"
        for mark in root.rglob("*"):
            try:
                name = "".join(part.removeprefix("@") for part in mark.relative_to(root).parts)
                if mark.is_file():
                    yield urlsafe_b64decode(name).decode(), mark.stat().st_mtime
            except (OSError, ValueError):  # gone in the meantime, or not one of these
                continue

    def _is_locked(self) -> bool:
        """Whether snakemake is making something of these results, or was killed while it did."""
        with suppress(OSError):  # the lock may go while it is read
            return any(f"{self.results}/" in lock.read_text() for lock in self.base.glob("locks/*.output.lock"))
        return False

    def of(self, job: Job) -> float | None:
        return self.begun.get(f"{self.results}/{job.file}")


def read(folder: Path, plan: Plan, now: float) -> list[Found]:
    """Every job of a study with its state."""
    marks = Marks(folder)
    done: set[str] = set()
    known = jobs(plan)
    made = {job.file for job in known}
    found = []
    for job in known:
        begun = marks.of(job)
        ready = all(file in done for file in job.needs if file in made)
        if begun is None and ready and _is_made(folder / job.file, job):
            done.add(job.file)
            found.append(Found(job, "done"))
        else:
            log = logs.read(folder / job.log)
            found.append(Found(job, _state(log, begun, (folder / job.file).exists(), marks.locked, now), log, begun))
    return found


def _is_made(path: Path, job: Job) -> bool:
    """Whether the file is there and was made from the job's spec. A λ that validation chooses is not in the spec.

    A training that diverged has left a file only if it was one that tuned λ. It is not one of the final cells.
    """
    spec = job.spec
    if spec is None or not path.exists():
        return path.exists()
    try:
        made = json.loads(path.read_text())
        recorded = made["spec"]
    except (OSError, ValueError, KeyError):
        return False
    chosen = {"lam": recorded.get("lam")} if "lam" in spec and spec["lam"] is None else {}
    return recorded == spec | chosen and (job.tuning or made.get("ended") != "diverged")


def _state(log: Log | None, begun: float | None, made: bool, locked: bool, now: float) -> str:
    if log is None or (made if begun is None else log.written < begun):
        return "waiting"  # the log tells of an earlier attempt
    if log.failed:
        return "failed"
    if begun is not None and not log.stopped and _is_alive(log, locked, now):
        return "running"
    return "stopped" if log.advance and log.advance.done < log.advance.total else "waiting"


def _is_alive(log: Log, locked: bool, now: float) -> bool:
    """Whether a job that began still runs. Snakemake leaves its lock and its marks if it is killed."""
    silence = now - log.written
    if not locked:
        return silence < FRESH_SECONDS  # snakemake has ended, or runs with --nolock
    return log.advance is None or silence < max(SILENT_SECONDS, 10 / max(log.advance.rate, 1e-9))


# -- the page -----------------------------------------------------------------------------------------------------


def page(folder: Path, plan: Plan, now: float | None = None, everything: bool = False) -> str:
    """The state of a study as text."""
    now = time.time() if now is None else now
    found = read(folder, plan, now)
    total = Counter(item.state for item in found)
    head = [f"{total['done']} of {len(found)} jobs done", *(f"{total[s]} {s}" for s in STATES[1:] if total[s])]
    lines = [f"{folder}: {', '.join(head)}", "", *_counts(found)]
    for state, title, tell in (
        ("running", "running", _running),
        ("stopped", "stopped; the same command goes on", _stopped),
        ("failed", "failed", _failed),
    ):
        chosen = [item for item in found if item.state == state]
        shown = chosen if everything else chosen[:SHOWN]
        if chosen:
            lines += ["", title, *(line for item in shown for line in tell(item, folder, now))]
        if len(chosen) > len(shown):
            lines.append(f"  … and {len(chosen) - len(shown)} more; --all shows them")
    return "\n".join(lines)


def _counts(found: list[Found]) -> Iterator[str]:
    """A row for each kind of job."""
    counts = Counter((item.job.kind, item.state) for item in found)
    yield f"  {'':<14}" + "".join(f"{state:>9}" for state in STATES)
    for kind in dict.fromkeys(item.job.kind for item in found):
        yield f"  {kind:<14}" + "".join(f"{counts[kind, state] or '·':>9}" for state in STATES)


def _running(item: Found, folder: Path, now: float) -> Iterator[str]:
    if item.log is None or item.begun is None:
        return  # a running job has both
    silence = now - item.log.written
    told = f"{logs.describe(item.log.advance, silence)}, " if item.log.advance else ""
    silent = f", silent for {clock(silence)}" if silence > SILENT_SECONDS else ""
    yield f"  {_name(item)}  {told}{clock(now - item.begun)} elapsed{silent}"


def _stopped(item: Found, folder: Path, now: float) -> Iterator[str]:
    if item.log and (advance := item.log.advance):
        yield f"  {_name(item)}  after {advance.unit} {advance.done} of {advance.total}"


def _failed(item: Found, folder: Path, now: float) -> Iterator[str]:
    yield f"  {_name(item)}"
    yield from (f"    {line}" for line in (item.log.reason[-REASON_LINES:] if item.log else []))
    yield f"    log: {folder / item.job.log}"


def _name(item: Found) -> str:
    return f"{_SINGULAR.get(item.job.kind, item.job.kind)} {item.job.name}"


_SINGULAR = {
    "datasets": "dataset",
    "banks": "bank",
    "trainings": "training",
    "choices of λ": "choice of λ",
    "evaluations": "evaluation",
    "timings": "timing",
    "tables": "table",
    "figures": "figure",
}


# -- the command --------------------------------------------------------------------------------------------------


def show(folders: list[Path], configfile: Path | None, watch: float | None, everything: bool) -> None:
    """Prints the page once, or again every `watch` seconds until Ctrl-C."""
    try:
        while True:
            text = "\n\n".join(_pages(folders, configfile, everything))
            if watch is None:
                print(text)
                return
            print(_fresh() + text + f"\n\nevery {watch:g} s; Ctrl-C ends", flush=True)
            time.sleep(watch)
    except KeyboardInterrupt:
        print()


def _pages(folders: list[Path], configfile: Path | None, everything: bool) -> list[str]:
    """The pages of all studies. One that cannot be read has its reason there, unless it is the only one."""
    if configfile is not None:
        return [page(folder, plan, everything=everything) for folder, plan in studies(folders, configfile)]
    folders = folders or _started()
    pages = []
    for folder in folders:
        try:
            pages.append(page(folder, _kept_plan(folder), everything=everything))
        except StatusError as error:
            if len(folders) == 1:
                raise
            pages.append(f"error: {error}")
    return pages


def _fresh() -> str:
    """What makes a page take the place of the last one on a terminal. In a file it begins with the time."""
    return "\x1b[H\x1b[2J" if os.isatty(1) else f"\n{time.strftime('%Y-%m-%d %H:%M:%S')}\n"
