"""What all tests share: double precision for those who ask, seeded random numbers, numerical derivatives."""

import os
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest

os.environ["KEMBED_KEEP_COMPILED"] = "0"  # tests leave nothing in the user's folders


@pytest.fixture
def double_precision() -> Iterator[None]:
    """For tests that call JAX themselves. The library needs no such help: it must work in JAX's default."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


def five_point(f: Callable[[float], float], at: float, step: float) -> float:
    """f'(at) by the central rule whose error is step⁴ f⁽⁵⁾/30."""
    near, far = f(at + step) - f(at - step), f(at + 2 * step) - f(at - 2 * step)
    return (8 * near - far) / (12 * step)


@pytest.fixture
def numerical_gradient() -> Callable[..., np.ndarray]:
    """∂f/∂v for every entry of an array v, by central differences: good to about 1e-11."""

    def gradient(f: Callable[[np.ndarray], float], v: np.ndarray, step: float = 1e-3) -> np.ndarray:
        v = np.asarray(v, dtype=float)
        out = np.empty(v.shape)
        for index in np.ndindex(v.shape):

            def moved(entry: float, index: tuple[int, ...] = index) -> float:
                w = v.copy()
                w[index] = entry
                return float(f(w))

            out[index] = five_point(moved, v[index], step * max(abs(v[index]), 0.1))
        return out

    return gradient


@pytest.fixture
def as_vector() -> Callable[..., tuple[np.ndarray, Callable]]:
    """A pytree as one vector of its numbers, and the function from such a vector back to the pytree."""

    def split(tree: object) -> tuple[np.ndarray, Callable]:
        leaves, structure = jax.tree.flatten(tree)
        shapes = [np.shape(leaf) for leaf in leaves]
        ends = np.cumsum([0, *(np.size(leaf) for leaf in leaves)])

        def rebuild(vector: object) -> object:
            parts = [
                vector[a:b].reshape(shape) for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
            ]
            return jax.tree.unflatten(structure, parts)

        return np.concatenate([np.ravel(leaf) for leaf in leaves]), rebuild

    return split
