"""stcl status, on folders of results that are put together by hand."""

import json
import os
import re
import signal
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
import yaml
from project_copy import PROJECT

from stcl import cli
from stcl.reporting import logs, status
from stcl.runtime.progress import Progress
from stcl.study.config import parse
from stcl.study.plan import Plan

NOW = 1_700_000_000.0
FNO, OFFLINE, STCL = (f"helmholtz/N8/{name}/seed0" for name in ("fno/lam0", "offline_di/lam0.5", "stcl/lam0.5"))
LINE = (
    "helmholtz N=8 fno seed 0: epoch {}/2000, 0.5/s, 1:02:03 left  data 1.234e-03  derivative 0.000e+00  gamma 1.00e+00"
)
LINE += "  val 2.000e-04 (3.21 %)  best 1.000e-04  lr 1.0e-03\n"


class Study:
    """The folder of a study of one problem whose data is there."""

    def __init__(self, root: Path, config: dict) -> None:
        config = config | {"evaluation": {"jobs": "cell"}}
        self.plan, self.root, self.folder = Plan(parse(config)), root, root / "results/tiny"
        status.keep_config(config, self.folder)
        (name,) = self.plan.datasets
        for split in ("train", "val", "test"):
            self.write(f"data/{name}/{split}.json", {"spec": self.plan.data_spec(name, split).json_dict()})
        for split in ("train", "test"):
            self.write(f"banks/{name}/{split}.json", {"spec": self.plan.bank_spec(name, split).json_dict()})

    def write(self, path: str, content: dict) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))

    def trained(self, cell: str, **changes: object) -> None:
        spec = self.plan.train_spec(self.plan.cells[cell]).json_dict()
        self.write(f"runs/{cell}/train.json", {"spec": spec | changes})

    def log(self, path: str, text: str, age: float) -> None:
        file = self.folder / "logs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (NOW - age, NOW - age))

    def begun(self, path: str, age: float) -> None:
        """The mark that snakemake makes when it starts a job."""
        mark = self.root / ".snakemake/incomplete" / urlsafe_b64encode(f"results/tiny/{path}".encode()).decode()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text("{}")
        os.utime(mark, (NOW - age, NOW - age))

    def lock(self) -> None:
        file = self.root / ".snakemake/locks/0.output.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"results/tiny/runs/{FNO}/train.json\n")

    def page(self) -> str:
        return status.page(self.folder, self.plan, NOW)

    def states(self, kind: str) -> dict[str, str]:
        return {i.job.name: i.state for i in status.read(self.folder, self.plan, NOW) if i.job.kind == kind}


@pytest.fixture
def study(tmp_path) -> Study:
    config = yaml.safe_load((PROJECT / "config/test/tiny.yaml").read_text())
    problems = {"helmholtz": config["problems"]["helmholtz"]}
    return Study(tmp_path, config | {"problems": problems, "studies": {}, "selection": "fixed"})


def test_one_page_with_done_running_and_failed(study):
    study.trained(FNO)
    study.write(f"runs/{FNO}/errors.json", {})
    study.lock()
    study.begun(f"runs/{OFFLINE}/train.json", age=600)
    study.log(f"train/{OFFLINE}.log", LINE.format(119) + LINE.format(120), age=3)
    study.log(f"train/{STCL}.log", LINE.format(7) + "error: epoch 8: data is nan; training diverged.\n", age=900)
    counts = [
        line for line in study.page().splitlines() if re.match(r"  (datasets|banks|trainings|evaluations) ", line)
    ]
    assert [line.split() for line in counts] == [
        ["datasets", "3", "·", "·", "·", "·"],
        ["banks", "2", "·", "·", "·", "·"],
        ["trainings", "1", "1", "·", "·", "1"],
        ["evaluations", "1", "·", "2", "·", "·"],
    ]
    assert study.page().startswith(f"{study.folder}: 7 of ")
    assert study.page().split("\n\nrunning\n")[1].splitlines() == [
        f"  training {OFFLINE}  epoch 120/2000  data 1.2e-03  val 3.21 %  1:02:00 left, 0:10:00 elapsed",
        "",
        "failed",
        f"  training {STCL}",
        "    error: epoch 8: data is nan; training diverged.",
        f"    log: {study.folder}/logs/train/{STCL}.log",
    ]


@pytest.mark.parametrize(
    "end", ["", "stopped by SIGTERM after epoch 120 of 2000; the state is saved\n", "Traceback …\nKeyboardInterrupt\n"]
)
def test_a_training_that_was_killed_or_asked_to_stop_goes_on(study, end):
    study.log(f"train/{FNO}.log", LINE.format(120) + end, age=3)
    assert study.states("trainings")[FNO] == "stopped"
    assert f"stopped; the same command goes on\n  training {FNO}  after epoch 120 of 2000" in study.page()


@pytest.mark.parametrize(
    ("locked", "age", "expected"),
    [
        (True, 599, "running"),
        (True, 601, "stopped"),  # snakemake was killed, too, and its lock is still there
        (False, 59, "running"),  # snakemake --nolock
        (False, 61, "stopped"),
    ],
)
def test_silence_of_a_training_that_was_begun(study, locked, age, expected):
    if locked:
        study.lock()
    study.begun(f"runs/{FNO}/train.json", age=5000)
    study.log(f"train/{FNO}.log", LINE.format(120), age)
    assert study.states("trainings")[FNO] == expected


def test_silence_follows_the_time_of_an_epoch(study):
    """An epoch of 1000 s may be silent for ten times as long."""
    study.lock()
    study.begun(f"runs/{FNO}/train.json", age=50_000)
    for age, expected in ((9_999, "running"), (10_001, "stopped")):
        study.log(f"train/{FNO}.log", LINE.format(12).replace("0.5/s", "0.001/s"), age)
        assert study.states("trainings")[FNO] == expected


def test_a_job_without_progress_says_how_long_it_is_silent(study):
    study.trained(FNO)
    study.lock()
    study.begun(f"runs/{FNO}/errors.json", age=700)
    study.log(f"evaluate/{FNO}.log", "", age=690)
    assert f"  evaluation {FNO}  0:11:40 elapsed, silent for 0:11:30" in study.page()


def test_the_log_of_an_earlier_attempt_does_not_count(study):
    """On a cluster a job is begun when it is submitted, and its log is written when it starts."""
    study.lock()
    study.log(f"train/{FNO}.log", "error: something\n", age=100)
    assert study.states("trainings")[FNO] == "failed"
    study.begun(f"runs/{FNO}/train.json", age=50)
    assert study.states("trainings")[FNO] == "waiting"
    study.log(f"train/{FNO}.log", "", age=10)
    assert study.states("trainings")[FNO] == "running"


def test_a_mark_counts_more_than_a_file_and_less_than_the_end_of_a_log(study):
    """A job that is made again may leave its old file for a while. One that was asked to stop may leave its mark."""
    study.trained(FNO)
    study.lock()
    study.begun(f"runs/{FNO}/train.json", age=50)
    study.log(f"train/{FNO}.log", LINE.format(120), age=1)
    assert study.states("trainings")[FNO] == "running"
    study.log(f"train/{FNO}.log", LINE.format(120) + "stopped by SIGTERM after epoch 120 of 2000; …\n", age=1)
    assert study.states("trainings")[FNO] == "stopped"


def test_what_was_made_from_other_settings_is_not_done(study):
    study.trained(FNO)
    study.write(f"runs/{FNO}/errors.json", {})
    study.log(f"train/{FNO}.log", LINE.format(3), age=1)  # of the training that was made
    assert (study.states("trainings")[FNO], study.states("evaluations")[FNO]) == ("done", "done")
    study.trained(FNO, seed=1)
    assert (study.states("trainings")[FNO], study.states("evaluations")[FNO]) == ("waiting", "waiting")


def test_a_training_needs_the_choice_of_its_lambda_and_the_bank_of_its_validation(tmp_path):
    """Files of an earlier study: a final cell is there, but nothing that says that its λ is the chosen one."""
    config = yaml.safe_load((PROJECT / "config/test/tiny.yaml").read_text())
    problem = config["problems"]["diffusion"]
    problem["bank"]["val"], problem["training"]["jacobian_every"] = 2, 1
    study = Study(tmp_path, config | {"problems": {"diffusion": problem}, "studies": {}, "selection": "validation"})
    tuning, final = "diffusion/N16/stcl/lam1/seed0", "diffusion/N16/stcl/lamselected/seed0"
    for cell in study.plan.cells:
        study.trained(cell)
    assert study.states("trainings")[tuning] == "waiting"  # for the bank
    study.write("banks/diffusion/val.json", {"spec": study.plan.bank_spec("diffusion", "val").json_dict()})
    assert (study.states("trainings")[tuning], study.states("trainings")[final]) == ("done", "waiting")
    study.write(f"select/{study.plan.decision(study.plan.cells[final])}.json", {})
    assert set(study.states("trainings").values()) == {"done"}


def test_a_study_that_cannot_be_read_is_named_and_hides_no_other(study, monkeypatch, capsys):
    config = json.loads((study.folder / "config.json").read_text())
    config["problems"]["mine"] = config["problems"].pop("helmholtz") | {"problem": "deleted.py"}
    status.keep_config(config, study.root / "results/old")
    (study.root / "results/torn").mkdir()
    (study.root / "results/torn/config.json").write_text("{")
    monkeypatch.chdir(study.root)
    monkeypatch.setattr(sys, "argv", ["stcl", "status"])
    cli.main()
    page = capsys.readouterr().out
    assert re.search(r"error: results/old/config\.json: .*\n.*no file deleted\.py", page)
    assert "error: results/torn/config.json: " in page
    assert "results/tiny: 5 of " in page
    monkeypatch.setattr(sys, "argv", ["stcl", "status", "results/old"])
    with pytest.raises(SystemExit, match=r"results/old/config\.json: .*\n.*no file deleted\.py"):
        cli.main()


def test_a_divergence_is_a_result_of_a_training_that_tunes_and_of_no_other(study):
    config = json.loads((study.folder / status.CONFIG).read_text())
    spec = study.plan.train_spec(study.plan.cells[STCL]).json_dict()
    study.write(f"runs/{STCL}/train.json", {"spec": spec, "ended": "diverged", "diverged": 3})
    assert study.states("trainings")[STCL] == "waiting"
    config["problems"]["helmholtz"]["methods"]["stcl"]["lambda_grid"] = [0.5]
    study.plan = Plan(parse(config | {"selection": "validation"}))
    assert study.states("trainings")[STCL] == "done"


def test_long_lists_are_cut_unless_all_is_asked_for(study, monkeypatch):
    monkeypatch.setattr(status, "SHOWN", 1)
    for cell in (FNO, OFFLINE, STCL):
        study.log(f"train/{cell}.log", "error: something\n", age=100)
    assert study.page().endswith("  … and 2 more; --all shows them")
    everything = status.page(study.folder, study.plan, NOW, everything=True)
    assert everything.count("error: something") == 3


@pytest.mark.parametrize(("length", "kept"), [(3, 3), (100_000, 100)])
def test_lines_of_a_job_are_read_as_they_are_written(tmp_path, capsys, length, kept):
    """The writer and the reader of a log are in two rooms. The losses are those of a training."""
    with Progress("burgers N=8 stcl seed 0", 4000, "epoch", done=1000) as progress:
        progress._start -= 250.0  # ten epochs in 250 s
        progress.step(10, "data 1.500e-02  derivative 2.0e+00  gamma 1.0e-01  val 3.0e-04 (7.25 %)  best 2.0e-04")
    file = tmp_path / "train.log"
    file.write_text("resumed after epoch 1000\n" * length + capsys.readouterr().out)
    log = logs.read(file)
    advance = log.advance
    assert (advance.unit, advance.done, advance.total) == ("epoch", 1010, 4000)
    assert advance.rate == pytest.approx(0.04, rel=0.01)
    assert advance.left == pytest.approx(2990 / 0.04, rel=0.01)
    assert advance.losses == "data 1.5e-02  val 7.25 %"
    assert log.lines[0] == "resumed after epoch 1000"  # a line that is cut is left out
    assert len(log.lines) > kept


def test_the_first_of_two_tracebacks_is_the_cause(tmp_path):
    first, second = ["Traceback (most recent call last):", "  here", "E: why"], ["Traceback (…):", "  there", "F: so"]
    file = tmp_path / "data.log"
    file.write_text("\n".join([*first, "During handling of the above exception:", *second]))
    assert logs.read(file).reason[:3] == first


def test_a_traceback_is_shown_from_its_beginning(tmp_path):
    file = tmp_path / "data.log"
    file.write_text(
        "burgers train: sample 16/64, 2/s, 0:00:24 left\nTraceback (most recent call last):\n  here\nE: why\n"
    )
    assert logs.read(file).reason == ["Traceback (most recent call last):", "  here", "E: why"]


def test_nothing_heavy_is_imported(study):
    """Nor anything that only the workflow has: a folder may be looked at from a plain installation."""
    blocked = {name: None for name in ("torch", "zarr", "yaml", "rich", "matplotlib", "snakemake", "tqdm")}
    code = (
        f"import sys; sys.modules.update({blocked}); sys.argv = ['stcl', 'status']; from stcl.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=study.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("results/tiny: 5 of ")


def test_watching_ends_with_ctrl_c(study):
    command = [sys.executable, "-u", "-m", "stcl.cli", "status", "results/tiny", "--watch", "0.1"]
    # A shell that starts the tests in the background has them ignore Ctrl-C, and their children, too.
    watching = subprocess.Popen(
        command,
        cwd=study.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pages = 0
    while pages < 2:
        pages += watching.stdout.readline().startswith("results/tiny: 5 of ")
        assert watching.poll() is None
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, errors) == (0, "")


def test_what_is_missing_is_said_in_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        ([], "no study has been started here"),
        (["results/quick"], "results/quick has no config.json"),
        (["a", "b", "--configfile", str(PROJECT / "config/test/tiny.yaml")], "name one folder or none"),
        (["--configfile", "absent.yaml"], "absent.yaml"),
    ):
        monkeypatch.setattr(sys, "argv", ["stcl", "status", *arguments])
        with pytest.raises(SystemExit, match=message):
            cli.main()


def test_a_study_that_was_never_started_is_named_by_its_configuration(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["stcl", "status", "--configfile", str(PROJECT / "config/test/tiny.yaml")])
    cli.main()
    assert re.match(r"results/tiny: 0 of (\d+) jobs done, \1 waiting\n", capsys.readouterr().out)
