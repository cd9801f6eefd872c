"""The Snakefile of the project's folder and workflow/Snakefile are two ways into one workflow."""

import re
from collections import Counter

import pytest
from dry_runs import dry_run
from plans import EVERYTHING
from project_copy import kind

pytestmark = pytest.mark.workflow

CATALOGUE = ("-s", "workflow/Snakefile")


def jobs(output: str) -> Counter[tuple[str, frozenset[str]]]:
    """Rule and output files of every job that a dry run describes. Rules that only collect have no output."""
    found: Counter[tuple[str, frozenset[str]]] = Counter()
    for rule, body in re.findall(r"^(?:local)?rule ([\w-]+):\n((?:    .*\n)*)", output, re.MULTILINE):
        files = re.search(r"^    output: (.*)$", body, re.MULTILINE)
        found[kind(rule), frozenset(files[1].split(", ") if files else ())] += 1
    return found


def test_both_plan_the_same_jobs(empty):
    plans = []
    for options in ((), CATALOGUE):
        code, output = empty.run(*options, "-n")
        assert code == 0, output
        plans.append(jobs(output))
    assert plans[0] == plans[1]
    assert Counter(rule for rule, _ in plans[0].elements()) == EVERYTHING | {"all": 1}
    made = {rule for rule, files in plans[0] if files}
    assert made == set(EVERYTHING), "a description of a job was read without its output"


def test_both_take_the_quick_study_by_default(empty):
    """The copies of other tests are given a configuration, which would hide that the default one is not found."""
    plans = []
    for options in ((), CATALOGUE):
        code, output = dry_run(empty.folder, *options, "-n", "data")
        assert code == 0, output
        plans.append(jobs(output))
    assert plans[0] == plans[1]
    assert any("results/quick/data/burgers/val.json" in files for _, files in plans[0])


def test_what_one_has_built_the_other_keeps(empty):
    """Nothing is rerun, so the jobs of both have the same code, parameters and environment."""
    target = "results/tiny/data/burgers/val.json"
    code, output = empty.run(target, *CATALOGUE)
    assert code == 0, output
    assert empty.planned(target) == {}
