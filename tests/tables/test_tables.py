"""Reading samples: every kind of table, matching, codes, missing values, and each error's words."""

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import kembed
from kembed.tables.frames import Labelled
from kembed.tables.new_rows import read_like
from kembed.tables.reader import read_tables

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def one(x, nan_policy="raise", minimum=1):
    (table,), met = read_tables({"x": x}, nan_policy, minimum)
    assert met is False
    return table


def two(x, y, *, nan_policy="raise", same_columns=True, paired=False, minimum=1):
    tables, met = read_tables({"x": x, "y": y}, nan_policy, minimum, same_columns, paired)
    return (*tables, met)


def check(table, values, names, categorical):
    np.testing.assert_array_equal(table.values, np.asarray(values, dtype=float))
    assert table.values.dtype == float
    assert table.names == tuple(names)
    assert table.categorical.dtype == bool
    assert table.categorical.tolist() == categorical


# Kinds of tables.


@pytest.mark.parametrize(
    "x",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[1, 2], [3, 4]], dtype=np.longdouble),
        np.array([[1, Decimal(2)], [Fraction(3), np.int8(4)]], dtype=object),
        np.ma.array([[1, 2], [3, 4]]),
        jnp.array([[1, 2], [3, 4]]),
    ],
)
def test_numeric_arrays(x):
    table = one(x)
    check(table, [[1, 2], [3, 4]], ["column 0", "column 1"], [False, False])
    assert table.rows.tolist() == [0, 1]


@pytest.mark.parametrize(
    "x", [[1.0, 2.0], range(1, 3), pd.Series([1, 2], index=[7, 7]), pl.Series([1, 2]), pd.Index([1, 2])]
)
def test_a_vector_is_one_column(x):
    check(one(x), [[1], [2]], ["column 0"], [False])


def test_a_series_keeps_its_name():
    for series in (pd.Series(["b", "a"], name="g"), pl.Series("g", ["b", "a"])):
        check(one(series), [[1], [0]], ["g"], [True])


def test_booleans_are_numbers(frame):
    for x in (np.array([True, False]), [True, False], frame({"b": [True, False]})):
        table = one(x)
        assert table.values.tolist() == [[1.0], [0.0]]
        assert not table.categorical.any()


@pytest.mark.parametrize(
    "x",
    [
        np.array([["b", "p"], ["a", "p"]]),
        np.array([["b", "p"], ["a", "p"]], dtype=object),
        np.array([["b", "p"], ["a", "p"]], dtype=np.dtypes.StringDType()),
        [["b", "p"], ["a", "p"]],
        [("b", "p"), ("a", "p")],
    ],
)
def test_text_arrays_are_categorical(x):
    check(one(x), [[1, 0], [0, 0]], ["column 0", "column 1"], [True, True])


def test_numbers_beside_text_in_a_list_stay_numbers():
    names = ["column 0", "column 1", "column 2"]
    x = [["b", 10, True], ["a", 2.5, False]]
    check(one(x), [[1, 10, 1], [0, 2.5, 0]], names, [True, False, False])
    check(one([["b", np.nan], ["a", 1.0]], "omit"), [[0, 1]], ["column 0", "column 1"], [True, False])


def test_frames(frame):
    x = frame({"age": [30, 25, 41], "sex": ["m", "f", "m"], "w": [1.5, 2.5, 0.5]})
    check(one(x), [[30, 1, 1.5], [25, 0, 2.5], [41, 1, 0.5]], ["age", "sex", "w"], [False, True, False])


PANDAS_COLUMNS = {
    "Int64": (pd.array([3, None, 1], dtype="Int64"), False),
    "UInt8": (pd.array([3, None, 1], dtype="UInt8"), False),
    "Float64": (pd.array([3.0, None, 1.0], dtype="Float64"), False),
    "boolean": (pd.array([True, None, False], dtype="boolean"), False),
    "bool object": (np.array([True, None, False], dtype=object), False),
    "float": ([3.0, np.nan, 1.0], False),
    "decimal": ([Decimal(3), None, Decimal(1)], False),
    "decimal nan": ([Decimal(3), Decimal("nan"), Decimal(1)], False),
    "sparse": (pd.arrays.SparseArray([3.0, np.nan, 1.0]), False),
    "str": (pd.Series(["b", None, "a"], dtype="str"), True),
    "string": (pd.array(["b", None, "a"], dtype="string"), True),
    "object": (np.array(["b", None, "a"], dtype=object), True),
    "object NA": (np.array(["b", pd.NA, "a"], dtype=object), True),
    "object NaT": (np.array(["b", pd.NaT, "a"], dtype=object), True),
    "Categorical": (pd.Categorical(["b", None, "a"], categories=["z", "b", "a"]), True),
    "ordered": (pd.Categorical(["b", None, "a"], categories=["b", "a"], ordered=True), True),
    "Categorical of numbers": (pd.Categorical([9, None, 10]), True),
    "Categorical of tuples": (pd.Categorical([(2, 1), None, (1, 5)]), True),
    "Categorical of intervals": (pd.cut([8.0, np.nan, 1.0], [0.0, 5.0, 10.0]), True),
}
POLARS_COLUMNS = {
    "Int8": (pl.Series([3, None, 1], dtype=pl.Int8), False),
    "Int128": (pl.Series([3, None, 1], dtype=pl.Int128), False),
    "UInt64": (pl.Series([3, None, 1], dtype=pl.UInt64), False),
    "Float32": (pl.Series([3.0, float("nan"), 1.0], dtype=pl.Float32), False),
    "Boolean": (pl.Series([True, None, False]), False),
    "Decimal": (pl.Series([Decimal("3"), None, Decimal("1")]), False),
    "String": (pl.Series(["b", None, "a"]), True),
    "Categorical": (pl.Series(["b", None, "a"], dtype=pl.Categorical), True),
    "Enum": (pl.Series(["b", None, "a"], dtype=pl.Enum(["z", "b", "a"])), True),
}
COLUMNS = {f"pandas {key}": (pd.DataFrame, *value) for key, value in PANDAS_COLUMNS.items()} | {
    f"polars {key}": (pl.DataFrame, *value) for key, value in POLARS_COLUMNS.items()
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_of_column_with_a_missing_value(kind):
    make, column, categorical = COLUMNS[kind]
    x = (pd.concat if make is pd.DataFrame else pl.concat)([make({"v": column})] * 2)  # no identifier
    high, low = (1, 0) if categorical or "ool" in kind else (3, 1)  # the text "9" comes after "10"
    table = one(x, "omit")
    check(table, [[high], [low]] * 2, ["v"], [categorical])
    assert table.rows.tolist() == [0, 2, 3, 5]
    with pytest.raises(ValueError, match=r"x has missing values in 2 of 6 rows \(first: row 1\)"):
        one(x)
    assert read_tables({"x": x}, "propagate", 1)[1] is True
    included = one(x, "include")
    assert included.given == len(included.values) == 6
    if categorical:
        assert (included.names, included.levels[0][-1]) == (("v",), "missing")
        assert included.values[[1, 4], 0].tolist() == [2, 2]
    else:
        assert included.names == ("v", "v (missing)")
        assert included.values[:, 1].tolist() == [0, 1, 0, 0, 1, 0]
        assert set(included.values[:, 0]) == {high, low}  # a fill from the values of the column


def test_categories_of_numbers_are_text():
    for x in (pd.Categorical([10, 9]), pd.CategoricalIndex([10, 9]), pd.Series(pd.Categorical([10.0, 9.0]))):
        check(one(x), [[0], [1]], ["column 0"], [True])
        assert one(x).levels == (("10", "9"),)
    a, b, _ = two(pd.DataFrame({"a": pd.Categorical([1, 2])}), pd.DataFrame({"a": ["b", "1"]}))
    assert a.levels == b.levels == (("1", "2", "b"),)


def test_a_lazy_frame_is_collected():
    check(one(pl.LazyFrame({"a": [1, 2]})), [[1], [2]], ["a"], [False])


def test_the_index_is_ignored():
    x = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 5])
    y = pd.DataFrame({"a": [3.0, np.nan]}, index=[0, 9])
    a, b, _ = two(x, y, nan_policy="omit", paired=True)
    assert (a.values.tolist(), b.values.tolist()) == ([[1.0]], [[3.0]])
    assert a.rows.tolist() == [0]


def test_names_that_are_not_text():
    assert one(pd.DataFrame([[1, 2]])).names == ("0", "1")
    wide = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))
    assert one(wide).names == ("('a', 'b')", "('a', 'c')")


def test_tables_are_copies():
    x = np.ones((3, 2))
    table = one(x)
    x[:] = 5.0
    assert (table.values == 1.0).all()


# Matching.


def test_frames_are_matched_by_name(frame):
    x = frame({"a": [1.0] * 3, "g": ["u"] * 3, "b": [2.0] * 3})
    for make in FRAMES.values():
        a, b, _ = two(x, make({"b": [20.0], "a": [10.0], "g": ["v"]}))
        check(a, [[1, 0, 2]] * 3, ["a", "g", "b"], [False, True, False])
        check(b, [[10, 1, 20]], ["a", "g", "b"], [False, True, False])


def test_identifiers_are_left_out_and_columns_of_arrays_are_not(frame):
    x = frame({"id": ["k1", "k2", "k3"], "rownames": [1, 2, 3], "v": [1.0, 2.0, 3.0]})
    table = one(x)
    check(table, [[1], [2], [3]], ["v"], [False])
    assert table.notes == (
        "column 'id' is left out: every value is different, as in an identifier",
        "column 'rownames' is left out: it numbers the rows",
    )
    assert two(x, x)[0].notes == table.notes  # once in each sample is no repetition
    (kept,), _ = read_tables({"x": x}, "raise", 1, columns=["rownames", "id"])
    check(kept, [[1, 0], [2, 1], [3, 2]], ["rownames", "id"], [False, True])
    assert one([["k1", 1.0], ["k2", 2.0]]).names == ("column 0", "column 1")
    words = "x has no column that can be compared \\('id': every value is different"
    with pytest.raises(ValueError, match=words):
        one(frame({"id": ["k1", "k2"]}))


def test_a_frame_and_an_array_are_matched_by_width(frame):
    table = frame({"a": [1.0], "b": [2.0]})
    for x, y in ((table, [[3.0, 4.0]]), ([[3.0, 4.0]], table)):
        a, b, _ = two(x, y)
        assert a.names == b.names == ("a", "b")
    with pytest.raises(
        ValueError, match="y has 3 columns where x has 2; give the same variables in the same"
    ):
        two(table, np.ones((4, 3)))
    with pytest.raises(ValueError, match="y has 2 columns where x has 1; give"):
        two([1.0], table)


def test_two_series_of_different_names_are_one_variable():
    a, b, _ = two(pd.Series([1.0], name="before"), pd.Series([2.0], name="after"))
    assert a.names == b.names == ("before",)


def test_three_samples_share_columns_and_codes(frame):
    samples = {"x": [["m", 1]] * 4, "y": frame({"g": ["z"], "n": [2]}), "z": frame({"n": [3], "g": ["a"]})}
    tables, _ = read_tables(samples, "raise", 1, same_columns=True)
    assert [table.values.tolist() for table in tables] == [[[1.0, 1.0]] * 4, [[2.0, 2.0]], [[0.0, 3.0]]]
    assert {table.names for table in tables} == {("g", "n")}


def test_different_names(frame):
    x, y = frame({"a": [1], "b": [2]}), frame({"a": [1], "c": [2]})
    message = r"only x has 'b' and only y has 'c' \(x: 'a', 'b'; y: 'a', 'c'\); rename or drop"
    with pytest.raises(ValueError, match=message):
        two(x, y)
    with pytest.raises(ValueError, match=r"same columns, but only y has 'c' \(x: 'a'; y: 'a', 'c'\)"):
        two(frame({"a": [1]}), y)
    with pytest.raises(ValueError, match=r"no column in common .*'v7' and 12 more; y: 'a'"):
        two(frame({f"v{d}": [1] for d in range(20)}), frame({"a": [1]}))


def test_widths_of_arrays():
    with pytest.raises(ValueError, match="y has 1 column where x has 2; give the same variables"):
        two(np.ones((3, 2)), np.ones(3))
    a, b, _ = two(np.ones((3, 2)), np.ones(3), same_columns=False)
    assert (a.values.shape, b.values.shape) == ((3, 2), (3, 1))


def test_numbers_against_text(frame):
    message = r"column 'a' holds numbers in x but text \('b'\) in y; give it the same type everywhere"
    with pytest.raises(TypeError, match=message):
        two(frame({"a": [1, 2]}), frame({"a": ["b", "c"]}))
    with pytest.raises(TypeError, match=r"column 1 holds numbers in y but text \('a'\) in x"):
        two([[1, "a"]], [[1, 2]])
    with pytest.raises(TypeError, match="column 'a' holds numbers in x but categories in y"):
        two(frame({"a": [1, 2]}), pd.DataFrame({"a": pd.Categorical(["1", "2"])}))
    a, b, _ = two(frame({"a": [1, 2]}), frame({"a": ["1.5", "2"]}))  # text that is numbers
    assert (a.values.tolist(), b.values.tolist()) == ([[1.0], [2.0]], [[1.5], [2.0]])


# Codes.


def test_codes_are_places_in_the_sorted_union(rng):
    x, y = np.array(["d", "b", "d"]), np.array(["c", "a", "b", "b"])
    a, b, _ = two(x, y)
    assert (a.values[:, 0].tolist(), b.values[:, 0].tolist()) == ([3, 1, 3], [2, 0, 1, 1])
    swapped_b, swapped_a, _ = two(y, x)
    np.testing.assert_array_equal(swapped_a.values, a.values)
    np.testing.assert_array_equal(swapped_b.values, b.values)
    order = rng.permutation(4)
    np.testing.assert_array_equal(two(x, y[order])[1].values, b.values[order])


def test_codes_of_independence_tests_are_their_own():
    a, b, _ = two(["d", "b"], ["c", "a"], same_columns=False, paired=True)
    assert (a.values[:, 0].tolist(), b.values[:, 0].tolist()) == ([1, 0], [1, 0])


def test_levels_are_sorted_as_text_and_unused_ones_have_no_code():
    x = pd.DataFrame({"g": pd.Categorical(["a", "b", "c"], categories=list("zyxcba"))})
    check(one(x), [[0], [1], [2]], ["g"], [True])
    assert one(["b10", "b9"]).levels == (("b10", "b9"),)


# Missing and infinite values.

GAPS = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0], [6.0, np.nan]])


def test_omit():
    table = one(GAPS, "omit")
    assert table.values.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert table.rows.tolist() == [0, 2]
    a, b, met = two(GAPS, GAPS[:2], nan_policy="omit")
    assert (a.rows.tolist(), b.rows.tolist(), met) == ([0, 2], [0], False)


def test_omit_in_pairs():
    a, b, _ = two(GAPS, [np.nan, 1.0, 2.0, 3.0], nan_policy="omit", same_columns=False, paired=True)
    assert (a.rows.tolist(), b.rows.tolist()) == ([2], [2])
    assert (a.values.tolist(), b.values.tolist()) == ([[4.0, 5.0]], [[2.0]])


def test_propagate():
    a, b, met = two(GAPS, GAPS[[0]], nan_policy="propagate")
    assert met is True
    assert (len(a.values), a.given, b.given) == (0, 4, 1)
    assert two(GAPS[[0]], GAPS[[2]], nan_policy="propagate")[2] is False
    assert two(GAPS[[1, 1, 0]], GAPS[[2]], nan_policy="propagate", minimum=1)[2] is True  # most of the rows
    assert two([np.nan, np.nan], [1.0, 2.0], nan_policy="propagate", minimum=2)[2] is True
    assert two([None, None], ["a", "b"], nan_policy="propagate", paired=True)[2] is True
    assert np.isnan(kembed.mmd_test([1.0, np.nan, np.nan], [2.0, 3.0], nan_policy="propagate").pvalue)


def test_raise_names_the_sample_and_the_remedy():
    message = (
        r"y has missing values in 2 of 4 rows \(first: row 1\), by column 'column 0': 1, 'column 1': 1; "
        r"leave those rows out \(nan_policy='omit', .*\); tests of tables can count them \('include'\)"
    )
    with pytest.raises(ValueError, match=message):
        two(GAPS[[0, 0, 0, 0]], GAPS, paired=True)


def test_omit_says_what_it_costs_and_refuses_most_rows(frame):
    x = frame({"a": [1.0, None, 3.0, 4.0], "b": [None, None, 1.0, 2.0]})
    note = "2 of 4 rows of x have missing values and are left out ('b': 2, 'a': 1)"
    assert one(x, "omit").notes == (note,)
    y = frame({"a": [1.0, None, None], "b": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"2 of 3 rows of x have missing values \('a': 2\), .*'include'"):
        one(y, "omit")
    assert one(y, "include").given == 3


@pytest.mark.parametrize(
    "missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), np.float32("nan")]
)
@pytest.mark.parametrize("present", [1.0, "a"])
def test_what_is_missing(missing, present):
    x = np.array([present, missing], dtype=object)
    assert one(x, "omit").rows.tolist() == [0]
    assert one([present, missing], "omit").rows.tolist() == [0]


def test_the_word_nan_is_text():
    assert one(["nan", "None", "<NA>"]).categorical.all()


@pytest.mark.parametrize("nan_policy", ["raise", "omit", "include", "propagate"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, 10**400])
def test_infinities_are_always_refused(nan_policy, bad):
    x = np.array([[1.0, np.nan], [2.0, bad]], dtype=object)
    with pytest.raises(ValueError, match=r"x has infinite values \(first: row 1, in 'column 1'\); drop or"):
        one(x, nan_policy)


def test_infinities_in_frames_and_beside_text(frame):
    with pytest.raises(ValueError, match=r"x has infinite values \(first: row 1, in 'v'\)"):
        one(frame({"g": ["a", "b"], "v": [1.0, np.inf]}))
    assert one(np.array([[1.0, 2.0]], dtype=np.longdouble) * 2).values.tolist() == [[2.0, 4.0]]
    with pytest.raises(ValueError, match="infinite"):
        one(np.array([np.longdouble("1e4000")]))


def test_too_few_rows():
    with pytest.raises(ValueError, match="x has 1 row; at least 2 are needed"):
        one([1.0], minimum=2)
    with pytest.raises(
        ValueError, match="x has 2 rows left after 2 of 4 with missing values were dropped; at"
    ):
        one(GAPS, "omit", minimum=3)
    with pytest.raises(ValueError, match=r"1 row left after 3 of 4 with missing values in any sample were"):
        two(GAPS, [np.nan, 1, 2, 3], nan_policy="omit", same_columns=False, paired=True, minimum=2)
    with pytest.raises(ValueError, match=r"0 rows left after 2 of 2 .* dropped; at least 1 is needed"):
        two([None, None], ["a", "b"], nan_policy="omit")
    with pytest.raises(ValueError, match=r"x has no column that can be compared .*it is empty\); give one"):
        one([None, None], "omit")
    with pytest.raises(ValueError, match="x has 1 row; at least 2"):
        one([np.nan], "propagate", minimum=2)


def test_pairs_need_equally_many_rows():
    with pytest.raises(ValueError, match="x has 4 rows and y has 1 row, but they are paired; give one row"):
        two(GAPS, [1.0], nan_policy="omit", same_columns=False, paired=True)


# What is refused.

BAD = {
    "none": (None, TypeError, "x is None; give an array or a data frame"),
    "number": (3.0, TypeError, "x must be an array or a data frame, but 3.0 was given"),
    "word": ("abc", ValueError, "abc does not exist; check the name"),
    "set": ({1.0, 2.0}, TypeError, "must be an array or a data frame, but {1"),
    "dict of tables": ({"a": np.ones((1, 2))}, ValueError, "'a' of x is no column .*give one vector a col"),
    "dict of lists": ({"a": [[1, 2]]}, ValueError, "x has no column that can be compared .*nested values"),
    "dict, ragged": (
        {"a": [1], "b": [1, 2]},
        ValueError,
        "not of one length: 'a' has 1 row and 'b' has 2 rows",
    ),
    "empty dict": ({}, ValueError, "x has no columns"),
    "0-d": (np.array(1.0), TypeError, "must be an array or a data frame"),
    "3-d": (np.zeros((4, 2, 2)), ValueError, r"its shape is \(4, 2, 2\); reshape it to two dimensions"),
    "empty": ([], ValueError, "x has 0 rows; at least 1 is needed"),
    "no rows": (np.empty((0, 2)), ValueError, "x has 0 rows"),
    "no rows, pandas": (pd.DataFrame({"a": []}), ValueError, "x has 0 rows"),
    "no rows, polars": (pl.DataFrame({"a": []}), ValueError, "x has 0 rows"),
    "no columns": (np.empty((3, 0)), ValueError, r"x has no columns \(shape \(3, 0\)\); give at least one"),
    "no columns, pandas": (pd.DataFrame(index=range(3)), ValueError, r"x has no columns \(shape \(3, 0\)"),
    "no columns, polars": (pl.DataFrame(), ValueError, "x has no columns"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "x is not a rectangular table.*same number of columns"),
    "ragged text": ([["a"], ["b", "c"]], ValueError, "x is not a rectangular table"),
    "masked": (np.ma.masked_less([1.0, 2.0], 1.5), ValueError, "x has missing values in 1 of 2 rows"),
    "sparse": (sparse.eye_array(3).tocsr(), TypeError, r"x is a sparse matrix, .*; give x.toarray\(\)"),
    "complex": (np.array([[1 + 1j]]), TypeError, "column 0 of x holds complex numbers; give the real and"),
    "complex vector": ([1 + 1j], TypeError, "^x holds complex numbers"),
    "complex object": (np.array([1 + 1j], dtype=object), TypeError, r"numbers \(\(1\+1j\) in row 0\)"),
    "complex pandas": (
        pd.DataFrame({"a": [1j]}),
        ValueError,
        "'a': it holds complex numbers",
    ),
    "bytes": (np.array([b"a"]), TypeError, "x holds bytes; decode them to text"),
    "bytes polars": (
        pl.DataFrame({"a": [b"a"]}),
        ValueError,
        "it holds bytes, .*; give one of numbers",
    ),
    "records": (np.zeros(2, dtype=[("a", float)]), TypeError, "x holds values of type .*; drop or encode"),
    "mixed": (
        [[1, 2.0], [1, "b"]],
        TypeError,
        r"column 1 of x mixes numbers and text: 2.0 \(row 0\) and 'b' \(row 1\)",
    ),
    "mixed pandas": (pd.DataFrame({"a": ["u", 1]}), TypeError, r"column 'a' of x mixes numbers and text: 1 "),
    "objects": ([1.0, object()], TypeError, r"holds objects of type object \(<object .* in row 1\); drop or"),
    "periods pandas": (
        pd.DataFrame({"t": pd.period_range("2020", periods=1, freq="M")}),
        ValueError,
        "Period",
    ),
    "lists": (
        np.array([[1], [1, 2], None], dtype=object),
        TypeError,
        r"x holds nested values \(\[1\] in row",
    ),
    "lists pandas": (pd.DataFrame({"a": [[1], [2]]}), ValueError, "'a': it holds nested values"),
    "structs": (pl.DataFrame({"a": [{"b": 1}]}), ValueError, "'a': it holds nested values"),
    "twice": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        ValueError,
        "more than one column named 'a'; rename",
    ),
    "twice as text": (pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "more than one column named '1'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_samples(case):
    x, error, message = BAD[case]
    with pytest.raises(error, match=message):
        one(x)


def test_traced_values():
    with pytest.raises(TypeError, match="x is traced by JAX, but this function computes in NumPy"):
        jax.jit(lambda x: one(x).values)(jnp.ones(3))


def test_bad_policy():
    words = "nan_policy must be one of 'raise', 'omit', 'include', 'propagate', but 'drop' was given"
    with pytest.raises(ValueError, match=words):
        one([1.0], "drop")


def test_arrays_need_no_narwhals():
    code = (
        "import sys\nfrom kembed.tables.reader import read_tables\n"
        "read_tables({'x': [[2, 1.0]]}, 'omit', 1)\n"
        "print([m for m in ('narwhals', 'pandas', 'polars', 'jax', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_test_of_polars_frames_imports_little():
    code = (
        "import sys, numpy as np, polars as pl\nfrom kembed import mmd_test\n"
        "rng = np.random.default_rng(0)\n"
        "x, y = (pl.DataFrame({'a': rng.normal(size=60), 'b': rng.normal(size=60).round(1), "
        "'c': rng.choice(['u', 'v'], 60)}) for _ in range(2))\n"
        "mmd_test(x, y, rng=0)\n"
        "heavy = ('narwhals', 'pandas', 'sklearn', 'jax', 'scipy.linalg', 'scipy.stats')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Samples under their users' names: errors call a file a file, and count its rows as people do.

A, B = "data/a.csv", "x.csv"  # a file may be called as an argument of ours


def labelled(x, y):
    return Labelled(x, A), Labelled(y, B)


def test_a_label_changes_nothing_but_words(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    plain = kembed.mmd_test(x, y, kernel="median", n_resamples=39, rng=0)
    named = kembed.mmd_test(*labelled(x, y), kernel="median", n_resamples=39, rng=0)
    assert (plain.pvalue, plain.statistic) == (named.pvalue, named.statistic)
    (first, second), _ = read_tables({"x": Labelled(x, A), "y": y}, "raise", 1, same_columns=True)
    assert (first.label, second.label) == (A, "y")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0]], [[1.0], [2.0]], r"^data/a\.csv has 1 row; at least 2 are needed"),
        ([[1.0], [np.inf]], [[1.0], [2.0]], r"^data/a\.csv has infinite values \(first: row 2, in"),
        ([[1.0], [2.0]], [[np.nan], [2.0]], r"^x\.csv has missing values in 1 of 2 rows \(first: row 1\)"),
        ([[1.0], [2.0]], [[1.0, 2.0]] * 2, r"^x\.csv has 2 columns where data/a\.csv has 1"),
        ([[1.0], [2.0]], [["a"], ["b"]], r"numbers in data/a\.csv but text \('a'\) in x\.csv"),
        ([1.0, "a"], [1.0, 2.0], r"^data/a\.csv mixes numbers and text: 1\.0 \(row 1\) and 'a' \(row 2\)"),
        ([1.0, object()], [1.0, 2.0], r"^data/a\.csv holds objects .* in row 2\)"),
        (
            pl.DataFrame({"k": [1.0, 2.0]}),
            pl.DataFrame({"x": [1.0, 2.0]}),
            r"^data/a\.csv and x\.csv must have the same columns, but (only data/a\.csv|have no column in)",
        ),
    ],
)
def test_errors_name_the_label_and_count_from_one(x, y, message):
    for test in (kembed.mmd_test, kembed.witness, lambda x, y: kembed.compare(x, y, missing="raise")):
        with pytest.raises((ValueError, TypeError), match=message):
            test(*labelled(x, y))


def test_the_sides_of_an_independence_test():
    with pytest.raises(ValueError, match=r"^data/a\.csv has 5 rows and x\.csv has 4 rows, but they are pair"):
        kembed.hsic_test(*labelled(np.arange(5.0), np.arange(4.0)))


def test_new_rows_of_text_that_is_numbers_may_have_gaps():
    table = one({"a": [1.0, 2.0, 3.0], "g": ["u", "v", "u"]})
    for written, number in (("1.5", 1.5), ("1,200.5", 1200.5)):
        rows = pl.DataFrame({"a": [written, None, "2"], "g": ["v", None, "w"]})
        found = read_like(rows, "p", table, gaps=True)
        np.testing.assert_array_equal(found, [[number, 1.0], [np.nan, np.nan], [2.0, -1.0]])
    with pytest.raises(TypeError, match="column 'a' of p holds text where the samples hold numbers"):
        read_like({"a": ["1.5", "x"], "g": ["u", "v"]}, "p", table)
