"""The profile, as a dry run shows it; no Slurm is needed."""

import re

import pytest
from project_copy import PROJECT, Workflow, kind

pytest.importorskip("snakemake_executor_plugin_slurm", reason="the executor is not installed: pip install .[slurm]")
pytestmark = pytest.mark.workflow


def local_rules() -> set[str]:
    """The rules that say that they are local; a dry run does not tell. The rules of a loop count as one."""
    text = "\n".join(path.read_text() for path in (PROJECT / "Snakefile", *sorted((PROJECT / "rules").glob("*.smk"))))
    listed = re.search(r"^localrules:\n((?:    \w+,\n)+)", text, re.MULTILINE)[1]
    name = r"^ *rule(?: (\w+):\n|:\n +name:\n +f\"(\w+)_\{)"
    rules = re.findall(name + r"(.*?)(?=^ *rule\b|\Z)", text, re.MULTILINE | re.DOTALL)
    local = (f"{loop}s" if loop else name for name, loop, body in rules if "localrule: True" in body)
    return {*re.findall(r"\w+", listed), *local}


def submitted(workflow: Workflow, config: dict) -> dict[str, set[tuple]]:
    """What the profile asks for in the name of each rule that is not local."""
    code, output = workflow.run("--workflow-profile", "slurm", "-n", config=config)
    assert code == 0, output
    names = ("slurm_partition", "gpu", "runtime", "mem_mb", "slurm_extra")
    found: dict[str, set[tuple]] = {}
    for rule, resources in re.findall(r"^rule ([\w-]+):\n(?:    .*\n)*?    resources: (.*)", output, re.MULTILINE):
        if (rule if rule == kind(rule) else f"{kind(rule)}s") not in local_rules():
            values = dict(re.findall(r"(\w+)=([^,\s]+)", resources))
            found.setdefault(rule, set()).add(tuple(values.get(name) for name in names))
    return found


def test_every_stage_has_its_place(tmp_path):
    """Partition, GPU and limits of every rule that is submitted; all others are short and run locally."""
    workflow = Workflow(tmp_path)
    cpu, warning = ("cpu", None, "240", "4000", None), "--signal=TERM@300"
    expected = {
        "dataset": {cpu},
        "bank": {cpu},
        "conditioning": {cpu},
        "train": {("gpu", "1", "720", "20000", warning)},
        "timing": {("gpu", "1", "120", "20000", "--exclusive")},
        "inverse_reference": {cpu},
        "inverse": {("gpu", "1", "240", "20000", warning)},
    }
    hint = "a new rule is either short, and says localrule: True, or gets its place in profiles/slurm/config.yaml"
    single = {"evaluate": {("gpu", "1", "60", "20000", warning)}}
    assert submitted(workflow, workflow.config | {"evaluation": {"jobs": "cell"}}) == expected | single, hint
    assert submitted(workflow, workflow.config | {"evaluation": {"jobs": "block"}}) == expected, hint
