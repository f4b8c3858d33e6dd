"""Kernel embeddings of distributions, with learned kernels and honest uncertainty.

Names are imported when they are first used, so that `import kembed` is instant and JAX is loaded only by
what differentiates.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Background": "background",
    "CausalGraph": "causal_graph",
    "ConditionalOutcome": "conditional_tester",
    "ConditionalTester": "conditional_tester",
    "Convolved": "kernels",
    "Delta": "kernels",
    "Comparison": "comparison",
    "DriftDetector": "estimators",
    "Embedding": "embedding",
    "EmpiricalMeasure": "measures",
    "Gaussian": "kernels",
    "GaussianMeasure": "measures",
    "Kernel": "kernels",
    "Landmarks": "landmarks",
    "LearnedKernel": "learned",
    "KernelLearner": "estimators",
    "KernelSamples": "samples",
    "Lebesgue": "measures",
    "Matern12": "kernels",
    "Matern32": "kernels",
    "Matern52": "kernels",
    "MeanEmbedding": "estimators",
    "MultiScale": "kernels",
    "OnColumns": "kernels",
    "PosteriorEmbedding": "posterior",
    "Product": "kernels",
    "RationalQuadratic": "kernels",
    "Scaled": "kernels",
    "Sum": "kernels",
    "choose_landmarks": "landmarks",
    "TestOutcome": "results",
    "Witness": "witnessed",
    "compare": "comparison",
    "conditional_test": "conditional",
    "empirical": "embedding",
    "fit_embedding": "posterior",
    "hsic_test": "independence",
    "learn_kernel": "learning",
    "log_pseudolikelihood": "pseudolikelihood",
    "median_lengthscale": "heuristics",
    "load_ozone": "datasets",
    "mmd_test": "two_sample",
    "pc": "causal",
    "sample_kernel": "sampling",
    "shrinkage": "spectral_shrinkage",
    "witness": "witnessing",
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
