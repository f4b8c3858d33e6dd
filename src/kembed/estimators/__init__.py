"""kembed in the shape of scikit-learn: estimators for pipelines, `clone` and grid searches.

No mathematics here: each estimator validates as scikit-learn does and calls the library.
"""

from kembed.estimators.distribution_regressor import DistributionRegressor
from kembed.estimators.drift import DriftDetector
from kembed.estimators.kernel_learner import KernelLearner
from kembed.estimators.mean_embedding import MeanEmbedding

__all__ = ["DistributionRegressor", "DriftDetector", "KernelLearner", "MeanEmbedding"]
