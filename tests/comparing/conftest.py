"""Samples that the tests of comparing share; those of a plane have as many rows as frames with text."""

import numpy as np
import pytest

import kembed


@pytest.fixture
def pair(rng):
    return rng.normal(size=(40, 1)), rng.normal(1.0, 0.7, size=(30, 1))


@pytest.fixture(scope="session")
def plane():
    rng = np.random.default_rng(20240607)
    x, y = rng.normal(size=(120, 2)), rng.normal(size=(100, 2))
    y[:, 1] += 1.5
    return x, y


@pytest.fixture(scope="session")
def of_plane(plane):
    """The witness of the plane under the median rule."""
    return kembed.witness(*plane, kernel="median")


@pytest.fixture(scope="session")
def mixed():
    """Tables with text: the shares of a category differ."""
    rng = np.random.default_rng(20240607)

    def table(share, rows):
        return {"v": rng.normal(size=rows), "c": rng.choice(list("abc"), rows, p=share)}

    return table([0.2, 0.4, 0.4], 120), table([0.7, 0.2, 0.1], 100)
