"""‖w − ŵ‖² with ŵ ≈ −A⁻¹ B v from any solver of losses/solvers."""

from stcl.core.interfaces import DiscreteEquation, OperatorClass
from stcl.losses import settings, solvers
from stcl.losses.forms._matching import MatchedTarget


class SolvedTarget(MatchedTarget):
    """L = mean (DS_θ(a)[v] − ŵ)², ŵ from the solver that the settings name."""

    def __init__(
        self, equation: DiscreteEquation, chosen: settings.SolvedTarget, tangent_class: OperatorClass | None
    ) -> None:
        solver = solvers.load(equation, chosen.solver, tangent_class)
        super().__init__(equation, solver, chosen.state, chosen.warm_start)
