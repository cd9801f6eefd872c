import pytest
import torch

from stcl.operators import compiled_passes


@pytest.fixture(autouse=True)
def _double_precision(float64):
    """Every claim about the operators is checked in double precision."""


@pytest.fixture(params=["compiled", "torch"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to do the passes, one after the other."""
    if request.param == "torch":
        monkeypatch.setattr(compiled_passes, "available", lambda x: False)
    elif not compiled_passes.available(torch.empty(())):
        pytest.skip("no C compiler with OpenMP")
    return request.param
