"""Metrics M that weigh a tangent residual.

Each metric has a file of its own, which is loaded by name; the class is the file's name in CamelCase. A metric is built
from an equation and its own settings, and answers as stcl.core.interfaces.Metric says.
"""

import importlib

from stcl.core.interfaces import DiscreteEquation, Metric
from stcl.losses.settings import MetricSettings


def load(equation: DiscreteEquation, settings: MetricSettings) -> Metric:
    """The metric that its settings name."""
    module = importlib.import_module(f"{__name__}.{settings.name}")
    return getattr(module, "".join(word.capitalize() for word in settings.name.split("_")))(equation, settings)
