"""Which GPU a job gets: tried with processes that claim devices which are only names."""

import multiprocessing
import os
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from stcl.runtime import devices


def claim_and_wait(folder: Path, names: tuple[str, ...], answer: Connection) -> None:
    answer.send(devices.claim(names, folder))
    time.sleep(1000)


class Claims:
    """Processes that claim one of the devices each, and hold it until they are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.running = folder, []

    def start(self, *names: str, count: int = 1) -> list[int]:
        """Start some at the same moment; what each got."""
        answers = []
        context = multiprocessing.get_context("fork")  # no second import of torch
        for _ in range(count):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=claim_and_wait, args=(self.folder, names, sender), daemon=True)
            process.start()
            self.running.append(process)
            answers.append(receiver)
        return [answer.recv() for answer in answers]

    def kill(self, index: int) -> None:
        process = self.running.pop(index)
        process.kill()
        process.join()


@pytest.fixture
def claims(tmp_path):
    claims = Claims(tmp_path / "claims")
    yield claims
    while claims.running:
        claims.kill(0)


def test_jobs_at_the_same_moment_get_different_devices(claims):
    assert sorted(claims.start("0", "1", "2", count=3)) == [0, 1, 2]


def test_more_jobs_than_devices_are_spread_evenly(claims):
    assert Counter(claims.start("0", "1", count=4)) == {0: 2, 1: 2}


def test_a_killed_job_frees_its_device_and_an_idle_one_is_preferred(claims):
    assert [claims.start("0", "1")[0] for _ in range(4)] == [0, 1, 0, 1]
    claims.kill(1)
    claims.kill(2)  # 0 has two jobs now and 1 has none
    assert [claims.start("0", "1")[0] for _ in range(2)] == [1, 1]
    assert claims.start("0", "1") == [0]


def test_two_workflows_that_see_different_devices_agree_on_what_is_taken(claims):
    assert claims.start("2", "3") == [0]
    assert claims.start("3", "2") == [0]
    assert claims.start("1", "2", "3") == [0]
    assert claims.start("12", "1") == [0]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with as many GPUs as asked for, as torch reports them; no driver is called."""
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)

    def build(gpus: int, visible: str | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return build


def test_without_a_gpu_it_is_the_cpu(machine):
    machine(0)
    assert devices.pick() == torch.device("cpu")


def test_the_only_visible_gpu_is_taken_without_a_claim(machine, tmp_path):
    """As under Slurm, which makes one visible per job."""
    machine(1, visible="3")
    assert [devices.pick() for _ in range(2)] == [torch.device("cuda", 0)] * 2
    assert list(tmp_path.iterdir()) == []


def test_several_visible_gpus_are_shared_by_their_names_on_the_machine(machine, claims, tmp_path):
    machine(2, visible="5, MIG-GPU-a/1/0")
    claims.folder = tmp_path / f"stcl-gpus-{os.getuid()}"
    assert claims.start("5") == [0]
    assert devices.pick() == torch.device("cuda", 1)
    assert claims.start("MIG-GPU-a-1-0", "7") == [1]


def test_all_gpus_are_visible_if_nothing_is_said(machine, claims, tmp_path):
    machine(3)
    claims.folder = tmp_path / f"stcl-gpus-{os.getuid()}"
    assert [claims.start("0", "1", "2")[0] for _ in range(2)] == [0, 1]
    assert devices.pick() == torch.device("cuda", 2)
