"""Forms: how a tangent residual becomes a loss.

Each form has a file of its own, which is loaded by name; the class is the file's name in CamelCase. A form is built
from an equation, its own settings and the class of the tangent operator, which is None where nobody has declared or
measured it. It is called as stcl.core.interfaces.TangentForm says.
"""

import importlib

from stcl.core.interfaces import DiscreteEquation, OperatorClass, TangentForm
from stcl.losses.settings import FormSettings


def load(equation: DiscreteEquation, settings: FormSettings, tangent_class: OperatorClass | None = None) -> TangentForm:
    """The form that its settings name. The class of the tangent operator is the declared one, unless it is given."""
    module = importlib.import_module(f"{__name__}.{settings.name}")
    form = getattr(module, "".join(word.capitalize() for word in settings.name.split("_")))
    return form(equation, settings, tangent_class or equation.tangent_class)
