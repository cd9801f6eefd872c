"""The public names for type checkers, which do not see what is loaded on first use.

They are not in an `if TYPE_CHECKING:` block of `__init__.py`. A job's code id follows every import of its modules and
of the packages around them, so such a block would make every dataset depend on every loss.
"""

from stcl.consistency import TangentConsistency as TangentConsistency
from stcl.diagnosis import diagnose as diagnose
from stcl.equation import Equation as Equation
from stcl.equation import EquationError as EquationError
from stcl.losses.settings import FittedLaplacian as FittedLaplacian
from stcl.losses.settings import InverseLaplacian as InverseLaplacian
from stcl.losses.settings import KrylovTarget as KrylovTarget
from stcl.losses.settings import LerayOseen as LerayOseen
from stcl.losses.settings import NormalizedResidual as NormalizedResidual
from stcl.losses.settings import PreconditionedResidual as PreconditionedResidual
from stcl.losses.settings import Residual as Residual
from stcl.losses.settings import ShiftedLaplacian as ShiftedLaplacian
from stcl.tangents import ReverseTangents as ReverseTangents
from stcl.tangents import TangentError as TangentError
from stcl.tangents import jacobian_error as jacobian_error
from stcl.tangents import value_and_tangents as value_and_tangents

__version__: str
