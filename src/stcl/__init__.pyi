"""The public names for type checkers, which do not see what is loaded on first use.

They are apart from `__init__.py`, which is then one short table.
"""

from stcl.consistency import TangentConsistency as TangentConsistency
from stcl.core.errors import EquationError as EquationError
from stcl.core.errors import EquationWarning as EquationWarning
from stcl.core.layout import Layout as Layout
from stcl.core.version import __version__ as __version__
from stcl.diagnosis import diagnose as diagnose
from stcl.equation import Equation as Equation
from stcl.losses.scale import Scale as Scale
from stcl.losses.settings import Direct as Direct
from stcl.losses.settings import FittedLaplacian as FittedLaplacian
from stcl.losses.settings import InverseLaplacian as InverseLaplacian
from stcl.losses.settings import Krylov as Krylov
from stcl.losses.settings import KrylovTarget as KrylovTarget
from stcl.losses.settings import LerayOseen as LerayOseen
from stcl.losses.settings import March as March
from stcl.losses.settings import NormalizedResidual as NormalizedResidual
from stcl.losses.settings import PreconditionedResidual as PreconditionedResidual
from stcl.losses.settings import Residual as Residual
from stcl.losses.settings import ShiftedLaplacian as ShiftedLaplacian
from stcl.losses.settings import SolvedTarget as SolvedTarget
from stcl.losses.settings import SpaceTime as SpaceTime
from stcl.losses.settings import Stokes as Stokes
from stcl.losses.settings import Weighting as Weighting
from stcl.losses.variance_share import VarianceShare as VarianceShare
from stcl.operators.fno import FNO as FNO
from stcl.problems.base import Problem as Problem
from stcl.runs import Run as Run
from stcl.runs import load_run as load_run
from stcl.tangents import ReverseTangents as ReverseTangents
from stcl.tangents import TangentError as TangentError
from stcl.tangents import jacobian_error as jacobian_error
from stcl.tangents import value_and_tangents as value_and_tangents

NAMES: tuple[str, ...]
