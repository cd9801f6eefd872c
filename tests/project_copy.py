"""A copy of the project in which snakemake runs, and a way to ask what a change would rerun."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from dry_runs import dry_run

PROJECT = Path(__file__).resolve().parents[1]
TARGETS = ("all", "burgers", "burgers_published")  # rules that only collect
PARTS = ("Snakefile", "rules", "workflow", "profiles", "config", "src")


def kind(rule: str) -> str:
    """The name that counts as a rule's: the rules that evaluate a block each are one."""
    return "evaluate" if rule.startswith("evaluate_") else rule


class Workflow:
    """A copy of the project and its configuration; with results and snakemake's memory, that of a `built` copy."""

    def __init__(self, folder: Path, built: Path | None = None) -> None:
        self.folder = folder
        if built:
            shutil.copytree(built, folder, symlinks=True, dirs_exist_ok=True)  # times of files are kept
        # Compiled modules are copied, too. Those that another process is about to write are called *.pyc.<number>.
        other = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
        for part in () if built else PARTS:
            source = PROJECT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=other)
            else:
                shutil.copy(source, folder / part)
        self.config = yaml.safe_load((folder / "config/test/tiny.yaml").read_text())

    def _arguments(self, arguments: tuple[str, ...], config: dict[str, Any] | None) -> tuple[str, ...]:
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.config if config is None else config, sort_keys=False))
        return (*arguments, "--configfile", str(path))

    def start(self, *arguments: str, config: dict[str, Any] | None = None) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *self._arguments(arguments, config)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, config: dict[str, Any] | None = None) -> tuple[int, str]:
        """Exit code and everything snakemake printed."""
        if "-n" in arguments:
            return dry_run(self.folder, *self._arguments(arguments, config))
        process = self.start(*arguments, config=config)
        output, _ = process.communicate(timeout=1500)
        return process.returncode, output

    def planned(self, *targets: str, config: dict[str, Any] | None = None) -> dict[str, int]:
        """How many jobs of each kind of rule a run would start, the collecting rule left out."""
        code, output = self.run("-n", *targets, config=config)
        assert code == 0, output
        statistics = re.search(r"Job stats:\njob +count\n[- ]+\n(.*?)\ntotal", output, re.DOTALL)
        if statistics is None:
            assert "Nothing to be done" in output, output
            return {}
        counts: Counter[str] = Counter()
        for rule, count in re.findall(r"^([\w-]+) +(\d+)$", statistics[1], re.MULTILINE):
            counts[kind(rule)] += int(count)
        return {rule: count for rule, count in counts.items() if rule not in TARGETS}

    def planned_after_edit(self, path: str, edit: Callable[[str], str]) -> dict[str, int]:
        """`planned` with one file changed, which is put back afterwards."""
        file = self.folder / path
        original = file.read_text()
        changed = edit(original)
        assert changed != original, f"the edit of {path} changed nothing"
        file.write_text(changed)
        try:
            return self.planned()
        finally:
            file.write_text(original)
