"""Errors that more than one room raises."""


class EquationError(ValueError):
    """The residual cannot be used. The message says what was found and what to do."""
