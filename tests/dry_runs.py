"""A process that has loaded snakemake once and makes a copy of itself for every dry run that is asked for.

Loading snakemake takes most of a dry run, and the tests make some sixty. What a copy does is what `snakemake` does: it
reads the Snakefile of the folder it is sent to, and all of this project's modules that the Snakefile imports, anew.

A request is a line of JSON [folder, [argument, …]]. The answer is a line of JSON [exit code, what was printed].
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_server: subprocess.Popen | None = None


def dry_run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `snakemake <arguments>` in a folder."""
    global _server
    if _server is None or _server.poll() is not None:
        command = [sys.executable, __file__]
        _server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _server.stdin.write(json.dumps([str(folder), arguments]) + "\n")
    _server.stdin.flush()
    code, output = json.loads(_server.stdout.readline())
    return code, output


def serve() -> None:
    # What the Snakefile loads of other packages. Nothing of this project: the copies of it differ.
    import numpy  # noqa: F401
    import pydantic  # noqa: F401
    from snakemake.cli import main

    assert "stcl" not in sys.modules
    for line in sys.stdin:
        folder, arguments = json.loads(line)
        with tempfile.TemporaryFile("w+") as output:
            child = os.fork()
            if child == 0:
                os.chdir(folder)
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                sys.argv = ["snakemake", *arguments]
                code = 1
                try:
                    main(arguments)
                except SystemExit as ended:
                    code = ended.code
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            output.seek(0)
            print(json.dumps([code, output.read()]), flush=True)


if __name__ == "__main__":
    serve()
