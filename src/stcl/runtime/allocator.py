"""This module keeps freed memory in the process. Entry points call `keep_heap()` before anything else."""

import ctypes
import platform

# These are names and values of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = 2**31 - 1  # the largest value that an option takes
_GROWTH = 64 * 2**20  # bytes by which the heap grows at once


def keep_heap() -> bool:
    """Makes large arrays come from the heap, which is never given back. False if the C library is not glibc.

    By default glibc maps every large array afresh and unmaps it when it is freed. Each intermediate field of a training
    step then pays for its page faults again, which takes 15 % of a step or more.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    options = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER), (_M_TOP_PAD, _GROWTH))
    return all([mallopt(option, value) for option, value in options])
