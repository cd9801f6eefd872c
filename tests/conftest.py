"""Shared by all tests."""

import os

# Repeatable sums, and test processes do not compete for cores. Read when numpy's BLAS and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Long tests first, so that two processes end together: one builds the study, the other has no need of it yet."""
    builder = next((item.path for item in items if "built" in item.fixturenames), None)

    def place(item) -> int:
        if item.path == builder:
            return 0
        if any(item.iter_markers("workflow")) or any(item.iter_markers("slurm")):
            return 2 if "built" in item.fixturenames else 1
        return 3

    items.sort(key=place)


@pytest.fixture
def float64():
    """Double precision for new tensors, and the same random numbers at every run."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
