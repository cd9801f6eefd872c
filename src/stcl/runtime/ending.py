"""The end of a process that has done its work. Entry points call `end()` as their last line."""

import os
import sys
from typing import NoReturn


def end() -> NoReturn:
    """Ends the process with success, without taking the interpreter apart.

    With torch loaded, taking apart its modules one by one takes 0.4 s, a fifth of what a short job takes in all. The
    operating system frees the memory at once. Everything that was written must be closed or be a standard stream.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
