"""Shared by all tests."""

import pytest
import torch

# Repeatable sums, and test processes do not compete for cores.
torch.set_num_threads(1)


@pytest.fixture
def float64():
    """Double precision for new tensors, and the same random numbers at every run."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)
