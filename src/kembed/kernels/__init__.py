"""Kernels as pytrees: squared exponentials and everything that is a mixture of them."""

from kembed.kernels.base import Components, Kernel, check_kernel
from kembed.kernels.composite import Product, Scaled, Sum
from kembed.kernels.convolution import Convolved
from kembed.kernels.discrete import Delta, OnColumns
from kembed.kernels.stationary import (
    Gaussian,
    Matern12,
    Matern32,
    Matern52,
    Metric,
    MultiScale,
    RationalQuadratic,
    Stationary,
)

__all__ = [
    "Components",
    "Convolved",
    "Delta",
    "Gaussian",
    "Kernel",
    "Matern12",
    "Matern32",
    "Matern52",
    "Metric",
    "MultiScale",
    "OnColumns",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Stationary",
    "Sum",
    "check_kernel",
]
