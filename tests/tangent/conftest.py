import pytest


@pytest.fixture(autouse=True)
def _double_precision(float64):
    """Every claim about the tangent operator is checked in double precision."""
