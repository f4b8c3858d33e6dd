"""Arrays and tables of other libraries, masks, labels of rows, and numbers that floats cannot hold."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy import sparse

from kembed import (
    DriftDetector,
    Gaussian,
    KernelLearner,
    MeanEmbedding,
    conditional_test,
    fit_embedding,
    hsic_test,
    learn_kernel,
    mmd_test,
)
from kembed.tables.reader import read_tables

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
MASKED = np.ma.array(VALUES, mask=[[False, False], [True, False], [False, False]])


def one(x, nan_policy="raise"):
    (table,), _ = read_tables({"x": x}, nan_policy, minimum=1)
    return table


class Tensor:
    """What is asked of a tensor of PyTorch; this one tracks gradients, in half precision, on a device."""

    def __init__(self, values, *, ready=False, half=True):
        self.values, self.ready, self.half = values, ready, half

    def detach(self):
        return Tensor(self.values, half=self.half)

    def cpu(self):
        return Tensor(self.values, ready=True, half=self.half)

    def float(self):
        return Tensor(self.values, ready=True, half=False)

    def __array__(self, dtype=None, copy=None):
        if not self.ready:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.half:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.values, dtype=dtype)


class Strict:
    """An array of the array API standard, which knows nothing of NumPy."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Elsewhere(Strict):
    def __dlpack__(self, **options):
        raise BufferError("it lies on a GPU")


FOREIGN = {
    "tensor": Tensor(VALUES),
    "plain tensor": Tensor(VALUES, half=False),
    "array API": Strict(VALUES),
    "xarray array": xr.DataArray(VALUES, dims=("row", "column")),
    "not masked": np.ma.array(VALUES),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_arrays(kind):
    assert one(FOREIGN[kind]).values.tolist() == VALUES.tolist()
    assert fit_embedding(FOREIGN[kind], Gaussian(1.0)).mean(VALUES) == pytest.approx(
        fit_embedding(VALUES, Gaussian(1.0)).mean(VALUES)
    )


def test_arrays_on_other_devices():
    for call in (one, lambda x: fit_embedding(x, Gaussian(1.0))):
        with pytest.raises(
            TypeError, match=r"x cannot be read as an array \(it lies on a GPU\); copy it to the CPU"
        ):
            call(Elsewhere(VALUES))


TABLES = {
    "dict of lists": {"a": [1, 3, 5], "g": ["u", "v", "u"]},
    "dict of arrays": {"a": np.array([1, 3, 5]), "g": np.array(["u", "v", "u"])},
    "dict of series": {"a": pd.Series([1, 3, 5]), "g": pl.Series(["u", "v", "u"])},
    "dataset": xr.Dataset(
        {"a": ("row", [1, 3, 5]), "g": ("row", ["u", "v", "u"])}, coords={"row": [7, 8, 9]}
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_by_name(kind):
    table = one(TABLES[kind])
    assert (table.names, table.categorical.tolist()) == (("a", "g"), [False, True])
    assert table.values.tolist() == [[1, 0], [3, 1], [5, 0]]
    assert mmd_test(TABLES[kind], pd.DataFrame(TABLES["dict of lists"]), n_resamples=9, rng=0).pvalue == 1.0


def test_a_dataset_of_grids_is_refused():
    with pytest.raises(ValueError, match="'t' of x is no column"):
        one(xr.Dataset({"t": (("lat", "lon"), np.ones((2, 3)))}))


# Masks.


def test_masks_are_missing_values():
    assert one(MASKED, "omit").values.tolist() == [[1, 2], [5, 7]]
    with pytest.raises(ValueError, match=r"x has missing values in 1 of 3 rows \(first: row 1\)"):
        one(MASKED)
    whole = np.ma.array([1, 2, 3], mask=[False, True, False])
    assert one(whole, "omit").values.tolist() == [[1], [3]]
    assert one(np.ma.array(["a", "b", "c"], mask=[0, 1, 0]), "omit").levels == (("a", "c"),)
    assert one({"v": whole}, "omit").values.tolist() == [[1], [3]]
    for rows in (list(MASKED), tuple(MASKED)):  # NumPy forgets the masks of rows that it stacks
        assert one(rows, "omit").values.tolist() == [[1, 2], [5, 7]]
    with pytest.raises(TypeError, match="x holds values of type"):
        one(np.ma.zeros(3, dtype=[("a", "f8"), ("b", "f8")]))


def test_masks_of_estimators_and_embeddings(rng):
    rows = np.ma.array(rng.normal(size=(30, 2)), mask=False)
    rows[4, 1] = np.ma.masked
    for fit in (
        KernelLearner().fit,
        MeanEmbedding().fit,
        DriftDetector().fit,
        lambda x: MeanEmbedding().fit([x, x]),
    ):
        with pytest.raises(ValueError, match="NaN"):
            fit(rows)
    for call in (lambda x: fit_embedding(x, Gaussian(1.0)), learn_kernel):
        with pytest.raises(
            ValueError, match=r"x has missing values \(NaN\) in 1 of 30 rows \(first: row 4\)"
        ):
            call(rows)
    omitting = DriftDetector(nan_policy="omit", kernel="median", n_resamples=19, random_state=0).fit(rows)
    assert omitting.test(rows.data).sizes == (29, 30)
    assert mmd_test(rows, rows.data, nan_policy="omit", n_resamples=9, rng=0).sizes == (29, 30)


# Labels of rows.


def test_paired_rows_have_the_same_labels(rng):
    s = pd.Series(rng.normal(size=30))
    turned = (2 * s).sample(frac=1.0, random_state=0)
    quick = {"kernel": "median", "n_resamples": 19, "rng": 0}
    with pytest.raises(
        ValueError, match=r"x and y have rows of the same labels in .*align them \(y.loc\[x.index\]"
    ):
        hsic_test(s, turned, **quick)
    with pytest.raises(ValueError, match="reset_index"):
        mmd_test(s, turned, paired=True, **quick)
    assert hsic_test(s, turned.loc[s.index], **quick).pvalue == 0.05
    assert hsic_test(s, turned.reset_index(drop=True), **quick).pvalue > 0.05
    named = pd.Series(s.to_numpy(), index=[f"r{k}" for k in range(30)])
    shifted = pd.Series(s.to_numpy(), index=[f"r{k + 3}" for k in range(30)])
    with pytest.raises(ValueError, match="x and y have indexes with 27 of 30 labels in common; align them"):
        hsic_test(named, shifted, **quick)
    assert hsic_test(named, s, **quick).pvalue == 0.05  # labels of different kinds say nothing
    assert mmd_test(s, turned, **quick).sizes == (30, 30)  # no pairs
    with pytest.raises(ValueError, match="'a' and 'b' have rows of the same labels"):
        one({"a": s, "b": turned})


def test_labels_that_are_shared_in_part_or_more_than_once(rng):
    quick = {"kernel": "median", "n_resamples": 19, "rng": 0}
    s = pd.Series(rng.normal(size=30))
    first, second = s.iloc[1:], s.iloc[:-1]  # as dropna leaves them, where each misses another row
    with pytest.raises(ValueError, match="x and y have indexes with 28 of 29 labels in common; align them"):
        hsic_test(first, second, **quick)
    few = pd.Series(rng.normal(size=30), index=range(20, 50))
    assert hsic_test(s, few, **quick).sizes == (30,)  # counted rows, which share a few by chance
    twice = pd.Series(s.to_numpy(), index=list("ab") * 15)
    with pytest.raises(ValueError, match=r"the same labels in different places .*bring them into one order"):
        hsic_test(twice, twice[::-1], **quick)
    assert hsic_test(twice, 2 * twice, **quick).pvalue == 0.05


def test_labels_of_what_goes_with_the_rows(rng):
    """Dictionaries of columns, weights, units and times."""
    s = pd.Series(rng.normal(size=30))
    turned, quick = s.sample(frac=1.0, random_state=0), {"kernel": "median", "n_resamples": 19, "rng": 0}
    positive, days = turned.abs() + 1.0, pd.Series(np.arange(30) // 3, index=turned.index)
    for call, name in (
        (lambda: hsic_test({"a": s}, {"b": turned}, **quick), "y"),
        (lambda: mmd_test(s, s + 1.0, weights=(positive, np.ones(30)), **quick), "weights[0]"),
        (lambda: mmd_test(s, s + 1.0, unit=(days, np.arange(30)), **quick), "unit[0]"),
        (lambda: mmd_test(s, s + 1.0, unit=(days, np.arange(30)), statistic="features", **quick), "unit[0]"),
        (lambda: hsic_test(s, s + 1.0, unit=days, **quick), "unit"),
        (lambda: conditional_test(s, 2 * s, prewhiten=days, **quick), "prewhiten"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"x and {name} have rows of the same labels in")):
            call()
    aligned = positive.loc[s.index]
    assert mmd_test(s, s + 1.0, weights=(aligned, aligned), **quick).sizes == (30, 30)


def test_arrow_tables_with_names_twice():
    columns = pa.table([[1.0, 2.0], [3.0, 4.0]], names=["a", "a"])
    with pytest.raises(ValueError, match="x has more than one column named 'a'; rename or drop them"):
        one(columns)


# Sparse matrices, and numbers that floats cannot hold.


def test_sparse_matrices():
    for call in (one, lambda x: fit_embedding(x, Gaussian(1.0)), learn_kernel):
        with pytest.raises(
            TypeError, match=r"x is a sparse matrix, and kernels compare every entry; give x.toarray"
        ):
            call(sparse.eye_array(12).tocsr())


LARGE = {
    "numpy": lambda numbers: np.array(numbers),
    "list": list,
    "pandas": lambda numbers: pd.DataFrame({"a": numbers}),
    "polars": lambda numbers: pl.DataFrame({"a": numbers}),
    "polars with gaps": lambda numbers: pl.DataFrame({"a": [*numbers, None]}),
    "unsigned": lambda numbers: np.array(numbers, dtype=np.uint64),
}


@pytest.mark.parametrize("kind", LARGE)
def test_whole_numbers_beyond_floats(kind):
    make = LARGE[kind]
    with pytest.raises(
        ValueError, match=r"whole numbers beyond 2\^53 that no float holds \(1152921504606846977\); subtract"
    ):
        one(make([5, 2**60 + 1, 2**61]), "omit")
    assert one(make([2**60, 2**61, 5]), "omit").values[:, 0].tolist() == [2.0**60, 2.0**61, 5.0]
    assert one(make([2**53, 7]), "omit").values[:, 0].tolist() == [2.0**53, 7.0]


def test_codes_beyond_floats_are_categories_if_they_are_declared():
    codes = pd.Series([2**60 + 1, 2**60 + 2], dtype="category")
    assert one(codes).levels == (("1152921504606846977", "1152921504606846978"),)
