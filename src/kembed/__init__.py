"""Kernel embeddings of distributions, with learned kernels and honest uncertainty.

Names are imported when they are first used, so that `import kembed` is instant and JAX is loaded only by
what differentiates.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Background": "graphs.background",
    "CausalGraph": "graphs.graph",
    "ConditionalOutcome": "conditional.outcome",
    "ConditionalTester": "conditional.tester",
    "Convolved": "kernels.convolution",
    "Delta": "kernels.discrete",
    "Comparison": "comparing.compare",
    "DriftDetector": "estimators.drift",
    "Embedding": "embeddings.empirical",
    "EmpiricalMeasure": "kernels.measures",
    "Gaussian": "kernels.stationary",
    "GaussianMeasure": "kernels.measures",
    "Kernel": "kernels.base",
    "Landmarks": "embeddings.landmarks",
    "LearnedKernel": "learning.learned_kernel",
    "KernelLearner": "estimators.kernel_learner",
    "KernelSamples": "learning.kernel_samples",
    "Lebesgue": "kernels.measures",
    "Matern12": "kernels.stationary",
    "Matern32": "kernels.stationary",
    "Matern52": "kernels.stationary",
    "MeanEmbedding": "estimators.mean_embedding",
    "MultiScale": "kernels.stationary",
    "OnColumns": "kernels.discrete",
    "PosteriorEmbedding": "embeddings.posterior",
    "Product": "kernels.composite",
    "RationalQuadratic": "kernels.stationary",
    "Scaled": "kernels.composite",
    "Sketch": "testing.sketch",
    "Sum": "kernels.composite",
    "choose_landmarks": "embeddings.landmarks",
    "TestOutcome": "testing.outcome",
    "Witness": "comparing.witness",
    "compare": "comparing.compare",
    "conditional_test": "conditional.independence",
    "empirical": "embeddings.empirical",
    "fit_embedding": "embeddings.posterior",
    "hsic_test": "testing.independence",
    "k_sample_test": "testing.several",
    "learn_kernel": "learning.learn",
    "log_pseudolikelihood": "learning.paper.likelihood",
    "median_lengthscale": "embeddings.landmarks",
    "load_ozone": "data.datasets",
    "mmd_test": "testing.two_sample",
    "pc": "graphs.pc",
    "sample_kernel": "learning.nuts",
    "resuming": "engines.keeping",
    "scheduler": "engines.scheduling",
    "shrinkage": "embeddings.shrinkage",
    "witness": "comparing.witness",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kembed' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kembed.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
