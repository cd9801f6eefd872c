"""Shared by all tests."""

import os

# Repeatable sums, and test processes do not compete for cores. Read when numpy's BLAS and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Long tests first: what two processes start last should be short."""
    items.sort(key=lambda item: not any(item.iter_markers("workflow")) and not any(item.iter_markers("slurm")))


@pytest.fixture
def float64():
    """Double precision for new tensors, and the same random numbers at every run."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
