"""The short end of a process."""

import subprocess
import sys


def test_everything_that_was_printed_arrives_and_nothing_runs_afterwards(tmp_path):
    """Standard output is a pipe here, so Python keeps what was printed until it is told."""
    code = (
        "import atexit, sys; from stcl.runtime.ending import end; atexit.register(print, 'too late'); "
        "print('the result'); print('a remark', file=sys.stderr); end(); print('not reached')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the result\n", "a remark\n")
