"""The tangent operator A = ∂F/∂u and the sensitivity equation A w + B v = 0 of any discrete equation."""
