"""Surrogates S_θ : a ↦ u and their tangents. Nothing here knows a PDE."""
