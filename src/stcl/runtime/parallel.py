"""Work on chunks of samples in several processes, with results in order."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

from stcl.runtime.allocator import keep_heap

Task = TypeVar("Task")
Result = TypeVar("Result")


def ordered(work: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Iterator[Result]:
    """The results work(task) of all tasks, in order, from `workers` processes of one BLAS thread each.

    At most two tasks per worker are under way, so that memory does not grow with the number of tasks.
    """
    if workers == 1:
        yield from map(work, tasks)
        return
    # A fresh interpreter reads the thread limit before it loads BLAS; a forked one would have loaded it already.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _start_worker() -> None:
    """Makes a worker keep freed memory, and end when its parent is killed. It would otherwise wait for ever."""
    keep_heap()

    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
