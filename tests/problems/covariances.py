"""Do draws have the covariance they should?"""

import numpy as np


def covariance_z_scores(draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Deviation of the sample covariance of zero-mean Gaussian draws [N, d] from `covariance`, in standard errors."""
    variance = np.diag(covariance)
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / len(draws))
    return (draws.T @ draws / len(draws) - covariance) / error


def cosine_covariance(n: int, variance: np.ndarray) -> np.ndarray:
    """Σ_kl variance_kl φ_kl(x) φ_kl(y) at the n×n nodes, φ_kl = cos(kπx1) cos(lπx2): [n², n²]."""
    cosines = np.cos(np.pi * np.outer(np.arange(len(variance)), np.linspace(0, 1, n)))
    modes = np.einsum("ki,lj->klij", cosines, cosines).reshape(variance.size, n * n)
    return modes.T @ (variance.reshape(-1, 1) * modes)
