"""Errors and warnings that more than one room raises."""


class EquationError(ValueError):
    """The residual cannot be used. The message says what was found and what to do."""


class EquationWarning(UserWarning):
    """The residual hardly holds at the data. The message says what was measured and what it may be."""
