"""Keep freed memory in the process. Entry points call `keep_heap()` before anything else."""

import ctypes
import platform

# Names and values of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = 2**31 - 1
_GROWTH = 64 * 2**20


def keep_heap() -> bool:
    """Let large arrays come from the heap and never give it back; True where the C library is glibc.

    By default glibc maps every large array afresh and unmaps it when freed, so that each intermediate field of a
    training step pays for its page faults again: 15 % of a step or more.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    options = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER), (_M_TOP_PAD, _GROWTH))
    return all([mallopt(option, value) for option, value in options])
