"""Kernel embeddings of distributions, with learned kernels and honest uncertainty.

Names are imported when they are first used, so that `import kembed` is instant and JAX is loaded only by
what differentiates.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Background": "graphs.background",
    "Balance": "comparing.treatment",
    "BayesFactorResult": "testing.bayes",
    "CausalGraph": "graphs.graph",
    "ConditionalOutcome": "conditional.result",
    "ConditionalTester": "conditional.tester",
    "ChangePoints": "comparing.change_points",
    "Convolved": "kernels.convolution",
    "Delta": "kernels.discrete",
    "Comparison": "comparing.compare",
    "DistributionRegressor": "estimators.distribution_regressor",
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
    "PowerCurve": "comparing.sample_size",
    "Product": "kernels.composite",
    "QuantileEffects": "comparing.treatment",
    "RationalQuadratic": "kernels.stationary",
    "Scaled": "kernels.composite",
    "Sketch": "testing.sketch",
    "Monitor": "testing.monitor",
    "MonitorResult": "testing.monitor_result",
    "Sum": "kernels.composite",
    "assert_same_distribution": "comparing.gate",
    "balance": "comparing.treatment",
    "bayes_factor": "testing.bayes",
    "change_points": "comparing.change_points",
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
    "log_pseudolikelihood": "learning.paper.pseudolikelihood",
    "median_lengthscale": "embeddings.landmarks",
    "load_ozone": "tables.datasets",
    "mmd_test": "testing.two_sample",
    "pc": "graphs.pc",
    "quantile_effects": "comparing.treatment",
    "required_rows": "comparing.sample_size",
    "sample_kernel": "learning.nuts",
    "scheduler": "tables.scheduling",
    "shrinkage": "embeddings.shrinkage",
    "witness": "comparing.witness",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:  # what `__getattr__` imports, for type checkers and editors
    from kembed.comparing.change_points import ChangePoints as ChangePoints
    from kembed.comparing.change_points import change_points as change_points
    from kembed.comparing.compare import Comparison as Comparison
    from kembed.comparing.compare import compare as compare
    from kembed.comparing.gate import assert_same_distribution as assert_same_distribution
    from kembed.comparing.sample_size import PowerCurve as PowerCurve
    from kembed.comparing.sample_size import required_rows as required_rows
    from kembed.comparing.treatment import Balance as Balance
    from kembed.comparing.treatment import QuantileEffects as QuantileEffects
    from kembed.comparing.treatment import balance as balance
    from kembed.comparing.treatment import quantile_effects as quantile_effects
    from kembed.comparing.witness import Witness as Witness
    from kembed.comparing.witness import witness as witness
    from kembed.conditional.independence import conditional_test as conditional_test
    from kembed.conditional.result import ConditionalOutcome as ConditionalOutcome
    from kembed.conditional.tester import ConditionalTester as ConditionalTester
    from kembed.embeddings.empirical import Embedding as Embedding
    from kembed.embeddings.empirical import empirical as empirical
    from kembed.embeddings.landmarks import Landmarks as Landmarks
    from kembed.embeddings.landmarks import choose_landmarks as choose_landmarks
    from kembed.embeddings.landmarks import median_lengthscale as median_lengthscale
    from kembed.embeddings.posterior import PosteriorEmbedding as PosteriorEmbedding
    from kembed.embeddings.posterior import fit_embedding as fit_embedding
    from kembed.embeddings.shrinkage import shrinkage as shrinkage
    from kembed.estimators.distribution_regressor import DistributionRegressor as DistributionRegressor
    from kembed.estimators.drift import DriftDetector as DriftDetector
    from kembed.estimators.kernel_learner import KernelLearner as KernelLearner
    from kembed.estimators.mean_embedding import MeanEmbedding as MeanEmbedding
    from kembed.graphs.background import Background as Background
    from kembed.graphs.graph import CausalGraph as CausalGraph
    from kembed.graphs.pc import pc as pc
    from kembed.kernels.base import Kernel as Kernel
    from kembed.kernels.composite import Product as Product
    from kembed.kernels.composite import Scaled as Scaled
    from kembed.kernels.composite import Sum as Sum
    from kembed.kernels.convolution import Convolved as Convolved
    from kembed.kernels.discrete import Delta as Delta
    from kembed.kernels.discrete import OnColumns as OnColumns
    from kembed.kernels.measures import EmpiricalMeasure as EmpiricalMeasure
    from kembed.kernels.measures import GaussianMeasure as GaussianMeasure
    from kembed.kernels.measures import Lebesgue as Lebesgue
    from kembed.kernels.stationary import Gaussian as Gaussian
    from kembed.kernels.stationary import Matern12 as Matern12
    from kembed.kernels.stationary import Matern32 as Matern32
    from kembed.kernels.stationary import Matern52 as Matern52
    from kembed.kernels.stationary import MultiScale as MultiScale
    from kembed.kernels.stationary import RationalQuadratic as RationalQuadratic
    from kembed.learning.kernel_samples import KernelSamples as KernelSamples
    from kembed.learning.learn import learn_kernel as learn_kernel
    from kembed.learning.learned_kernel import LearnedKernel as LearnedKernel
    from kembed.learning.nuts import sample_kernel as sample_kernel
    from kembed.learning.paper.pseudolikelihood import log_pseudolikelihood as log_pseudolikelihood
    from kembed.tables.datasets import load_ozone as load_ozone
    from kembed.tables.scheduling import scheduler as scheduler
    from kembed.testing.bayes import BayesFactorResult as BayesFactorResult
    from kembed.testing.bayes import bayes_factor as bayes_factor
    from kembed.testing.independence import hsic_test as hsic_test
    from kembed.testing.monitor import Monitor as Monitor
    from kembed.testing.monitor_result import MonitorResult as MonitorResult
    from kembed.testing.outcome import TestOutcome as TestOutcome
    from kembed.testing.several import k_sample_test as k_sample_test
    from kembed.testing.sketch import Sketch as Sketch
    from kembed.testing.two_sample import mmd_test as mmd_test
else:  # a type checker would take any name, misspelt ones too, for `Any`

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'kembed' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"kembed.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
