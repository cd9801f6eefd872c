"""Format, lint and spelling of everything that is tracked, by the commands of `make lint`."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent


def lint_commands() -> list[str]:
    """What `make lint` would run with the tools beside this interpreter. Nothing is installed: `-o` skips that step."""
    command = ["make", "-n", "-s", "-o", ".venv/test.installed", f"BIN={shlex.quote(str(TOOLS))}", "lint"]
    # The options of `make test`, which runs this, do not apply here.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    made = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    return made.stdout.splitlines()


COMMANDS = lint_commands()


def test_the_commands_are_found():
    assert [shlex.split(command)[0].removeprefix(f"{TOOLS}/") for command in COMMANDS] == [
        "ruff",
        "ruff",
        "snakefmt",
        "snakemake",
        "codespell",
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.replace(f"{TOOLS}/", ""))
def test_clean(command):
    done = subprocess.run(command, shell=True, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
