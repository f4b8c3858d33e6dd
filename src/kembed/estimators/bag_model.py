"""Bayesian distribution regression: a number y for each bag of rows (Law et al. 2018).

A bag of n rows has mean features ŵ. The features w of the distribution behind it are not known:

    w ~ N(m, C),   ŵ | w ~ N(w, S/n),   y | w ~ N(β + αᵀ(w - m), σ²),   α ~ N(0, τI),   β flat.

S is the covariance of features within bags, from all bags together. m and C are learned between bags, by
steps of EM: C becomes the mean of the posterior second moments of w. Given a bag, w ~ N(m + μ, Σ) with

    μ = C (C + S/n)⁻¹ (ŵ - m),   Σ = C - C (C + S/n)⁻¹ C,

so that y | α ~ N(β + αᵀμ, σ² + αᵀΣα): a bag of few rows counts for less. As α is uncertain too, the variance
of bag b is taken at its posterior expectation, with a = E[α | y] and A = Cov[α | y],

    v_b = σ² + E[αᵀΣ_bα | y] = σ² + aᵀΣ_b a + tr(Σ_b A).

Given v, α is that of weighted ridge regression, A = (Mᵀ V⁻¹ M + I/τ)⁻¹ and a = A Mᵀ V⁻¹ (y - β), M with
rows μ_b; given α, v is as above: both are iterated until they agree. σ² and τ maximise the likelihood of y
with α and β integrated out, N(y; β1, τMMᵀ + V), at that v. For a new bag α and w are independent given y, so
that by the law of total variance

    E[y] = β + aᵀμ,   Var[y] = σ² + μᵀAμ + aᵀΣa + tr(ΣA),

with β beside α in a and A, 1 beside μ, and α ~ N(a, A). As n → ∞ all Σ vanish: ridge regression on
mean embeddings.

References
----------
Law, Sutherland, Sejdinovic, Flaxman, "Bayesian Approaches to Distribution Regression", AISTATS 2018.

"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.linalg import triangular_solve
from kembed.embeddings.posterior import feature_moments
from kembed.kernels.base import Kernel

# An eigenvalue of S from few rows is much too small, and its direction would then be taken for certain: of
# 40 bags of 5 to 12 rows the error was .98 with one feature to 20 rows, 1.05 with one to 4.
ROWS_PER_FEATURE = 20
# Directions with less than this share of K's largest eigenvalue hold no more than 1e-4 of a feature, and
# the rounding of K (1e-16) divided by a smaller one would show.
LEAST_EIGENVALUE = 1e-8
STEPS = 8  # of EM; with 30 errors are from 5% lower to 2% higher
FLOOR = 1e-8  # of S, as a share of the usual variance of a feature: S may be 0
# σ² and the prior variance of αᵀw, both over the variance of y: where they are looked for.
BOUNDS = np.log([[1e-4, 2.0], [1e-3, 1e3]])
STARTS = [np.log([noise, signal]) for noise in (0.02, 0.2, 0.8) for signal in (0.3, 3.0, 30.0)]
TOLERANCE, ITERATIONS = 1e-4, 100  # of v, relative; mostly 5 iterations reach it


@dataclass(frozen=True, eq=False)
class EmbeddingPrior:
    """Mean features of bags in q coordinates whose inner product is that of the RKHS, and N(m, C), S.

    S = EEᵀ and C = E diag(ratio) Eᵀ: in units of E all covariances are diagonal.
    """

    kernel: Kernel
    landmarks: Float[np.ndarray, "p D"]
    axes: Float[np.ndarray, "p q"]
    mean: Float[np.ndarray, " q"]  # m
    basis: Float[np.ndarray, "q q"]  # E
    ratio: Float[np.ndarray, " q"]

    def posterior(
        self, rows: Float[np.ndarray, "N D"], number: Int[np.ndarray, " N"]
    ) -> tuple[Float[np.ndarray, "B q"], Float[np.ndarray, "B q"]]:
        """μ of every bag, and u where Σ = E diag(u) Eᵀ; `number` is the bag of every row."""
        means, _, sizes = bag_moments(self.kernel, self.landmarks, rows, number, want_scatter=False)
        observed = np.linalg.solve(self.basis, (means @ self.axes - self.mean).T).T
        shrinkage = self.ratio / (self.ratio + 1.0 / sizes[:, None])
        return (shrinkage * observed) @ self.basis.T, self.ratio * (1.0 - shrinkage)


def feature_axes(kernel: Kernel, landmarks: Float[np.ndarray, "p D"]) -> Float[np.ndarray, "p q"]:
    """W = U Λ^(-1/2) where k(z, z) = U Λ Uᵀ: coordinates Wᵀk(z, ·) have the inner product of the RKHS."""
    eigenvalues, vectors = np.linalg.eigh(kernel.gram(landmarks))
    kept = np.flatnonzero(eigenvalues > LEAST_EIGENVALUE * eigenvalues[-1])[::-1]
    # eigh may return either sign of a vector; the same data should give the same features everywhere.
    largest = np.abs(vectors[:, kept]).argmax(axis=0)
    return vectors[:, kept] * np.sign(vectors[largest, kept]) / np.sqrt(eigenvalues[kept])


def bag_moments(
    kernel: Kernel,
    landmarks: Float[np.ndarray, "p D"],
    rows: Float[np.ndarray, "N D"],
    number: Int[np.ndarray, " N"],
    want_scatter: bool,
) -> tuple[np.ndarray, np.ndarray, Int[np.ndarray, " B"]]:
    """Mean of k(·, z) in every bag, the sum of squares about the means, and the rows of every bag."""
    sizes = np.bincount(number)
    bags = np.split(rows[np.argsort(number, kind="stable")], np.cumsum(sizes)[:-1])
    means, scatter = np.empty((len(bags), len(landmarks))), np.zeros((len(landmarks), len(landmarks)))
    for b, bag in enumerate(bags):
        means[b], covariance = feature_moments(kernel, bag, landmarks, want_scatter and len(bag) > 1)
        scatter += (len(bag) - 1) * covariance
    return means, scatter, sizes


def fit_prior(
    kernel: Kernel, landmarks: Float[np.ndarray, "p D"], rows: Float[np.ndarray, "N D"], number: np.ndarray
) -> EmbeddingPrior:
    """Axes, S, m and C from the rows of all bags."""
    values, scatter, sizes = bag_moments(kernel, landmarks, rows, number, want_scatter=True)
    axes = feature_axes(kernel, landmarks)
    means, scatter, freedom = values @ axes, axes.T @ scatter @ axes, len(rows) - len(sizes)
    away = means - sizes @ means / len(rows)
    total = (scatter + (sizes * away.T) @ away) / len(rows)
    principal = np.linalg.eigh(total)[1][:, ::-1]
    # Where all bags have one row nothing is known of S, and it is 0: regression on rows.
    features = max(len(rows) // ROWS_PER_FEATURE, 1) if freedom else len(principal)
    principal = principal[:, :features]
    means, within = means @ principal, principal.T @ scatter @ principal / max(freedom, 1)
    floor = FLOOR * (float(np.trace(total)) / len(total) or 1.0)
    lower = np.linalg.cholesky(within + floor * np.eye(len(within)))
    mean, vectors, ratio = fit_between_bags(triangular_solve(lower, means.T).T, sizes)
    return EmbeddingPrior(kernel, landmarks, axes @ principal, lower @ mean, lower @ vectors, ratio)


def fit_between_bags(
    observed: Float[np.ndarray, "B q"], sizes: Int[np.ndarray, " B"]
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, "q q"], Float[np.ndarray, " q"]]:
    """Mean, axes and variances of w where ŵ ~ N(w, I/n), by EM from the moments of ŵ."""
    mean = observed.mean(axis=0)
    covariance = (observed - mean).T @ (observed - mean) / len(observed)
    for _ in range(STEPS):
        ratio, vectors = np.linalg.eigh(covariance)
        ratio = np.maximum(ratio, 0.0)
        shrinkage = ratio / (ratio + 1.0 / sizes[:, None])
        expected = shrinkage * ((observed - mean) @ vectors)
        shift = expected.mean(axis=0)
        second = expected.T @ expected / len(sizes) + np.diag((ratio * (1.0 - shrinkage)).mean(axis=0))
        covariance = vectors @ (second - np.outer(shift, shift)) @ vectors.T
        mean = mean + vectors @ shift
    ratio, vectors = np.linalg.eigh(covariance)
    return mean, vectors, np.maximum(ratio, 0.0)


class Weights(NamedTuple):
    """The posterior N(a, A) of β and α, A⁻¹ = LLᵀ, in units of y; and what it rests on."""

    coefficients: Float[np.ndarray, " q+1"]  # β, then a
    lower: Float[np.ndarray, "q+1 q+1"]  # L
    noise: float  # σ²
    variances: Float[np.ndarray, " B"]  # v
    log_likelihood: float  # of y, β and α integrated out

    def predict(
        self, mu: Float[np.ndarray, "B q"], u: Float[np.ndarray, "B q"], basis: Float[np.ndarray, "q q"]
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]]:
        """Mean and variance of y of bags whose w is N(m + μ, E diag(u) Eᵀ)."""
        design = with_ones(mu)
        by_weights = np.square(triangular_solve(self.lower, design.T)).sum(axis=0)
        return design @ self.coefficients, self.noise + by_weights + u @ self.second_moments(basis)

    def second_moments(self, basis: Float[np.ndarray, "q q"]) -> Float[np.ndarray, " q"]:
        """E[(αᵀe)²] for every column e of E, so that E[αᵀΣα] is their sum with weights u."""
        sides = np.vstack([np.zeros(basis.shape[1]), basis])
        return (sides.T @ self.coefficients) ** 2 + np.square(triangular_solve(self.lower, sides)).sum(axis=0)


def with_ones(mu: Float[np.ndarray, "B q"]) -> Float[np.ndarray, "B q+1"]:
    """A column of ones before the others."""
    return np.column_stack([np.ones(len(mu)), mu])


def weighted_ridge(
    mu: Float[np.ndarray, "B q"],
    y: Float[np.ndarray, " B"],
    variances: Float[np.ndarray, " B"],
    noise: float,
    tau: float,
) -> Weights:
    """The posterior of β and α given v, σ² and τ, and log ∫ N(y; β1, τMMᵀ + V) dβ."""
    design, q = with_ones(mu), mu.shape[1]
    precision = (design.T / variances) @ design
    precision[range(1, q + 1), range(1, q + 1)] += 1.0 / tau
    lower = np.linalg.cholesky(precision)
    half = triangular_solve(lower, design.T @ (y / variances))
    fit = float((y**2 / variances).sum() - half @ half)
    volume = float(np.log(variances).sum() + q * np.log(tau) + 2.0 * np.log(np.diagonal(lower)).sum())
    log_likelihood = -0.5 * (fit + volume + (len(y) - 1) * np.log(2.0 * np.pi))
    coefficients = triangular_solve(lower, half, transposed=True)
    return Weights(coefficients, lower, noise, variances, log_likelihood)


def fixed_point(
    mu: Float[np.ndarray, "B q"],
    u: Float[np.ndarray, "B q"],
    basis: Float[np.ndarray, "q q"],
    y: Float[np.ndarray, " B"],
    noise: float,
    tau: float,
) -> Weights:
    """`weighted_ridge` at the v that is σ² + E[αᵀΣα] under the posterior it gives."""
    variances = noise + np.minimum(tau * (u @ np.square(basis).sum(axis=0)), y.var())
    for iteration in range(ITERATIONS):
        weights = weighted_ridge(mu, y, variances, noise, tau)
        expected = noise + u @ weights.second_moments(basis)
        if np.abs(np.log(expected / variances)).max() <= TOLERANCE:
            break
        variances = expected if iteration < 3 else 0.5 * (variances + expected)  # it may oscillate
    return weights


def fit_weights(
    mu: Float[np.ndarray, "B q"], u: Float[np.ndarray, "B q"], basis: Float[np.ndarray, "q q"], y: np.ndarray
) -> Weights:
    """The posterior at the σ² and τ of highest likelihood; y has mean 0 and variance 1."""
    from scipy.optimize import minimize

    size = float(np.mean(np.square(mu).sum(axis=1) + u @ np.square(basis).sum(axis=0))) or 1.0  # E|w - m|²

    def at(place: np.ndarray) -> Weights:
        noise, signal = np.exp(place)
        return fixed_point(mu, u, basis, y, float(noise), float(signal) / size)

    def loss(place: np.ndarray) -> float:
        return -at(place).log_likelihood

    start = min(STARTS, key=loss)
    simplex = start + np.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.7]])
    options = {"xatol": 0.02, "fatol": 0.01, "initial_simplex": simplex}
    return at(minimize(loss, start, method="Nelder-Mead", bounds=BOUNDS, options=options).x)
