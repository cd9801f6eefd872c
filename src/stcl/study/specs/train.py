"""The spec of one cell. It holds everything that a training depends on, except data and code."""

from typing import Any, Literal

from pydantic import Field

from stcl.core.settings import Positive, PositiveFloat
from stcl.operators.settings import Network
from stcl.study.protocol import Training
from stcl.study.specs import Spec


class TrainSpec(Spec):
    """One network and how it is trained."""

    problem: str = Field(description="name of the problem")
    options: dict[str, Any] = Field(description="constants of the problem")
    n_train: Positive = Field(description="number N of training samples")
    method: str = Field(description="the method: fno, offline_di or stcl")
    lam: PositiveFloat | None = Field(description="λ; null for fno, and where validation has still to choose it")
    seed: int = Field(description="seed of weights, batches and directions", ge=0)
    network: Network = Field(description="the network that is trained")
    training: Training = Field(description="how it is optimised")
    # The method's own module checks these, because a cell of one method must not depend on the settings of another.
    settings: dict[str, Any] = Field(description="settings of the method, without λ")
    basis: Literal["prior", "white"] | None = Field(
        description="distribution of the directions of sTCL; null for other methods"
    )
