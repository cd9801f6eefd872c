"""Shared by all tests."""

import os

# Repeatable sums, and test processes do not compete for cores. Read when numpy's BLAS and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Long files first: what two processes start last should be short.

    The tests on Slurm wait most of their time. One process starts with them, and the other one builds the tiny study
    meanwhile, on both cores.
    """

    def rank(item):
        if any(item.iter_markers("slurm")):
            return 0
        return 1 if "built" in item.fixturenames else 2 if any(item.iter_markers("workflow")) else 3

    ranks = {}
    for item in items:
        ranks[item.path] = min(rank(item), ranks.get(item.path, 3))
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture
def float64():
    """Double precision for new tensors, and the same random numbers at every run."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
