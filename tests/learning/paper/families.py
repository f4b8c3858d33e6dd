"""Kernels of the library beside their references, for the tests of the published objective."""

import numpy as np
from tests import reference as ref

from kembed import (
    Gaussian,
    GaussianMeasure,
    Lebesgue,
    Matern12,
    Matern32,
    Matern52,
    MultiScale,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
)

CENTRE = np.array([0.3, -0.2, 0.1])
SPREAD = np.array([[1.5, -0.4, 0.2], [-0.4, 0.7, 0.1], [0.2, 0.1, 0.9]])
FULL = np.array([[0.8, 0.3, 0.1], [0.3, 0.6, -0.2], [0.1, -0.2, 0.9]])


def make_measure(name, D):
    if name == "lebesgue":
        return Lebesgue(), "lebesgue"
    c, V = CENTRE[:D], SPREAD[:D, :D]
    return GaussianMeasure(c, V, 2.0), (c, V, 2.0)


def r_of(terms, measure):
    """The prior covariance of a mixture of Gaussians, term by term in closed form."""
    parts = []
    for w, A in terms:
        for v, B in terms:
            if measure == "lebesgue":
                part = ref.convolved_gaussian_lebesgue(A, B)
            else:
                part = ref.convolved_gaussian_measure(A, B, *measure)
            parts.append(ref.scaled(part, w * v))
    return ref.sum_of(*parts)


def gaussian_family(name, D):
    """(the library's kernel, its terms (weight, covariance))."""
    eye, ard, full = np.eye(D), np.array([0.6, 0.9, 1.2])[:D], FULL[:D, :D]
    return {
        "iso": (Gaussian(0.7), [(1.0, 0.49 * eye)]),
        "ard": (Gaussian(ard), [(1.0, np.diag(ard**2))]),
        "full": (Gaussian(covariance=full), [(1.0, full)]),
        "scaled": (Scaled(Scaled(Gaussian(0.7), 3.0), 0.5), [(1.5, 0.49 * eye)]),
        "multiscale": (
            MultiScale([0.5, 1.4], [0.8, 0.3]),
            [(0.8, 0.25 * eye), (0.3, 1.96 * eye)],
        ),
        "sum": (
            Sum(Gaussian(0.6), 0.7 * Gaussian(covariance=full)),
            [(1.0, 0.36 * eye), (0.7, full)],
        ),
        "product": (
            Product(Gaussian(1.1), 1.3 * Gaussian(ard)),
            [(1.3, np.linalg.inv(eye / 1.21 + np.diag(1 / ard**2)))],
        ),
    }[name]


def other_family(name):
    """(the library's kernel, the reference's), whose r the library has by quadrature over scales."""
    return {
        "rational quadratic": (RationalQuadratic(0.8, 1.7), ref.rational_quadratic(0.8, 1.7)),
        "matern12": (Matern12(0.9), ref.matern(0.9, 0.5)),
        "matern32": (Matern32(0.9), ref.matern(0.9, 1.5)),
        "matern52": (Matern52(0.9), ref.matern(0.9, 2.5)),
        "sum": (
            Sum(2.0 * Matern32(0.9), Gaussian(0.7)),
            ref.sum_of(ref.scaled(ref.matern(0.9, 1.5), 2.0), one_scale_gaussian(0.7)),
        ),
        "product": (
            Product(Matern52(1.1), Gaussian(1.5)),
            ref.product_of(ref.matern(1.1, 2.5), one_scale_gaussian(1.5)),
        ),
    }[name]


def one_scale_gaussian(lengthscale):
    return ref.multiscale([lengthscale], [1.0])
