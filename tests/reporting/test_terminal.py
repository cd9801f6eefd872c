"""What is shown while snakemake runs, from the records that snakemake logs."""

import io
import logging
import os
import time
from types import SimpleNamespace

import pytest

from stcl.reporting import terminal

CELL = "diffusion/N16/stcl/lam1/seed0"
QUIET = SimpleNamespace(dryrun=False, verbose=False, printshellcmds=False, debug_dag=False, quiet=None, nocolor=False)


class Tty(io.StringIO):
    def isatty(self):
        return True


def record(message="", level=logging.INFO, **extra):
    made = logging.makeLogRecord({"msg": message, "levelno": level, "levelname": logging.getLevelName(level), **extra})
    made.created = time.time()
    return made


def started(log, jobid=3):
    wildcards = {"preset": "tiny", "cell": CELL}
    return record(
        event="job_info", jobid=jobid, rule_name="train", wildcards=wildcards, log=[str(log)], shellcmd="python -m …"
    )


def failed(log, **changes):
    values = {
        "event": "job_error",
        "jobid": 3,
        "log": [str(log)],
        "rule_msg": None,
        "aux": {},
        "shellcmd": "python -m …",
    }
    return record("Error in rule train, jobid: 3", logging.ERROR, **values | changes)


def plan(total):
    return record(event="run_info", stats={"train": total - 1, "all": 1, "total": total})


@pytest.fixture
def shown():
    """A handler without a terminal, and the function that gives the lines it has written."""
    stream = io.StringIO()
    handler = terminal.Terminal(stream, logging.Formatter("in full: %(message)s"))
    return handler, lambda: stream.getvalue().splitlines()


def test_two_lines_for_a_job_and_none_for_what_is_usual(shown, tmp_path):
    handler, lines = shown
    collects = record(event="job_info", jobid=4, rule_name="all", wildcards={}, log=[], shellcmd=None)
    finished = [record(event="job_finished", job_id=job) for job in (3, 4)]
    usual = [record("Building DAG of jobs..."), record("Execute 1 jobs...", event="job_started")]
    for each in (*usual, plan(2), started(tmp_path / "log"), finished[0], collects, finished[1]):
        handler.emit(each)
    assert [line.split(" ", 1)[1] if line[0].isdigit() and ":" in line[:3] else line for line in lines()] == [
        "2 jobs: 1 train, 1 all",
        f"start   train {CELL}",
        f"done    train {CELL}  (1 of 2, 0:00:00)",
    ]


def test_a_failure_shows_the_end_of_its_log_and_is_named_once_more_at_the_end(shown, tmp_path):
    handler, lines = shown
    log = tmp_path / "seed0.log"
    log.write_text("diffusion: epoch 1/9, 1/s, 0:00:08 left\n" * 50 + "error: epoch 2: data is nan\n")
    handler.emit(plan(2))
    handler.emit(started(log))
    handler.emit(failed(log, rule_msg="Slurm says TIMEOUT", aux={"external_jobid": 17}))
    handler.emit(record("Complete log(s): x.log"))
    assert [line.removeprefix(line[:9]) if "FAILED" in line else line for line in lines()[2:]] == [
        f"FAILED  train {CELL}  (0:00:00)",
        "    Slurm says TIMEOUT",
        "    external_jobid: 17",
        f"    the end of {log}:",
        "      error: epoch 2: data is nan",
        "failed: 1 of 2 jobs",
        f"  train {CELL}  {log}",
        "in full: Complete log(s): x.log",
    ]


@pytest.mark.parametrize("content", [None, ""])
def test_a_failure_without_a_log_shows_all_that_snakemake_says(shown, tmp_path, content):
    handler, lines = shown
    log = tmp_path / "seed0.log"
    if content is not None:
        log.write_text(content)
    handler.emit(started(log))
    handler.emit(failed(log))
    assert lines()[-1] == "in full: Error in rule train, jobid: 3"


def test_a_job_that_was_asked_to_stop_has_not_failed(shown, tmp_path):
    handler, lines = shown
    log = tmp_path / "seed0.log"
    log.write_text("Traceback (most recent call last):\n  here\nKeyboardInterrupt\n")
    handler.emit(plan(2))
    handler.emit(started(log))
    handler.emit(failed(log, rule_msg="Slurm says CANCELLED"))
    assert lines()[-2].endswith(f" stopped train {CELL}  (0:00:00)")
    assert lines()[-1] == "    Slurm says CANCELLED"
    assert handler.failed == {}
    handler.emit(record("Complete log(s): x.log"))
    assert lines()[-3:-1] == ["stopped; the same command goes on: 1 of 2 jobs", f"  train {CELL}  {log}"]


@pytest.mark.parametrize("content", ["error: no memory\n", "stopped by SIGTERM after epoch 1 of 9; …\n"])
def test_a_job_that_is_tried_again_with_success_is_not_named_at_the_end(shown, tmp_path, content):
    handler, lines = shown
    log = tmp_path / "seed0.log"
    log.write_text(content)
    for each in (plan(2), started(log), failed(log), started(log), record(event="job_finished", job_id=3)):
        handler.emit(each)
    handler.emit(record("Complete log(s): x.log"))
    assert not any("1 of 2 jobs" in line for line in lines())


@pytest.mark.parametrize(
    "lost",
    [
        record("something new", event="an event of a later snakemake"),
        record("a warning that begins like Using shell:", logging.WARNING),
        record("Select jobs to execute... but they are missing", logging.ERROR),
        record("no such job", event="job_finished", job_id=99),
        record("fields are missing", logging.ERROR, event="job_error"),
    ],
)
def test_no_message_is_lost(shown, lost):
    handler, lines = shown
    handler.emit(lost)
    assert lines() == [f"in full: {lost.msg}"]


def test_the_command_of_a_failed_job_is_left_out_but_not_how_it_ended(shown):
    handler, lines = shown
    handler.details = None
    text = "RuleException:\nCalledProcessError in file train.smk, line 29:\nCommand 'python --spec '{\"a\": 1}' > log' "
    handler.emit(record(text + "died with <Signals.SIGKILL: 9>.", logging.ERROR, event="error"))
    assert lines() == ["A command died with <Signals.SIGKILL: 9>."]


def test_a_terminal_has_a_bar_and_how_far_the_running_jobs_are(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty()
    handler = terminal.Terminal(stream, None, terminal.Screen(stream))
    log = tmp_path / "seed0.log"
    log.write_text(
        "x: epoch 12/40, 1/s, 0:10:00 left  data 1.0e-03  derivative 0  gamma 0  val 2.0e-04 (3.21 %)  best 0\n"
    )
    for each in (plan(9), started(log), started(tmp_path / "other", jobid=5)):
        handler.emit(each)
    handler.screen.live.refresh()
    screen = stream.getvalue()
    assert "0 of 9 jobs, 2 running, 0:00:00" in screen
    assert f"train {CELL}" in screen
    assert "epoch 12/40  data 1.0e-03  val 3.21 %  0:10:00 left" in screen
    os.utime(log, (1, 1))  # now it is the log of an earlier attempt
    stream.truncate(0)
    handler.screen.live.refresh()
    assert "epoch 12/40" not in stream.getvalue()
    handler.close()
    assert stream.getvalue().endswith("\x1b[2K")  # nothing of it stays
    assert "\x1b[?25h" in stream.getvalue()  # and the cursor is back


def test_a_job_alone_has_the_terminal_to_itself(tmp_path):
    """`snakemake cost` and `preview` print tables themselves."""
    stream = Tty()
    handler = terminal.Terminal(stream, None, terminal.Screen(stream))
    handler.emit(plan(1))
    handler.emit(started(tmp_path / "log"))
    assert handler.screen.shown is None


def snakemakes_logger(stream) -> logging.Logger:
    logger = logging.Logger("snakemake")
    default = logging.StreamHandler(stream)
    default.name = "DefaultStreamHandler"
    logger.addHandler(default)
    return logger


@pytest.mark.parametrize(
    ("stream", "changes", "screen"), [(io.StringIO(), {}, False), (Tty(), {}, True), (Tty(), {"nocolor": True}, False)]
)
def test_it_takes_the_place_of_the_default_output(monkeypatch, stream, changes, screen):
    monkeypatch.setenv("TERM", "xterm")
    logger = snakemakes_logger(stream)
    terminal.install(logger, SimpleNamespace(**vars(QUIET) | changes))
    (handler,) = logger.handlers
    assert isinstance(handler, terminal.Terminal)
    assert (handler.screen is not None) == screen


@pytest.mark.parametrize("option", ["dryrun", "verbose", "printshellcmds", "debug_dag", "quiet"])
def test_who_asks_for_another_output_gets_it(option):
    logger = snakemakes_logger(io.StringIO())
    terminal.install(logger, SimpleNamespace(**vars(QUIET) | {option: True}))
    assert [handler.name for handler in logger.handlers] == ["DefaultStreamHandler"]


def test_a_logger_plugin_is_left_alone():
    logger = logging.Logger("snakemake")
    terminal.install(logger, QUIET)
    assert logger.handlers == []
