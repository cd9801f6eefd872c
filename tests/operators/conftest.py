import pytest
import torch

from stcl.operators import compiled_rows


@pytest.fixture(autouse=True)
def _double_precision(float64):
    """Every claim about the operators is checked in double precision."""


@pytest.fixture(params=["compiled", "torch"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to do the rows, one after the other."""
    if request.param == "torch":
        monkeypatch.setattr(compiled_rows, "available", lambda field: False)
    elif not compiled_rows.available(torch.empty(())):
        pytest.skip("no C compiler with OpenMP")
    return request.param
