"""The spec of one cell: everything that a training depends on, except data and code."""

from typing import Any, Literal

from pydantic import Field

from stcl.core.settings import Positive, PositiveFloat
from stcl.operators.settings import Network
from stcl.study.protocol import Training
from stcl.study.specs import Spec


class TrainSpec(Spec):
    """Train one network."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    n_train: Positive = Field(description="training samples N")
    method: str = Field(description="fno, offline_di or stcl")
    lam: PositiveFloat | None = Field(description="λ; None for fno, and where validation has still to choose it")
    seed: int = Field(description="seed of weights, batches and directions", ge=0)
    network: Network = Field(description="the surrogate")
    training: Training = Field(description="optimisation")
    # The method's own module knows these: a cell of one method must not depend on the settings of another.
    settings: dict[str, Any] = Field(description="settings of the method")
    basis: Literal["prior", "white"] | None = Field(description="distribution of sTCL's directions; None for others")
