"""Being asked to stop: a scheduler's warning is honoured at the next point where everything can be saved.

    with StopSignals() as stop:
        while work_remains:
            do_some()
            if stop.received:
                save()
                raise Stopped("…")

Slurm sends SIGTERM before it kills a job, and SIGTERM or SIGUSR1 some minutes earlier with `--signal`. Ctrl-C (SIGINT)
still ends the process at once.
"""

import signal

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: nothing is wrong, try again
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Stopped(RuntimeError):
    """Work was put aside on request and saved; the same command continues it."""


class StopSignals:
    """Notes the signals instead of dying of them, within a `with` block. `received` is the name of the last one."""

    received: str | None = None

    def __enter__(self) -> "StopSignals":
        self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        self.received = signal.Signals(number).name
