"""Freed memory stays in the process: repeated large arrays cause no new page faults."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from stcl.runtime.allocator import keep_heap
if sys.argv[1] == "keep":
    assert keep_heap()
import numpy as np
faults = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2**22)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(max(faults[2:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_large_arrays_are_reused() -> None:
    faults = {
        mode: int(subprocess.run([sys.executable, "-c", PROGRAM, mode], check=True, capture_output=True).stdout)
        for mode in ("keep", "default")
    }
    assert faults["keep"] < 50
    assert faults["keep"] < faults["default"]
