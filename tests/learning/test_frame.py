"""The frame moves with the data: units, shifts and rotations cancel, and wild rows do not bend it."""

import math

import numpy as np
import pytest
from scipy.stats import ortho_group

from kembed.core.ordering import sorted_rows, sorted_to_rounding
from kembed.learning.frame import Frame, column_frame, isotropic_frame

FRAMES = {
    "isotropic": isotropic_frame,
    "whiten": lambda x: isotropic_frame(x, whiten=True),
    "column": column_frame,
}
TURNING = ["isotropic", "whiten"]


def sample(n, D, seed=0):
    """Skewed and correlated, so that every axis has a direction of its own."""
    rng = np.random.default_rng(seed)
    return np.exp(0.5 * rng.normal(size=(n, D))) @ (np.eye(D) + 0.5 * rng.normal(size=(D, D)))


def coordinates(kind, x):
    """What the library computes with: rows in canonical order in the frame of the sorted rows."""
    rows = sorted_rows(x)
    return sorted_to_rounding(FRAMES[kind](rows).into(rows))


@pytest.mark.parametrize("D", [1, 2, 5])
@pytest.mark.parametrize("kind", FRAMES)
def test_into_and_back_are_inverses(kind, D):
    x, other = sample(100, D), sample(7, D, seed=1)
    frame = FRAMES[kind](sorted_rows(x))
    assert frame.full_rank
    assert frame.axes.shape == (D, D)
    assert frame.scale.shape == (D,)
    np.testing.assert_allclose(frame.back(frame.into(other)), other, rtol=1e-12)
    np.testing.assert_allclose(frame.into(frame.back(other)), other, rtol=1e-12)


def test_into_and_back_by_hand():
    frame = Frame(np.array([1.0, 2.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 4.0]))
    np.testing.assert_array_equal(frame.into(np.array([[5.0, 4.0]])), [[1.0, 1.0]])
    np.testing.assert_array_equal(frame.back(np.array([[1.0, 1.0]])), [[5.0, 4.0]])


@pytest.mark.parametrize("D", [1, 3])
@pytest.mark.parametrize("kind", FRAMES)
def test_axes_are_orthonormal_and_the_data_have_unit_size(kind, D):
    x = sorted_rows(sample(200, D))
    frame = FRAMES[kind](x)
    np.testing.assert_allclose(frame.axes.T @ frame.axes, np.eye(D), atol=1e-13)
    y = frame.into(x)
    if kind == "isotropic":
        np.testing.assert_allclose(np.median(np.linalg.norm(y, axis=1)), 1.0, rtol=1e-12)
        assert (frame.scale == frame.scale[0]).all()
    else:
        np.testing.assert_allclose(1.4826 * np.median(np.abs(y), axis=0), 1.0, rtol=1e-12)


def test_the_isotropic_centre_is_the_geometric_median():
    """No step from it brings the summed distance down by more than the smoothing of the iteration."""
    x = sorted_rows(sample(200, 2))
    centre = isotropic_frame(x).centre

    def total(c):
        return sum(math.dist(row, c) for row in x)

    around = [centre + 0.1 * np.array([np.cos(t), np.sin(t)]) for t in np.arange(8) * np.pi / 4]
    assert all(total(c) > total(centre) for c in around)
    assert total(x.mean(axis=0)) > total(centre)


def test_the_column_frame_is_medians_and_deviations():
    x = sample(101, 3)
    frame = column_frame(x)
    np.testing.assert_array_equal(frame.axes, np.eye(3))
    for d in range(3):
        middle = sorted(x[:, d])[50]
        assert frame.centre[d] == middle
        np.testing.assert_allclose(
            frame.scale[d], 1.4826 * sorted(abs(v - middle) for v in x[:, d])[50], rtol=1e-14
        )


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("D", [1, 2, 5])
@pytest.mark.parametrize("kind", FRAMES)
def test_units_and_shifts_cancel(kind, D, shift, scale):
    x = sample(150, D)
    moved = scale * (x + shift)
    np.testing.assert_allclose(coordinates(kind, moved), coordinates(kind, x), atol=1e-9)
    frame, other = FRAMES[kind](sorted_rows(x)), FRAMES[kind](sorted_rows(moved))
    np.testing.assert_allclose(other.scale, scale * frame.scale, rtol=1e-9)
    np.testing.assert_allclose(other.centre, scale * (frame.centre + shift), rtol=1e-9)


@pytest.mark.parametrize("D", [1, 3])
def test_units_of_single_columns_cancel_in_the_column_frame(D):
    x, units = sample(150, D), np.array([1e-6, 3.0, 1e6])[:D]
    np.testing.assert_allclose(coordinates("column", x * units), coordinates("column", x), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("D", [1, 2, 5])
@pytest.mark.parametrize("kind", TURNING)
def test_rotations_and_reflections_cancel(kind, D, seed):
    x = sample(150, D)
    turn = np.array([[-1.0]]) if D == 1 else ortho_group.rvs(D, random_state=seed)
    expected = coordinates(kind, x)
    np.testing.assert_allclose(coordinates(kind, x @ turn), expected, atol=1e-9)
    np.testing.assert_allclose(coordinates(kind, 1e4 * (x @ turn) - 7.0), expected, atol=1e-9)


@pytest.mark.parametrize("kind", FRAMES)
def test_the_order_of_rows_does_not_matter(kind, rng):
    x = sample(150, 3)
    np.testing.assert_array_equal(coordinates(kind, x[rng.permutation(150)]), coordinates(kind, x))


@pytest.mark.parametrize("kind", TURNING)
def test_constant_and_duplicate_columns_leave_fewer_axes(kind):
    x = sample(150, 2)
    wide = np.column_stack([x[:, 0], np.full(150, 7.0), x[:, 1], x[:, 0], 2.0 * x[:, 1]])
    frame = FRAMES[kind](sorted_rows(wide))
    assert frame.axes.shape == (5, 2)
    assert frame.scale.shape == (2,)
    assert not frame.full_rank
    np.testing.assert_allclose(frame.axes.T @ frame.axes, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(frame.back(frame.into(wide)), wide, rtol=1e-12)  # nothing was lost
    assert FRAMES[kind](sorted_rows(np.column_stack([x[:, 0], np.zeros(150)]))).axes.shape == (2, 1)


@pytest.mark.parametrize("kind", TURNING)
def test_fewer_rows_than_columns_leave_fewer_axes(kind):
    x = sample(4, 6)
    frame = FRAMES[kind](sorted_rows(x))
    assert frame.axes.shape == (6, 3)
    np.testing.assert_allclose(frame.back(frame.into(x)), x, rtol=1e-10)


def test_a_narrow_column_is_not_a_flat_one():
    x = sample(150, 2) * np.array([1.0, 1e-6])
    for kind in TURNING:
        assert FRAMES[kind](sorted_rows(x)).full_rank


def test_the_column_frame_keeps_constant_columns_with_scale_zero():
    x = sample(150, 2)
    x[:, 1] = 7.0
    np.testing.assert_array_equal(column_frame(x).scale > 0.0, [True, False])


def test_a_column_with_more_than_half_its_rows_tied_has_the_spread_of_its_distinct_values():
    x = np.concatenate([np.zeros(60), np.arange(1.0, 41.0)])[:, None]
    np.testing.assert_allclose(column_frame(x).scale, [1.4826 * 20.0], rtol=1e-14)  # of 0, 1, ..., 40


@pytest.mark.parametrize("kind", TURNING)
def test_outliers_hardly_move_the_frame(kind):
    x = sample(200, 3)
    wild = x.copy()
    wild[:4] = 1e6 * np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    calm, frame = (FRAMES[kind](sorted_rows(rows)) for rows in (x, wild))
    np.testing.assert_allclose(frame.scale, calm.scale, rtol=0.1)
    assert np.linalg.norm(frame.centre - calm.centre) < 0.1 * calm.scale.max()
    np.testing.assert_allclose(np.abs(np.diagonal(calm.axes.T @ frame.axes)), 1.0, atol=0.02)


def test_outliers_hardly_move_the_column_frame():
    x = sample(200, 3)
    wild = x.copy()
    wild[:4] = 1e6
    calm, frame = column_frame(x), column_frame(wild)
    np.testing.assert_allclose(frame.scale, calm.scale, rtol=0.1)
    assert (np.abs(frame.centre - calm.centre) < 0.1 * calm.scale).all()


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("kind", TURNING)
def test_more_than_half_the_rows_tied(kind, D):
    x = np.concatenate([np.zeros((70, D)), 1.0 + sample(30, D)])
    assert (FRAMES[kind](sorted_rows(x)).scale > 0.1).all()


@pytest.mark.parametrize("kind", FRAMES)
def test_log_unit_is_the_log_volume_of_the_unit_cube(kind):
    """A density in x is that in y over the volume of y's unit cube."""
    frame = FRAMES[kind](sorted_rows(sample(100, 3)))
    corners = frame.back(np.concatenate([np.zeros((1, 3)), np.eye(3)]))
    volume = abs(np.linalg.det(corners[1:] - corners[0]))
    np.testing.assert_allclose(frame.log_unit, math.log(volume), rtol=1e-12)
    thousandfold = FRAMES[kind](sorted_rows(1e3 * sample(100, 3)))
    np.testing.assert_allclose(thousandfold.log_unit - frame.log_unit, 3 * math.log(1e3), rtol=1e-12)


@pytest.mark.parametrize("E", [1, 2, 4])
def test_canonical_rows_do_not_depend_on_order_or_rounding(E, rng):
    y = np.round(rng.normal(size=(200, E)), 2)  # ties in the first coordinates
    expected = sorted_to_rounding(y)
    np.testing.assert_array_equal(np.unique(expected, axis=0), np.unique(y, axis=0))
    for _ in range(5):
        order = rng.permutation(200)
        np.testing.assert_array_equal(sorted_to_rounding(y[order]), expected)
        rounded = y[order] + 1e-12 * rng.normal(size=y.shape)
        np.testing.assert_allclose(sorted_to_rounding(rounded), expected, atol=1e-11)


def test_lexicographic_sorts_by_the_first_column_first():
    x = np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]])
    np.testing.assert_array_equal(sorted_rows(x), [[1.0, 3.0], [1.0, 5.0], [2.0, 0.0]])
