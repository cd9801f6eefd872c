"""Derivative terms of the training loss: forms of the tangent residual, metrics, weighting.

Forms and metrics are modules loaded by name, so that editing one does not touch what was trained with another.
"""
