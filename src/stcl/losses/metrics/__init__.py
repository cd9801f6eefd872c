"""Metrics M that weigh a tangent residual: objects with apply(r, a), energy(r, a) and, for tests, matrix(a)."""
