"""A job that is asked to stop does so at the next point where everything can be saved.

    with StopSignals() as stop:
        while work_remains:
            do_some()
            if stop.received:
                save()
                raise Stopped("…")

Slurm sends SIGTERM before it kills a job. With `--signal` it sends SIGTERM or SIGUSR1 some minutes earlier. Ctrl-C
(SIGINT) still ends the process at once.
"""

import signal

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h, which means that nothing is wrong and that one should try again
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Stopped(RuntimeError):
    """Work was put aside on request and saved. The same command continues it."""


class StopSignals:
    """Within its `with` block, signals are noted and do not end the process. `received` is the name of the last one."""

    received: str | None = None

    def __enter__(self) -> "StopSignals":
        self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: object) -> None:
        self.received = signal.Signals(number).name
