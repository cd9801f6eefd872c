"""Shared by all tests."""

import os
from collections import defaultdict

# Repeatable sums, and test processes do not compete for cores. Read when numpy's BLAS and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Long files first: what two processes start last should be short.

    One process starts with the tests on Slurm, which wait most of their time. The other one builds the tiny study
    meanwhile, on both cores. What needs nothing of the study comes next, so that nobody waits for it.
    """
    needed = defaultdict(set)  # marks and fixtures of each file
    for item in items:
        needed[item.path] |= {mark.name for mark in item.iter_markers()} | set(item.fixturenames)
    builder = next((path for path, names in needed.items() if {"workflow", "built"} <= names), None)

    def rank(path):
        if "slurm" in needed[path]:
            return 0
        if "workflow" not in needed[path]:
            return 4
        return 1 if path == builder else 3 if "built" in needed[path] else 2

    items.sort(key=lambda item: rank(item.path))


@pytest.fixture
def float64():
    """Double precision for new tensors, and the same random numbers at every run."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
