"""The workflow on a real Slurm of one node: what goes where, what is cancelled, what fails, what runs out of time."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from cluster import Cluster, jobs, obstacle, slurm
from project_copy import Workflow

from stcl.runtime import checkpoint
from stcl.stages import train
from stcl.study.specs.train import TrainSpec

pytest.importorskip("snakemake_executor_plugin_slurm", reason="the executor is not installed: pip install .[slurm]")
pytestmark = pytest.mark.slurm

STUDY = yaml.safe_load(Path(__file__).with_name("study.yaml").read_text())
RUNS = "results/slurm/runs/diffusion"
GOOD, DIVERGING = "N8/stcl/lam1/seed0", "N4/stcl/lam1e+300/seed0"
# The profile as it is, but polled often and retried once.
PROFILE = ("--workflow-profile", "slurm", "--slurm-init-seconds-before-status-checks", "4", "--retries", "1")


@pytest.fixture(scope="module")
def slurm_cluster():
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    with Cluster() as cluster:
        yield cluster


def wait_until(condition, what: str, process: subprocess.Popen | None = None, seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, f"snakemake ended before {what}"
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def start(workflow: Workflow, *arguments: str, config: dict) -> subprocess.Popen:
    """Snakemake, its output in a file. It listens to Ctrl-C also where the tests run in the background."""
    (workflow.folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "snakemake", "--configfile", "config.yaml", *arguments]
    with (workflow.folder / "snakemake.log").open("w") as log:
        interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(command, cwd=workflow.folder, stdout=log, stderr=log, preexec_fn=interruptible)


def end(process: subprocess.Popen) -> int:
    """The exit code; a snakemake that does not end is interrupted, which cancels its jobs."""
    try:
        return process.wait(300)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def training(folder: Path, cell: str) -> Path:
    """The process, as a folder of /proc, of the training of a cell that runs in a folder."""
    out = f"{RUNS}/{cell}/train.json".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            if {b"stcl.stages.train", out} <= set(command) and (process / "cwd").readlink() == folder:
                return process
        except OSError:
            continue
    raise AssertionError(f"no training of {cell} runs in {folder}")


def environment_of(process: Path) -> dict[str, str]:
    pairs = (process / "environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


@dataclass
class Run:
    workflow: Workflow
    code: int
    output: str
    environment: dict[str, str]  # of the training that was cancelled
    page: str  # of `stcl status`, while it ran
    jobs: dict[str, list[dict[str, str]]]  # what Slurm knows of them, by rule

    def states(self, rule: str, cell: str) -> list[str]:
        """How the submissions of a cell's job ended, in order."""
        name = re.sub(r"\W", "_", cell)
        return [job["JobState"] for job in self.jobs[rule] if name in re.sub(r"\W", "_", job["Comment"])]

    def log(self, cell: str) -> str:
        return (self.workflow.folder / f"results/slurm/logs/train/diffusion/{cell}.log").read_text()


@pytest.fixture(scope="module")
def run(slurm_cluster, tmp_path_factory) -> Run:
    """A bank and both trainings through the profile. The good one is cancelled once its first state is saved."""
    workflow = Workflow(tmp_path_factory.mktemp("run"))
    code, output = workflow.run("data", config=STUDY)  # on this machine, to save a round of waiting
    assert code == 0, output
    targets = ["results/slurm/banks/diffusion/test.json", *(f"{RUNS}/{cell}/train.json" for cell in (GOOD, DIVERGING))]
    process = start(workflow, *PROFILE, *targets, config=STUDY)
    try:
        wait_until(lambda: list(workflow.folder.glob("work/train/*/state.pt")), "a state was saved", process)
        environment = environment_of(training(workflow.folder, GOOD))
        command = [sys.executable, "-m", "stcl.cli", "status"]
        page = subprocess.run(command, cwd=workflow.folder, capture_output=True, text=True, check=True).stdout
        (victim,) = (job for job in jobs() if job["JobId"] == environment["SLURM_JOB_ID"])
        slurm("scancel", victim["JobId"])
    finally:
        code = end(process)
    by_rule = defaultdict(list)
    for job in jobs():
        by_rule[re.match(r"rule_(\w+?)_wildcards", job["Comment"])[1]].append(job)
    return Run(workflow, code, (workflow.folder / "snakemake.log").read_text(), environment, page, by_rule)


def test_cpu_stages_go_to_the_cpu_partition_and_training_to_the_gpu_partition(run):
    submitted = {rule: (len(found), {job["Partition"] for job in found}) for rule, found in run.jobs.items()}
    assert submitted == {"bank": (1, {"cpu"}), "train": (4, {"gpu"})}, run.output


def test_a_gpu_job_asks_for_one_gpu_and_sees_one(run):
    asked = {rule: {job.get("TresPerJob") for job in found} for rule, found in run.jobs.items()}
    assert asked == {"bank": {None}, "train": {"gres:gpu:1"}}
    assert run.environment["CUDA_VISIBLE_DEVICES"] in ("0", "1", "2")


def test_the_status_shows_a_training_that_runs_on_a_node(run):
    """Snakemake on this side has only submitted it."""
    assert re.search(rf"\n  training diffusion/{GOOD}  epoch \d+/2000  data .* left, 0:\d\d:\d\d elapsed", run.page)


def history(folder: Path) -> list[dict]:
    """Every column but the clock."""
    rows = csv.DictReader((folder / "history.csv").open(newline=""))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_a_cancelled_training_resumes_in_its_retry_and_ends_with_the_same_bits(run, tmp_path):
    assert run.states("train", GOOD) == ["CANCELLED", "COMPLETED"], run.output
    resumed = int(re.search(r"resumed after epoch (\d+)", run.log(GOOD))[1])
    assert 0 < resumed < 2000

    folder = run.workflow.folder / RUNS / GOOD
    record = json.loads((folder / "train.json").read_text())
    data = run.workflow.folder / "results/slurm/data/diffusion"
    inputs = train.Inputs(data / "train.json", data / "val.json")
    paths = {"inputs": inputs, "out": tmp_path / "train.json", "work": tmp_path / "work"}
    train.train_cell(TrainSpec.model_validate(record["spec"]), **paths, code="", device=torch.device("cpu"))
    assert history(folder) == history(tmp_path)
    assert len(history(folder)) == 2000
    expected, found = (checkpoint.load(path / "weights.pt") for path in (tmp_path, folder))
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_failing_cell_is_retried_and_does_not_stop_the_others(run):
    assert run.code != 0
    assert run.states("train", DIVERGING) == ["FAILED", "FAILED"], run.output
    assert "training diverged" in run.log(DIVERGING)
    assert re.search(
        rf"FAILED  train diffusion/{re.escape(DIVERGING)} .*\n(    .*\n)*?      error: epoch 1: ", run.output
    )
    assert not (run.workflow.folder / RUNS / DIVERGING / "train.json").exists()
    assert (run.workflow.folder / RUNS / GOOD / "train.json").exists()
    assert (run.workflow.folder / "results/slurm/banks/diffusion/test.json").exists()


@pytest.fixture(scope="module")
def warned(run) -> dict[str, tuple[str, str]]:
    """Two endless trainings that come close to their time limit: for each how its job ended, and its log.

    One is a job of the profile; the other runs inside an allocation. Both have two minutes, and a warning 45 seconds
    before the end, or up to 30 seconds earlier: Slurm looks at its clock now and then.
    """
    workflow = run.workflow
    settings = STUDY["problems"]["diffusion"]
    settings = settings | {"training": settings["training"] | {"epochs": 10**7}}
    config = STUDY | {"seeds": [1, 2], "problems": {"diffusion": settings}}
    profile = workflow.folder / "profiles/slurm/config.yaml"
    short = profile.read_text().replace("runtime: 720", "runtime: 2").replace("TERM@300", "TERM@45")
    assert short.count("runtime: 2 ") == short.count("TERM@45") == 1
    profile.write_text(short)
    cells = {"job": "N8/stcl/lam1/seed1", "allocation": "N8/stcl/lam1/seed2"}
    targets = {name: f"{RUNS}/{cell}/train.json" for name, cell in cells.items()}
    earlier = {job["JobId"] for job in jobs()}
    saved = len(list(workflow.folder.glob("work/train/*/state.pt")))
    # Two snakemakes in one folder, each with a target of its own.
    process = start(workflow, *PROFILE, "--retries", "0", "--nolock", targets["job"], config=config)
    try:
        sizes = ("--time=2", "--signal=TERM@45", "--gpus=2", "--cpus-per-task=2", "--mem=4000")
        inside = ("profiles/slurm/allocation.sh", "--nolock", targets["allocation"], "--configfile", "config.yaml")
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ("sbatch", "--parsable", *sizes, *inside)
        submitted = subprocess.run(command, cwd=workflow.folder, env=environment, capture_output=True, text=True)
        assert submitted.returncode == 0, submitted.stderr
        allocation = submitted.stdout.strip()

        def states() -> dict[str, str]:
            new = [job for job in jobs() if job["JobId"] not in earlier]
            return {("allocation" if job["JobId"] == allocation else "job"): job["JobState"] for job in new}

        wait_until(lambda: len(states()) == 2, "both jobs were submitted", process)
        wait_until(lambda: len(list(workflow.folder.glob("work/train/*/state.pt"))) == saved + 2, "both saved", process)
        # Until the warning they leave the cores to other tests. One that was warned already may be gone.
        for cell in cells.values():
            with contextlib.suppress(AssertionError, OSError):
                for thread in (training(workflow.folder, cell) / "task").iterdir():
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)
        wait_until(lambda: not slurm("squeue", "--noheader"), "both jobs ended")
    finally:
        process.send_signal(signal.SIGINT)  # it would ask for the job's state some time later
        process.wait(60)
    return {name: (states()[name], run.log(cell)) for name, cell in cells.items()}


@pytest.mark.parametrize("name", ["job", "allocation"])
def test_a_training_close_to_its_time_limit_saves_and_ends(run, warned, name):
    state, log = warned[name]
    assert state == "FAILED", log  # TIMEOUT if it had to be killed
    stopped = re.search(r"stopped by SIGTERM after epoch (\d+) of \d+; the state is saved in (\S+)", log)
    assert stopped, log
    assert len(checkpoint.load(run.workflow.folder / stopped[2])["history"]) == int(stopped[1])
