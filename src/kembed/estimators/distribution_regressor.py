"""A number for each bag of rows: `DistributionRegressor`."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from kembed.core import checks
from kembed.core.backend import to_numpy
from kembed.core.threads import few_rows_one_thread
from kembed.embeddings.landmarks import as_rule, choose_landmarks
from kembed.estimators.bag_model import fit_prior, fit_weights
from kembed.estimators.validation import as_tables, targets_of, validated_table
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import Space, make_space
from kembed.learning.kernel_words import choose_kernel, learned_scales
from kembed.tables.bags import Bags, Reading, bags_of, each_row, read_bags, read_column, stacked
from kembed.tables.reader import open_value

WORDS = ("bkl", "ard", "median", "median-raw")
# Of the learned lengthscale, which is fine enough for a density: what y depends on is mostly smoother. On six
# sets of bags the most likely of these had an error 0 to 5% below that of the learned one.
MULTIPLES = (1.0, 2.0, 4.0, 8.0)


class DistributionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict a number from a bag of rows, and say how sure that is: few rows say less than many.

    Each bag is a sample from a distribution of its own, and y belongs to the distribution: the spending of a
    household from its purchases, the vote of a district from the answers of some of its people. The mean
    embedding of a bag is known up to the noise of its rows; the regression of y on embeddings takes this
    uncertainty into account, both when it learns and when it predicts (Law et al. 2018).

    Parameters
    ----------
    kernel
        `"bkl"`: the lengthscale that `learn_kernel` finds on the pooled rows, or 2, 4 or 8 times it, the one
        with the highest marginal likelihood of y. Or `"ard"`, `"median"`, `"median-raw"`, a kernel object or
        a `LearnedKernel`, as in `MeanEmbedding`.
    bags
        The name of the column that says to which bag a row belongs, if X is one table. None: X is a list of
        tables, one a bag.
    landmarks
        How many, a rule, or the points, as in `choose_landmarks`; None: 100 support points of the pooled
        rows, or 100 of the rows where columns hold categories.
    nan_policy
        `"raise"`, or `"omit"` to drop rows with missing values.
    random_state
        Seed of the landmarks; None is fresh entropy.

    Attributes
    ----------
    kernel_, landmarks_
        The kernel and the landmarks of the embeddings.
    learned_
        The `Evidence` of a kernel that was learned; else None.
    noise_
        The standard deviation of y that is left however many rows a bag has.
    log_marginal_likelihood_
        Of y, under the model; compare it between kernels.
    n_features_in_, feature_names_in_
        The columns of a bag.

    Notes
    -----
    X is a list of arrays or data frames with the same columns (numbers, dates, categories), or a 3-D array.
    A table without `bags` has one row a bag, which is regression on rows. The docstring of the module
    `kembed.estimators.bag_model` has the model and what is computed.

    References
    ----------
    Law, Sutherland, Sejdinovic, Flaxman, "Bayesian Approaches to Distribution Regression", AISTATS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import DistributionRegressor
    >>> rng = np.random.default_rng(0)
    >>> spread = rng.uniform(0.5, 2.0, size=100)  # what we want to know of each bag
    >>> bags = [rng.normal(scale=s, size=(rng.integers(5, 200), 1)) for s in spread]
    >>> model = DistributionRegressor().fit(bags, spread)
    >>> mean, sd = model.predict([bags[0][:5], bags[0]], return_std=True)
    >>> print(f"true {spread[0]:.2f}; of {len(bags[0])} rows: {mean[1]:.2f}, sd {sd[1]:.2f}")
    true 1.46; of 49 rows: 1.42, sd 0.15
    >>> print(f"of 5 of them: {mean[0]:.2f}, sd {sd[0]:.2f}")
    of 5 of them: 1.46, sd 0.33

    """

    def __init__(
        self,
        kernel: Kernel | str = "bkl",
        *,
        bags: str | None = None,
        landmarks: Any = None,
        nan_policy: str = "raise",
        random_state: Any = 0,
    ) -> None:
        self.kernel, self.bags, self.landmarks = kernel, bags, landmarks
        self.nan_policy, self.random_state = nan_policy, random_state

    @few_rows_one_thread
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from bags and their numbers.

        Parameters
        ----------
        X
            A list of tables, or one table with the column `bags`.
        y
            One number a bag, in the order of the list. For a table with the column `bags`: the name of a
            column that is constant within bags, one number a row, or a dictionary or pandas Series with the
            number of every bag.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a bag is empty, columns differ, or y does not have one finite number a bag.

        """
        if y is None:
            seen = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise ValueError(f"{seen}; give one number a bag")
        if isinstance(self.kernel, str):
            checks.choice(self.kernel, "kernel", WORDS)
        self._target = y if isinstance(y, str) else None
        bags = self._read(X, None)
        values = self._numbers(X, y, bags)
        if len(values) < 2:
            raise ValueError("X has 1 bag; at least 2 are needed: give more bags")
        space = make_space(bags.values, bags.reading.table.categorical)
        kernels, self.learned_ = self._kernels(space)
        rule = as_rule(self.landmarks, "subset" if space.categorical.any() else "support")
        chosen: Any = self.landmarks if rule is None else rule
        units = space.spread if rule is not None else 1.0  # a distance of raw columns sees the largest alone
        seed = checks.as_rng(self.random_state)
        self.landmarks_ = choose_landmarks(bags.values / units, chosen, rng=seed) * units
        size = float(np.abs(values).max()) or 1.0  # squares of 1e200 are no numbers
        self._centre, self._scale = float(values.mean()), size * (float((values / size).std()) or 1.0)
        fits = []
        for kernel in kernels:
            prior = fit_prior(kernel, self.landmarks_, bags.values, bags.number)
            mu, u = prior.posterior(bags.values, bags.number)
            fits.append((prior, fit_weights(mu, u, prior.basis, (values - self._centre) / self._scale)))
        self._prior, self._weights = max(fits, key=lambda fit: fit[1].log_likelihood)
        self._reading = bags.reading
        self.kernel_ = self._prior.kernel
        self.noise_ = self._scale * float(np.sqrt(self._weights.noise))
        units_of_y = (len(values) - 1) * np.log(self._scale)
        self.log_marginal_likelihood_ = self._weights.log_likelihood - units_of_y
        return self

    @few_rows_one_thread
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the number of every bag.

        Parameters
        ----------
        X
            Bags as in `fit`. Bags of a table are answered in the order of their first rows.
        return_std
            Whether to return the standard deviation of y as well.

        Returns
        -------
        numpy.ndarray
            The means, (bags,); with `return_std` also the standard deviations.

        """
        check_is_fitted(self, "kernel_")
        return self._predict(self._read(X, self._reading), return_std)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² over bags; X and y as in `fit`."""
        check_is_fitted(self, "kernel_")
        bags = self._read(X, self._reading)
        values = self._numbers(X, y, bags)
        return float(r2_score(values, self._predict(bags, False), sample_weight=sample_weight))

    def _predict(self, bags: Bags, return_std: bool) -> Any:
        prior = self._prior
        mu, u = prior.posterior(bags.values, bags.number)
        mean, variance = self._weights.predict(mu, u, prior.basis)
        mean = self._centre + self._scale * mean
        return (mean, self._scale * np.sqrt(variance)) if return_std else mean

    def _kernels(self, space: Space) -> tuple[list[Kernel], Any]:
        """The kernels among which the likelihood decides, and what was learned."""
        if self.kernel == "bkl":
            scale, learned = learned_scales(space)
            return [space_kernel(space, multiple * scale) for multiple in MULTIPLES], learned
        kernel, learned = choose_kernel(self.kernel, space)
        return [to_numpy(check_kernel(kernel))], learned

    def _read(self, X: Any, like: Reading | None) -> Bags:
        """The bags of X, in the codes of those of `fit`."""
        checks.choice(self.nan_policy, "nan_policy", ("raise", "omit"))
        tables, exclude = as_tables(X), []
        if self.bags is not None:
            if tables is not None:
                seen = f"bags={self.bags!r} names a column of one table, but X is a list of tables"
                raise ValueError(f"{seen}; give bags=None, or one table")
            opened = open_value(X, "X")
            numbered = bags_of(opened, self.bags)
            exclude = [name for name in (self.bags, self._target) if name in opened.names]
        elif self._target is not None:
            seen = f"y={self._target!r} names a column, but nothing names the bags"
            raise ValueError(f"{seen}; give bags= the name of a column, or y one number a bag")
        elif tables is not None:
            opened, numbered = stacked(tables)
        else:
            opened = open_value(validated_table(self, X, reset=like is None, minimum=1 + (like is None)), "X")
            return read_bags(opened, each_row(opened), exclude, self.nan_policy, like)
        bags = read_bags(opened, numbered, exclude, self.nan_policy, like)
        if like is None:
            self.n_features_in_ = len(bags.reading.table.names)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            if bags.reading.framed:
                self.feature_names_in_ = np.array(bags.reading.table.names, dtype=object)
        return bags

    def _numbers(self, X: Any, y: Any, bags: Bags) -> np.ndarray:
        """One number a bag."""
        if isinstance(y, str):
            table = read_column(open_value(X, "X"), y, "y")
            if table.categorical[0]:
                raise TypeError(f"column {y!r} of X holds text where y must be numbers; name another column")
            y = table.values[:, 0]
        return targets_of(y, bags, listed=self.bags is None)
