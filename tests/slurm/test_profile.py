"""The profile, as a dry run shows it; no Slurm is needed."""

import re

import pytest
from project_copy import PROJECT, Workflow

pytest.importorskip("snakemake_executor_plugin_slurm", reason="the executor is not installed: pip install .[slurm]")
pytestmark = pytest.mark.workflow


def local_rules() -> set[str]:
    """The rules that say that they are local; a dry run does not tell."""
    text = "\n".join(path.read_text() for path in (PROJECT / "Snakefile", *sorted((PROJECT / "rules").glob("*.smk"))))
    listed = re.search(r"^localrules:\n((?:    \w+,\n)+)", text, re.MULTILINE)[1]
    rules = re.findall(r"^ *rule (\w+):\n(.*?)(?=^ *rule |\Z)", text, re.MULTILINE | re.DOTALL)
    return {*re.findall(r"\w+", listed), *(name for name, body in rules if "localrule: True" in body)}


def test_every_stage_has_its_place(tmp_path):
    """Partition, GPU and limits of every rule that is submitted; all others are short and run locally."""
    code, output = Workflow(tmp_path).run("--workflow-profile", "slurm", "-n")
    assert code == 0, output
    names = ("slurm_partition", "gpu", "runtime", "mem_mb", "slurm_extra")
    submitted = {}
    for rule, resources in re.findall(r"^rule (\w+):\n(?:    .*\n)*?    resources: (.*)", output, re.MULTILINE):
        if rule not in local_rules():
            values = dict(re.findall(r"(\w+)=([^,\s]+)", resources))
            submitted.setdefault(rule, set()).add(tuple(values.get(name) for name in names))
    cpu, warning = ("cpu", None, "240", "4000", None), "--signal=TERM@300"
    assert submitted == {
        "dataset": {cpu},
        "bank": {cpu},
        "conditioning": {cpu},
        "train": {("gpu", "1", "720", "20000", warning)},
        "evaluate": {("gpu", "1", "60", "20000", warning)},
        "timing": {("gpu", "1", "120", "20000", "--exclusive")},
    }, "a new rule is either short, and says localrule: True, or gets its place in profiles/slurm/config.yaml"
