"""A kernel learned without labels, as a step in front of any kernel method: `KernelLearner`."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kembed.core import checks
from kembed.core.linalg import triangular_solve
from kembed.kernels.stationary import Gaussian, MultiScale, Stationary
from kembed.learning.learn import MINIMUM_ROWS, learn_kernel


class KernelLearner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a kernel from the rows of X alone; scale X so that the learned kernel has lengthscale 1.

    `transform` divides by the lengthscale, so that the learned Gaussian kernel is exp(-0.5 ‖t(x) - t(y)‖²):
    whatever comes next takes `gamma=0.5`. Or give `gamma_` to any scikit-learn estimator that has a `gamma`.

    No labels are used. Where there are labels, cross-validate `gamma`: they mostly want a wider kernel (`SVC`
    had a lower AUC than with `gamma="scale"` on eight real tables).

    Parameters
    ----------
    kernel
        `"isotropic"`: a Gaussian with one lengthscale; `"ard"`: one for each column; `"full"`: a full
        covariance; `"auto"`: the family with the highest predictive score; or a pattern such as `Matern32()`,
        as `learn_kernel` takes it. (That has more options; this has its defaults.)
    random_state
        Seed of the rows that are looked at where there are many; None is fresh entropy. With one seed the
        same rows, in any order, give the same kernel.

    Attributes
    ----------
    kernel_
        The learned kernel. `kernel_.gram` is a kernel function for `SVC(kernel=...)`.
    lengthscale_
        ℓ: a number, or one for each column, or the Cholesky factor of the full covariance.
    gamma_
        1/2ℓ², for estimators that write exp(-γ‖x-y‖²).
    learned_
        All that was learned: predictive score, modes, `log_density`, `plot`.
    n_features_in_, feature_names_in_
        The columns seen in `fit`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from kembed import KernelLearner
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> learner = KernelLearner().fit(X)
    >>> SVC(gamma=learner.gamma_).fit(X, y).score(X, y)
    1.0
    >>> make_pipeline(KernelLearner(), SVC(gamma=0.5)).fit(X, y).score(X, y)  # the same kernel
    1.0

    """

    def __init__(self, kernel: Stationary | str = "isotropic", *, random_state: Any = 0) -> None:
        self.kernel, self.random_state = kernel, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the kernel from X, (n, D); y is not looked at."""
        X = checks.some_rows(X, "X")
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=MINIMUM_ROWS)
        pattern = as_pattern(self.kernel, X.shape[1])
        self.learned_ = learn_kernel(X, pattern, rng=checks.as_rng(self.random_state))
        self.kernel_ = self.learned_.kernel
        return self

    @property
    def lengthscale_(self) -> Any:
        """ℓ of the learned kernel: a number, a vector (ARD) or the Cholesky factor of the covariance."""
        check_is_fitted(self, "kernel_")
        if isinstance(self.kernel_, MultiScale):
            several = "a MultiScale kernel has several lengthscales; they are in kernel_.lengthscales"
            raise AttributeError(several)
        ell = self.kernel_.lengthscale if self.kernel_.cholesky is None else self.kernel_.cholesky
        return float(ell) if np.ndim(ell) == 0 else np.asarray(ell)

    @property
    def gamma_(self) -> float:
        """1/2ℓ² of an isotropic Gaussian; any other kernel has no single γ."""
        check_is_fitted(self, "kernel_")
        if not isinstance(self.kernel_, Gaussian) or np.ndim(self.lengthscale_) > 0:
            raise AttributeError(
                f"{self.kernel_!r} is not an isotropic Gaussian, so it has no single gamma; "
                "put the learner before an estimator with gamma=0.5 (Gaussians of any shape), "
                "or use kernel_.gram"
            )
        return float(0.5 / self.kernel_.lengthscale**2)

    def transform(self, X: Any) -> np.ndarray:
        """X in units of the lengthscale: Euclidean distances become those the kernel sees.

        For Gaussians of any shape (one lengthscale, ARD, full covariance) the learned kernel is then
        exp(-0.5 ‖t - t'‖²), `gamma=0.5`; for other families it is the same family with lengthscale 1.
        """
        check_is_fitted(self, "kernel_")
        X = validate_data(self, checks.some_rows(X, "X"), dtype=np.float64, reset=False)
        try:
            ell = self.lengthscale_
        except AttributeError as error:
            raise ValueError(f"{error}; use kernel_.gram instead of transform") from None
        return triangular_solve(ell, X.T).T if np.ndim(ell) == 2 else X / ell

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names that came in; with a full covariance columns are mixed and get new names."""
        names: np.ndarray = super().get_feature_names_out(input_features)
        if getattr(self.kernel_, "cholesky", None) is None:
            return names
        return np.array([f"kernellearner{d}" for d in range(len(names))], dtype=object)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log density of every row under the learned model; see `LearnedKernel.log_density`."""
        check_is_fitted(self, "kernel_")
        X = validate_data(self, checks.some_rows(X, "X"), dtype=np.float64, reset=False)
        return self.learned_.log_density(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of new rows: lets a grid search choose among kernels without labels."""
        return float(self.score_samples(X).mean())


def as_pattern(kernel: Stationary | str, D: int) -> Stationary | str:
    """What `learn_kernel` learns for a word, in D columns; a pattern and "auto" as they are.

    >>> as_pattern("ard", 2)
    Gaussian(lengthscale=[1, 1])
    """
    if not isinstance(kernel, str):
        return kernel
    ard, full = Gaussian(np.ones(D)), Gaussian(covariance=np.eye(D))
    patterns: dict[str, Any] = {"isotropic": Gaussian(), "ard": ard, "full": full, "auto": "auto"}
    return patterns[checks.choice(kernel, "kernel", tuple(patterns))]
