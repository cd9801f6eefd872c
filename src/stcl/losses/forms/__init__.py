"""How a tangent residual becomes a loss, one form a file; the class is the file's name in CamelCase.

A form is built from (problem, settings, directions) and called with (surrogate, a, rows); it returns the prediction
u_θ(a), which the data loss shares, and the derivative loss.
"""
