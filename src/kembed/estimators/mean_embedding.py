"""Bags of points as vectors: `MeanEmbedding`.

With K = k(z, z) = U Λ Uᵀ the coordinates of an embedding are c = Wᵀμ(z), W = U Λ^(-1/2): plain inner
products of coordinates are μ(z)ᵀ K⁻¹ μ'(z), those of the RKHS after projection on span k(·, z). The posterior
of `fit_embedding` (Eq. 8 of the paper) is taken in these coordinates, where it is well conditioned: values at
neighbouring landmarks hardly differ, and solving for them there moved coordinates by 1e-4 when nothing but
the order of a sum had changed (here 1e-7).
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kembed.core import checks
from kembed.core.backend import to_numpy
from kembed.core.linalg import Cholesky, cholesky
from kembed.core.threads import few_rows_one_thread
from kembed.embeddings.landmarks import as_rule, choose_landmarks
from kembed.embeddings.posterior import feature_moments
from kembed.estimators.bag_model import feature_axes
from kembed.estimators.validation import as_tables
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.measures import GaussianMeasure
from kembed.kernels.space import make_space
from kembed.learning.kernel_words import choose_kernel

ROWS = {"dtype": np.float64, "order": "C"}  # what scikit-learn makes of a table
WORDS = ("bkl", "ard", "paper", "median", "median-raw")


class MeanEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn each bag of points into the vector of its mean embedding, with its uncertainty.

    Each sample is a *bag*: an (n_i, D) table of points drawn from a distribution of its own. The bag's
    embedding μ_i = E k(·, X) is estimated by its posterior mean, which pulls small bags more than large ones
    towards the prior, and given as coordinates in which the plain inner product is that of the RKHS, as far
    as the landmarks see it. Any estimator for vectors then works on distributions.

    Parameters
    ----------
    kernel
        A word, which means what it means in `mmd_test`, on the pooled rows, columns over their spreads:
        `"bkl"`, learned; `"ard"`, with a lengthscale for each column; `"median"`, the median heuristic
        (`"median-raw"`: of columns as they are). Or a kernel object, or a `LearnedKernel`.
    landmarks
        How many, a rule, or the points, as in `choose_landmarks`; None: 100 support points of the pooled
        rows.
    noise
        What is known of the scatter of the features within a bag: `"pooled"`, their covariance from all bags
        together; or τ² as a number.
    random_state
        Seed of the landmarks; None is fresh entropy.

    Attributes
    ----------
    kernel_, landmarks_
        The kernel and the landmarks of all embeddings.
    learned_
        The `Evidence` of a kernel that was learned; else None.
    n_features_in_, feature_names_in_
        The columns of a bag.

    Notes
    -----
    X is a list (or object array) of tables, or a 3-D array of bags of one size. A plain table, (n, D), is n
    bags of one point each.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import RidgeCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from kembed import MeanEmbedding
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2.0, size=100)  # what we want to know of each bag
    >>> bags = [rng.normal(scale=s, size=(rng.integers(20, 60), 1)) for s in spread]
    >>> model = make_pipeline(MeanEmbedding(kernel="median"), RidgeCV(np.logspace(-4, 2, 13)))
    >>> print(model.fit(bags[:70], spread[:70]).score(bags[70:], spread[70:]) > 0.7)
    True

    """

    def __init__(
        self,
        kernel: Kernel | str = "bkl",
        *,
        landmarks: Any = None,
        noise: float | str = "pooled",
        random_state: Any = 0,
    ) -> None:
        self.kernel, self.landmarks = kernel, landmarks
        self.noise, self.random_state = noise, random_state

    @few_rows_one_thread
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose kernel, landmarks and prior from the pooled rows of all bags; y is not looked at."""
        noise: Any = self.noise
        if isinstance(noise, str):
            checks.choice(noise, "noise", ("pooled",))
        else:
            noise = float(checks.positive(noise, "noise"))
        bags = self._bags(X, reset=True)
        rows = np.concatenate(bags)
        if len(rows) < 2:
            raise ValueError("X has 1 row in all its bags together; at least 2 are needed: give more rows")
        if isinstance(self.kernel, str):
            checks.choice(self.kernel, "kernel", WORDS)
        kernel, self.learned_ = choose_kernel(self.kernel, make_space(rows, np.zeros(rows.shape[1], bool)))
        self.kernel_ = to_numpy(check_kernel(kernel))
        rule = as_rule(self.landmarks, "support")
        rng = checks.as_rng(self.random_state)
        self.landmarks_ = choose_landmarks(rows, self.landmarks if rule is None else rule, rng=rng)
        self._axes = axes = feature_axes(self.kernel_, self.landmarks_)
        self._prior = axes.T @ self.kernel_.convolved(GaussianMeasure.of(rows)).gram(self.landmarks_) @ axes
        if not isinstance(noise, str):
            self._noise = noise * (axes.T @ axes)
            return self
        # The covariance within bags, over all bags; over all rows where every bag has but one.
        several = [x for x in bags if len(x) > 1] or [rows]
        total = sum((len(x) - 1) * self._moments(x, want_covariance=True)[1] for x in several)
        self._noise = np.asarray(total) / sum(len(x) - 1 for x in several)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The coordinates of every bag's posterior mean embedding, (bags, q)."""
        return self._posterior(X, want_sd=False)[0]

    def transform_with_sd(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The coordinates of every bag, and the posterior standard deviation of each, both (bags, q)."""
        return self._posterior(X, want_sd=True)

    def _moments(self, x: np.ndarray, want_covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance, over the rows of a bag, of the coordinates of k(·, x)."""
        mean, scatter = feature_moments(self.kernel_, x, self.landmarks_, want_covariance)
        return mean @ self._axes, self._axes.T @ scatter @ self._axes

    @few_rows_one_thread
    def _posterior(self, X: Any, want_sd: bool) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean R A⁻¹ ĉ of every bag, A = R + N/n, and the sd from R - R A⁻¹ R."""
        check_is_fitted(self, "landmarks_")
        bags, R = self._bags(X, reset=False), self._prior
        means, sds = np.empty((len(bags), len(R))), np.empty((len(bags), len(R)))
        shared: dict[int, tuple[Cholesky, np.ndarray]] = {}  # bags of one size have one A
        for i, x in enumerate(bags):
            if len(x) not in shared:
                A = cholesky(R + self._noise / len(x), well_conditioned=True)
                half = A.half_solve(R) if want_sd else np.zeros((1, len(R)))
                shared[len(x)] = A, np.sqrt(np.maximum(np.diagonal(R) - (half**2).sum(axis=0), 0.0))
            A, sds[i] = shared[len(x)]
            means[i] = R @ A.solve(self._moments(x, want_covariance=False)[0])
        return means, sds

    @property
    def _n_features_out(self) -> int:
        return int(self._axes.shape[1])

    def _bags(self, X: Any, reset: bool) -> list[np.ndarray]:
        """Every bag as a checked table of the same columns."""
        tables = as_tables(X)
        if tables is None:
            X = checks.some_rows(X, "X")
            rows = validate_data(self, X, reset=reset, ensure_min_samples=1 + reset, **ROWS)
            return list(rows[:, None, :])
        bags = []
        for i, table in enumerate(tables):
            try:
                bags.append(validate_data(self, checks.some_rows(table, "X"), reset=reset and i == 0, **ROWS))
            except ValueError as error:
                raise ValueError(f"bag {i} (X[{i}]): {error}") from None
        return bags
