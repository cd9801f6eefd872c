"""Progress as a bar on a terminal, and as a plain line now and then in a log file."""

import sys
import time

from tqdm import tqdm

LINE_SECONDS = 10.0  # shortest time between two lines of a log file


class Progress:
    """The progress of one job: `with Progress("data", total, "sample") as progress: progress.step(8, note)`."""

    def __init__(self, title: str, total: int, unit: str, done: int = 0) -> None:
        self.title, self.total, self.unit, self.done = title, total, unit, done
        self._start, self._first, self._last_line = time.monotonic(), done, -float("inf")
        self._bar = tqdm(total=total, initial=done, unit=unit, desc=title) if sys.stderr.isatty() else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def step(self, count: int = 1, note: str = "") -> None:
        self.done += count
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_SECONDS or self.done >= self.total:
            self._last_line = now
            rate = (self.done - self._first) / max(now - self._start, 1e-9)
            left = (self.total - self.done) / max(rate, 1e-9)
            state = f"{self.title}: {self.unit} {self.done}/{self.total}, {rate:.3g}/s, {_clock(left)} left"
            print(f"{state}  {note}".rstrip(), flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
