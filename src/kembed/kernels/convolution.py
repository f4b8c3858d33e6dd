"""The prior covariance r(x, y) = ∫ k(x, u) k(u, y) ν(du), in closed form.

Every kernel here is a mixture of squared exponentials, so r is a sum over pairs of components with
precisions P and Q. Completing the square in u gives, with d = x - y and v = (P+Q)⁻¹(Px + Qy),

    Lebesgue:        (2π)^{D/2} |P+Q|^{-1/2} exp(-½ dᵀ P(P+Q)⁻¹Q d)
    mass · N(c, Γ):  mass |I + (P+Q)Γ|^{-1/2} exp(-½ dᵀ P(P+Q)⁻¹Q d - ½ (v-c)ᵀ((P+Q)⁻¹ + Γ)⁻¹(v-c)).

Both exponents are squared distances between linear images of x and of y. Under point masses r is a plain sum,
for kernels of every kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, namespace, pytree
from kembed.core.linalg import cholesky, psd_root, squared_distances, triangular_solve
from kembed.kernels.base import MADE, Components, Kernel, PairFunction, check_kernel
from kembed.kernels.composite import as_full
from kembed.kernels.measures import EmpiricalMeasure, GaussianMeasure, Lebesgue, Measure

SQUARED = 1e290  # precisions up to this can be added and multiplied by what they are used with


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Convolved(PairFunction):
    """r(x, y) = ∫ k(x, u) k(u, y) ν(du): prior covariance of the embedding, Eq. (4) of the paper.

    Draws of GP(0, r) lie in the RKHS of k; draws of GP(0, k) do not.

    >>> from kembed import Gaussian, Lebesgue
    >>> r = Gaussian(1.0).convolved(Lebesgue())
    >>> r
    Convolved(Gaussian(lengthscale=1), Lebesgue())
    >>> r.gram([[0.0], [2.0]]).round(4)  # sqrt(pi) exp(-d²/4)
    array([[1.7725, 0.652 ],
           [0.652 , 1.7725]])
    """

    kernel: Kernel
    measure: Measure

    def __init__(self, kernel: Kernel, measure: Measure) -> None:
        if not isinstance(measure, Lebesgue | GaussianMeasure | EmpiricalMeasure):
            raise TypeError(
                "measure must be Lebesgue(), GaussianMeasure(...) or EmpiricalMeasure(...), "
                f"but {measure!r} was given"
            )
        vars(self).update(kernel=check_kernel(kernel), measure=measure)

    def diagonal(self, X: Any) -> Float[Array, " n"]:
        """The vector r(x_i, x_i)."""
        return self._values(checks.points(X, "X"), None)

    def _gram(self, X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
        return self._values(X, Y)

    def _values(self, X: Any, Y: Any) -> Any:
        """r at all pairs; its diagonal if Y is None."""
        kernel, nu = self.kernel, self.measure
        nu.check_dimension(X.shape[1])
        if not isinstance(nu, EmpiricalMeasure):
            # Those who use r look for what is not finite.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                parts = kernel.components(X.shape[1], finite=isinstance(nu, GaussianMeasure))
                return convolved_mixture(parts, nu, X, Y)
        left = kernel._gram(X, nu.points)
        return left**2 @ nu.weights if Y is None else (left * nu.weights) @ kernel._gram(nu.points, Y)

    def __repr__(self) -> str:
        return f"Convolved({self.kernel!r}, {self.measure!r})"


def convolved_mixture(parts: Components, measure: Measure, X: Any, Y: Any) -> Any:
    """r(x_i, y_j) = Σ_pq w_p w_q r_pq of a mixture of squared exponentials; its diagonal if Y is None."""
    log_weights, precision = parts
    if namespace(precision) is np and not 0.0 < np.abs(precision).max() < SQUARED:
        raise np.linalg.LinAlgError("a lengthscale is too large or too small for its square to be a number")
    if isinstance(measure, GaussianMeasure) and np.ndim(measure.covariance) == 2:
        precision = as_full(precision)
    count = precision.shape[0]
    i, j = np.indices((count, count)).reshape(2, -1)
    twice = np.ones(count * count)
    if isinstance(measure, Lebesgue):  # r_pq = r_qp: only i <= j, counted twice
        i, j = np.triu_indices(count)
        twice = np.where(i == j, 1.0, 2.0)
    pairs = (log_weights[i] + log_weights[j] + np.log(twice), precision[i], precision[j])

    def term(log_weight: Any, P: Any, Q: Any) -> Any:
        log_coefficient, image_x, image_y = gaussian_pair(P, Q, measure, X, X if Y is None else Y)
        pairwise = squared_distances if Y is not None else lambda a, b: ((a - b) ** 2).sum(axis=1)
        logarithm = log_weight + log_coefficient - 0.5 * pairwise(image_x, image_y)
        return namespace(logarithm).exp(logarithm)

    return _accumulate(term, pairs)


def gaussian_pair(P: Any, Q: Any, measure: Measure, X: Any, Y: Any) -> tuple[Any, Any, Any]:
    """One pair of components: log coefficient, and images of x and y whose distance² is the exponent.

    P and Q are both diagonals (D,) or both matrices (D, D).
    """
    dimension = P.shape[0]
    T = P + Q
    moved = X - Y[:1], Y - Y[:1]  # far from 0 products would lose the digits in which rows differ
    if P.ndim == 1:
        xp = namespace(T)
        root = xp.sqrt(P * Q / T)
        stationary = (moved[0] * root, moved[1] * root)
    else:
        xp = namespace(P, Q)
        L = xp.linalg.cholesky(T)
        half = triangular_solve(L, Q)
        M = triangular_solve(L, P).T @ half
        root = xp.linalg.cholesky(0.5 * (M + M.T))
        stationary = (moved[0] @ root, moved[1] @ root)
    if isinstance(measure, Lebesgue):
        half_log_det = 0.5 * xp.log(T).sum() if P.ndim == 1 else xp.log(xp.diagonal(L)).sum()
        return 0.5 * dimension * np.log(2.0 * np.pi) - half_log_det, *stationary

    assert isinstance(measure, GaussianMeasure)
    Gamma, centre = measure.covariance, measure.centre
    xp = namespace(T, Gamma, centre, measure.mass, X, Y)
    if P.ndim == 1:
        V = T / (1.0 + T * Gamma)
        to_v = xp.sqrt(V) / T
        central = ((X - centre) * (P * to_v), (centre - Y) * (Q * to_v))
        half_log_det = 0.5 * (xp.log1p(T * Gamma) * np.ones(dimension)).sum()
    else:
        Gamma = Gamma if np.ndim(Gamma) == 2 else Gamma * np.eye(dimension)
        # C Cᵀ = I + Lᵀ Γ L by a QR of its square root: Γ may be singular and L huge.
        stacked = xp.concatenate([np.eye(dimension), psd_root(Gamma).T @ L])
        C = xp.linalg.qr(stacked)[1].T
        to_v = triangular_solve(C, triangular_solve(L, np.eye(dimension)))
        central = ((X - centre) @ (to_v @ P).T, (centre - Y) @ (to_v @ Q).T)
        half_log_det = xp.log(xp.abs(xp.diagonal(C))).sum()
    images = tuple(xp.concatenate([a, b], axis=1) for a, b in zip(stationary, central, strict=True))
    return xp.log(measure.mass) - half_log_det, images[0], images[1]


def _accumulate(term: Any, pairs: tuple[Any, ...]) -> Any:
    """Σ term(*pair), one (n, m) array at a time, in NumPy or as a JAX loop."""
    first = term(*(array[0] for array in pairs))
    if namespace(first) is np or len(pairs[0]) == 1:
        for pair in zip(*(array[1:] for array in pairs), strict=True):
            first += term(*pair)
        return first
    import jax

    @jax.checkpoint
    def step(total: Any, pair: tuple[Any, ...]) -> tuple[Any, None]:
        return total + term(*pair), None

    rest = tuple(jax.numpy.asarray(array)[1:] for array in pairs)
    return jax.lax.scan(step, first, rest)[0]


def section_inner(
    kernel: Kernel, left: Measure, right: Measure, X: Float[Array, "n D"], Y: Float[Array, "m D"]
) -> Float[Array, "n m"]:
    """⟨r_ν(·, x_i), r_ν'(·, y_j)⟩ in the RKHS of k: ∫∫ k(x,u) k(u,u') k(u',y) ν(du) ν'(du').

    For components with precisions P, Q, S the integrand is, up to its constants, the joint density of
    x = u + ε, 0 = u - u' + ε', y = u' + ε'' with u ~ ν, u' ~ ν' and Gaussian ε of covariances P⁻¹, Q⁻¹, S⁻¹;
    so the integral is a Gaussian density in (x, y). NumPy only: nobody differentiates inner products. A
    kernel of q components costs q³ terms: at once for Gaussians, seconds for Matérn and rational quadratic.
    """
    D = X.shape[1]
    left.check_dimension(D)
    right.check_dimension(D)
    if isinstance(left, EmpiricalMeasure):  # Σ_u w_u k(x, u) r_ν'(u, y)
        inner = Convolved(kernel, right)._gram(left.points, Y)
        return kernel._gram(X, left.points) * left.weights @ inner
    if isinstance(right, EmpiricalMeasure):
        return section_inner(kernel, right, left, Y, X).T
    finite = isinstance(left, GaussianMeasure) and isinstance(right, GaussianMeasure)
    log_weights, precision = kernel.components(D, finite=finite)
    covariance = np.linalg.inv(as_full(precision))
    # exp(-½ tᵀPt) = (2π)^{D/2} |P|^{-1/2} N(t; 0, P⁻¹)
    masses = log_weights + 0.5 * D * np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
    # A triple matters by its weights under a narrow measure and by its masses under a wide one.
    matters = [logs - np.logaddexp.reduce(logs) for logs in (log_weights, masses)]
    total = np.zeros((len(X), len(Y)))
    for p, q in np.ndindex((len(log_weights),) * 2):
        best = np.maximum(*(logs[p] + logs[q] + logs for logs in matters))
        third = np.flatnonzero(best >= np.log(1e-14))  # all third components at once
        if not len(third):
            continue
        joint, to_x, to_y, mean = _joint(left, right, covariance[p], covariance[q], covariance[third])
        lower = np.stack([cholesky(matrix).lower for matrix in joint])
        half = np.linalg.inv(lower)
        image_x = half @ (to_x @ X.T - mean[:, None])
        image_y = half @ (to_y @ -Y.T)
        log_density = masses[p] + masses[q] + masses[third] - 0.5 * len(mean) * np.log(2.0 * np.pi)
        log_density -= np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        for logarithm, a, b in zip(log_density, image_x, image_y, strict=True):
            total += np.exp(logarithm - 0.5 * squared_distances(a.T, b.T))
    log_mass = sum(np.log(measure.mass) for measure in (left, right) if isinstance(measure, GaussianMeasure))
    return total * np.exp(log_mass)


def _joint(left: Measure, right: Measure, P: Any, Q: Any, S: Any) -> tuple[Any, Any, Any, Any]:
    """Covariance of the observed vector, how x and y enter it, and its mean.

    P and Q are covariances (D, D), S a stack of them (t, D, D), and so is the covariance returned.
    """
    D = len(P)
    eye, none = np.eye(D), np.zeros((D, D))
    (c1, G1), (c2, G2) = (_mean_and_covariance(measure, D) for measure in (left, right))
    if G1 is None and G2 is None:  # only x - y has a density
        return P + Q + S, eye, -eye, np.zeros(D)
    if G1 is None:  # u integrated out: x = u' + ε + ε'
        joint, mean = np.block([[G2 + P + Q, G2], [G2, G2]]), np.concatenate([c2, c2])
    elif G2 is None:
        joint, mean = np.block([[G1 + P, G1], [G1, G1 + Q]]), np.concatenate([c1, c1])
    else:
        joint = np.block([[G1 + P, none, G1], [none, G2, -G2], [G1, -G2, G1 + G2 + Q]])
        mean = np.concatenate([c1, c2, c1 - c2])
    stack = np.repeat(joint[None], len(S), axis=0)
    stack[:, D : 2 * D, D : 2 * D] += S
    rest = [none] * (len(joint) // D - 2)
    return stack, np.vstack([eye, none, *rest]), np.vstack([none, eye, *rest]), mean


def _mean_and_covariance(measure: Measure, D: int) -> tuple[Any, Any]:
    if isinstance(measure, Lebesgue):
        return None, None
    assert isinstance(measure, GaussianMeasure)
    Gamma = np.asarray(measure.covariance)
    return measure.centre * np.ones(D), Gamma if Gamma.ndim == 2 else Gamma * np.eye(D)


MADE.update(convolved=Convolved)
