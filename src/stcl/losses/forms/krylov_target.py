"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from a few Krylov steps: the paper's form for indefinite operators."""

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import settings
from stcl.losses.forms._matching import MatchedTarget
from stcl.losses.solvers.krylov import Krylov


class KrylovTarget(MatchedTarget):
    """L = mean (DS_θ(a)[v] − ŵ)², ŵ the result of m preconditioned Krylov steps from zero."""

    def __init__(
        self, equation: DiscreteEquation, chosen: settings.KrylovTarget, tangent_class: OperatorClass | None
    ) -> None:
        steps = settings.Krylov(metric=chosen.metric, steps=chosen.steps, method=chosen.solver)
        super().__init__(equation, Krylov(equation, steps, tangent_class), chosen.state)
