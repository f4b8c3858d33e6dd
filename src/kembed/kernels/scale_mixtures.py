"""Rational quadratic and Matérn kernels as mixtures of Gaussians of many scales.

k(s) = ∫ exp(-c s/2) p(c) dc ≈ Σ_q w_q exp(-c_q s/2), with positive weights, so that the prior covariance
r = Σ_ij w_i w_j r_ij is itself positive definite. The rules below hold r to a relative error of 1e-6 for
distances up to 100 lengthscales, where r of Matérn 1/2 is of order 1e-42, under Lebesgue measure and Gaussian
measures wider than a twentieth of the lengthscale (narrower, Matérn 1/2 is good to 3e-5). Cost is Q² Gaussian
pairs, so Q was made as small as it goes: each rule is a trapezoid in a variable that smooths the integrand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kembed.core.backend import is_traced, namespace
from kembed.core.linalg import log_sum_exp

TAIL = 20  # nodes beyond the first whose weight is given to the first

# Matérn ν: t = 1/c ~ Gamma(ν, rate ν). Far apart the summand is exp(-νT - s/2T), T = t_i + t_j: a ridge
# whose width in √(νT) is 1/(2√2) for every s, so equal steps in z = √(νt) suit large t. For small t the
# integrand goes as t^(ν + D/2), so equal steps in log t suit there. Both at once: z = softplus(b y)/b,
# y = v - g exp(-k v), equal steps in v on [lo, hi]. `hi` follows from √(ν/2)·100 = max νT, `lo` from where
# the tail correction is good to 1e-7; the five numbers minimise the largest relative error of r.
MATERN_NODES = 42
FINITE_NODES = {0.5: 5, 1.5: 3, 2.5: 3}  # kept beyond the first under a finite measure
_MATERN = {
    0.5: (-4.8397, 9.568646, 0.0399, 0.8817, 0.8585),
    1.5: (-3.8458, 11.839328, 0.0226, 1.1748, 0.7327),
    2.5: (-3.4067, 12.882074, 0.1639, 0.8508, 0.5052),
}
_GAMMA = {0.5: np.sqrt(np.pi), 1.5: np.sqrt(np.pi) / 2.0, 2.5: 0.75 * np.sqrt(np.pi)}


def matern(nu: float, dimension: int, finite: bool) -> tuple[Any, Any]:
    """(log w, c) for the Matérn kernel of smoothness 1/2, 3/2 or 5/2."""
    lo, hi, g, k, b = _MATERN[nu]
    h = (hi - lo) / (MATERN_NODES - 1)
    v = lo + h * np.arange(-TAIL, MATERN_NODES)
    y = np.maximum(v - g * np.exp(-k * v), -200.0)  # beyond this the weights are 0
    z = np.logaddexp(0.0, b * y) / b
    log_t = 2.0 * np.log(z) - np.log(nu)
    step = h * 2.0 / (z * (1.0 + np.exp(-b * y))) * (1.0 + g * k * np.exp(-k * v))
    log_w = nu * np.log(nu) - np.log(_GAMMA[nu]) + nu * log_t - nu * np.exp(log_t) + np.log(step)
    # As t_i -> 0, r_ij goes as t_i^(D/2): the nodes left out act as the first, scaled by that. It holds where
    # the component is narrower than ν, so for a ν that may be narrow some more nodes are kept.
    first = TAIL - FINITE_NODES[nu] if finite else TAIL
    scaled = log_w[: first + 1] + 0.5 * dimension * (log_t[: first + 1] - log_t[first])
    log_w[first] = np.logaddexp.reduce(scaled)
    return log_w[first:], np.exp(-log_t[first:])


# Rational quadratic: c ~ Gamma(α, rate α), u = log c. The integrand peaks at u = -log(1 + s/2α) with width
# α^(-1/2), so equal steps are needed from -L = -log(1 + 1e4/2α) (smoothly capped where k < exp(-234)) up to
# the upper tail of the Gamma. To the left of that, with one c small, r_ij does not depend on it; with both
# small it goes as c^δ, δ = 2α - D/2 under Lebesgue and α under a finite measure: steps grow exponentially
# and reach about 1/δ. All of it is smooth in α.
RATIONAL_QUADRATIC_NODES = 48
LEAST_DELTA = 0.4  # below, the rule under Lebesgue is worse than 1e-6; at 0, r is infinite


def rational_quadratic(alpha: Any, dimension: int, finite: bool) -> tuple[Any, Any]:
    """(log w, c) for the rational quadratic kernel, convolved with a finite measure or Lebesgue's."""
    delta = alpha if finite else 2.0 * alpha - dimension / 2.0
    if not finite and not is_traced(alpha) and 2.0 * float(alpha) - dimension / 2.0 < LEAST_DELTA:
        raise ValueError(
            f"alpha={float(alpha):g} is too heavy-tailed for Lebesgue measure in {dimension} dimensions: "
            f"the prior covariance is infinite for alpha <= D/4, and alpha >= {(dimension + 0.8) / 4:g} is "
            "needed to compute it accurately; use a larger alpha or a GaussianMeasure"
        )
    xp = namespace(alpha)
    L = xp.log1p(5000.0 / alpha)
    L = L / (1.0 + (L * alpha / 233.8) ** 8) ** 0.125
    upper = xp.log(1.0 + 11.413 / alpha + xp.sqrt(31.647 / alpha))
    B = upper + L + 0.8314 + 2.2429 / xp.sqrt(alpha)
    K = 3.7087
    G = 17.344 / (delta + 0.1978) / (np.expm1(K) - K)
    x = 1.0 - np.arange(-TAIL, RATIONAL_QUADRATIC_NODES) / (RATIONAL_QUADRATIC_NODES - 1)
    u = upper - B * x - G * (np.expm1(K * x) - K * x)
    log_w = alpha * (u - xp.exp(u)) + xp.log(B + G * K * np.expm1(K * x))
    first = log_sum_exp(log_w[: TAIL + 1])
    log_w = xp.concatenate([xp.reshape(first, 1), log_w[TAIL + 1 :]])
    return log_w - log_sum_exp(log_w), xp.exp(u[TAIL:])  # weights sum to 1
