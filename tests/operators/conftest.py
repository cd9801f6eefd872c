import pytest


@pytest.fixture(autouse=True)
def _double_precision(float64):
    """Every claim about the operators is checked in double precision."""
