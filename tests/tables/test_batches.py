"""Rows in files, block by block: the same answer as in memory; errors name the file and the block."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kembed
from kembed.tables.delimited import TextOptions
from kembed.tables.parts import InputError
from kembed.tables.reader import is_stored, read
from kembed.tables.source import take_rows

N = 3_000
ROWS = 512  # of a block: several of them in every file


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    words = ["green", "red", 'a "quoted", one', "two\nlines", "blå"]
    return pl.DataFrame(
        {
            "height": rng.normal(size=N),
            "count": rng.integers(-5, 5, N),
            "colour": rng.choice(words, N),
            "sure": rng.random(N) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    home = tmp_path_factory.mktemp("tables")
    table.write_parquet(home / "all.parquet", row_group_size=700)
    table.write_ipc(home / "all.arrow")
    table.write_csv(home / "all.csv")
    table.write_csv(home / "all.tsv", separator="\t")
    with gzip.open(home / "zipped.csv.gz", "wb") as stream:
        stream.write((home / "all.csv").read_bytes())
    (home / "pieces").mkdir()
    for place, first in enumerate(range(0, N, 800)):
        # Other files have the columns in another order, and that says nothing.
        columns = table.columns if place % 2 else table.columns[::-1]
        table.slice(first, 800).select(columns).write_parquet(home / "pieces" / f"{place}.parquet")
    return home


def sums(block, weights):
    """Σ rows, Σ (number of the row) · row, and Σ cos of a mixture: sees order, codes and missing values."""
    whole = block.complete
    values, places = block.values[whole], np.arange(block.first, block.first + len(block.values))[whole]
    products = np.cos(values @ weights)
    return {
        "n": len(values),
        "sum": values.sum(axis=0),
        "order": places @ values,
        "cos": products.sum(axis=0),
    }


WEIGHTS = np.random.default_rng(1).normal(size=(4, 7))


def close(one, other):
    assert one["n"] == other["n"]
    for key in ("sum", "order", "cos"):
        np.testing.assert_allclose(one[key], other[key], rtol=1e-10, atol=1e-10)


def in_memory(value):
    (source,) = read({"x": value})
    return source


@pytest.fixture(scope="module")
def expected(table):
    return in_memory(table).fold(sums, WEIGHTS)


def sources(folder):
    import pyarrow.dataset

    whole = [
        str(folder / name) for name in ("all.csv", "all.tsv", "zipped.csv.gz", "all.parquet", "all.arrow")
    ]
    pieces = sorted((folder / "pieces").iterdir())
    lazy = pl.scan_parquet(folder / "all.parquet").filter(pl.col("height") < 1e9)
    arrow = pyarrow.dataset.dataset(folder / "all.parquet")
    return [*whole, pieces, str(folder / "pieces" / "*.parquet"), folder / "pieces", lazy, arrow]


@pytest.mark.parametrize("rows", [ROWS, 10 * N])
@pytest.mark.parametrize("place", range(10))
def test_the_same_as_in_memory(place, rows, folder, table, expected):
    value = sources(folder)[place]
    assert is_stored(value)
    (source,) = read({"x": value}, rows=rows)
    order = [source.schema.names.index(name) for name in table.columns]
    assert source.size == N
    assert [source.schema.levels[d] for d in order] == list(in_memory(table).schema.levels)
    close(source.fold(ordered, order, WEIGHTS), expected)


def ordered(block, order, weights):
    return sums(block._replace(values=block.values[:, order]), weights)


def test_blocks_are_short_and_in_order(folder):
    for value in sources(folder):
        (source,) = read({"x": value}, rows=ROWS)
        blocks = source.fold(Places.of)
        firsts, lengths = zip(*blocks.places, strict=True)
        assert len(blocks.places) > 1
        assert max(lengths) <= 2 * ROWS
        assert list(firsts) == np.cumsum([0, *lengths])[:-1].tolist()


class Places:
    def __init__(self, places):
        self.places = places

    @classmethod
    def of(cls, block):
        return cls(((block.first, len(block.values)),))

    def plus(self, other):
        return Places(self.places + other.places)


def test_a_name_that_looks_like_a_pattern(tmp_path):
    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(tmp_path / "a[1].parquet")
    pl.DataFrame({"a": [5.0]}).write_parquet(tmp_path / "a1.parquet")
    (source,) = read({"x": tmp_path / "a[1].parquet"})
    assert source.fold(lambda block: block.values.sum()) == 3.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_memmaps(order, tmp_path, rng):
    values = np.asfortranarray(rng.normal(size=(1_000, 6))) if order == "F" else rng.normal(size=(1_000, 6))
    np.save(tmp_path / "a.npy", values.astype("f4"))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for seen in (mapped, mapped[17:900:3, 1:5], mapped[::-1]):
        weights = np.ones((seen.shape[1], 2))
        (source,) = read({"x": seen}, rows=100)
        close(source.fold(sums, weights), in_memory(np.array(seen)).fold(sums, weights))
    assert is_stored(mapped)
    assert not is_stored(np.array(mapped))


def test_samples_share_their_codes(tmp_path):
    first, second = pl.DataFrame({"c": ["b", "d"], "v": [1, 2]}), pl.DataFrame({"v": [3.5], "c": ["a"]})
    first.write_parquet(tmp_path / "x.parquet")
    second.write_csv(tmp_path / "y.csv")
    given = {"x": tmp_path / "x.parquet", "y": str(tmp_path / "y.csv"), "z": [["d", 1.0]] * 3 + [["e", 2.0]]}
    x, y, z = read(given)
    assert x.schema == y.schema == z.schema
    assert x.schema.levels == (("a", "b", "d", "e"), ())
    tables = [source.table().values.tolist() for source in (x, y, z)]
    assert tables == [[[1, 1], [2, 2]], [[0, 3.5]], [[2, 1]] * 3 + [[3, 2]]]


def test_samples_of_other_columns(tmp_path):
    pl.DataFrame({"a": [1.0], "b": [1.0]}).write_parquet(tmp_path / "x.parquet")
    pl.DataFrame({"a": [1.0], "c": [1.0]}).write_parquet(tmp_path / "y.parquet")
    with pytest.raises(
        ValueError, match=r"must have the same columns, but only .*x.parquet has 'b' and only"
    ):
        read({"x": tmp_path / "x.parquet", "y": tmp_path / "y.parquet"})
    with pytest.raises(ValueError, match=r"y has 3 columns where .*x.parquet has 2"):
        read({"x": tmp_path / "x.parquet", "y": np.ones((2, 3))})
    x, y = read({"x": tmp_path / "x.parquet", "y": np.ones((2, 3))}, same_columns=False)
    assert (len(x.schema.names), len(y.schema.names)) == (2, 3)
    with pytest.raises(
        TypeError, match=r"column 'a' holds numbers in .*x.parquet but text \('u'\) in y; give it the same"
    ):
        read({"x": tmp_path / "x.parquet", "y": pl.DataFrame({"a": ["u"], "b": [1.0]})})


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(values, odd=""):
    return "v,w\n" + "".join(f"{value},{'xy'[value % 2]}\n" for value in values) + odd


SMALL = 2**17 * 1_000 // 2**23  # rows of a block that make a text part of a thousand bytes


@pytest.mark.parametrize("most", [7, 12_000])
def test_text_that_is_numbers_but_for_one_word(most, tmp_path):
    path = written(tmp_path / "one.csv", lines(np.arange(12_000) % most, "oops,x\n"))
    words = r"'v' of .*one.csv looks numeric but .*\('oops'\), first in block \d+ of .*one.csv \(.*; clean"
    with pytest.raises(ValueError, match=words):
        read({"x": path}, rows=8 * SMALL)
    options = TextOptions(missing=("oops",))
    (source,) = read({"x": path}, rows=8 * SMALL, nan_policy="omit", options=options)
    assert len(source.parts) > 5
    assert (source.survey.incomplete, source.schema.categorical) == (1, (False, True))
    assert source.fold(lambda block: block.values[:, 0].sum()) == sum(i % most for i in range(12_000))


def test_text_tables(tmp_path):
    text = "a,b,c,\n\n 1.5 ,true,x,\nNA,false,NA,\n\n2e3,TRUE, y ,\n\n3,true,x,\n\n"
    path = written(tmp_path / "a.csv", text)
    for rows in (1, ROWS):
        (source,) = read({"x": path}, nan_policy="omit", rows=rows)
        assert source.schema.names == ("a", "b", "c")
        assert source.schema.levels == ((), (), ("x", "y"))
        complete, gaps = [[1.5, 1, 0], [2000, 1, 1], [3, 1, 0]], [np.nan, 0, np.nan]
        np.testing.assert_array_equal(source.fold(take_rows).table, complete)
        every = source.with_gaps().fold(take_rows).table
        np.testing.assert_array_equal(every, [complete[0], gaps, *complete[1:]])
        assert source.left_out == {}
        assert source.notes == (
            f"1 of 4 rows of {path} have missing values and are left out ('a': 1, 'c': 1)",
        )
    options = TextOptions(delimiter=";", decimal_comma=True, header=False)
    path = written(tmp_path / "b.csv", "1,5;u\n2,25;v,1\n1,5;u\n")
    (source,) = read({"x": path}, options=options)
    assert source.schema.names == ("column 1", "column 2")
    assert source.schema.levels == ((), ("u", "v,1"))
    assert source.fold(lambda block: block.values[:, 0].sum()) == 5.25


def test_identifiers_are_left_out(tmp_path):
    n = 12_000
    frame = pl.DataFrame({"id": [f"k{i}" for i in range(n)], "v": np.arange(n) % 3, "same": "u"})
    frame.with_columns(id=pl.when(pl.int_range(n) > 5).then("id")).write_parquet(tmp_path / "a.parquet")
    (source,) = read({"x": tmp_path / "a.parquet"}, rows=1_000)  # its missing values do not count
    assert source.left_out == {"id": "every value is different, as in an identifier"}
    assert source.schema.names == ("v", "same")
    assert source.constant == ("same",)
    assert source.survey.incomplete == 0
    (source,) = read({"x": tmp_path / "a.parquet"}, columns=["v"])
    assert (source.schema.names, source.notes) == (("v",), ())


def test_text_of_very_many_values_is_compared_in_groups(tmp_path):
    rng, n = np.random.default_rng(0), 24_000
    for name, most in (("a", 30_000), ("c", 50)):
        words = [f"k{i}" for i in rng.integers(0, most, n)]
        pl.DataFrame({"who": words, "v": rng.normal(size=n)}).write_parquet(tmp_path / f"{name}.parquet")
    paths = (tmp_path / "a.parquet", tmp_path / "c.parquet")
    x, y = read(dict(zip("xy", paths, strict=True)), rows=7_000)
    assert x.schema.levels[0][0] == "group 1 of 4,096"
    assert x.schema == y.schema
    note = "column 'who' has more than 10,000 different values; they are compared in 4,096 groups by a hash"
    assert x.notes == y.notes == (note,)
    seen: dict[str, set[float]] = {}
    for source, path in zip((x, y), paths, strict=True):
        groups = source.fold(take_rows).table[:, 0]
        for word, group in zip(pl.read_parquet(path)["who"], groups, strict=True):
            seen.setdefault(word, set()).add(group)
    assert all(len(groups) == 1 for groups in seen.values())  # of a word the same in both samples
    assert len(set().union(*seen.values())) > 3_900
    quick = {"kernel": kembed.OnColumns(kembed.Delta(), [0]), "n_resamples": 19, "rng": 0}
    found = kembed.mmd_test(*paths, **quick)
    assert (found.pvalue, found.notes) == (0.05, (note,))


def test_missing_and_infinite_values_name_file_and_row(folder, tmp_path, table):
    for place in range(3):
        table.write_parquet(tmp_path / f"{place}.parquet")
    gap = pl.int_range(N) == 1_234
    paths = [tmp_path / f"{place}.parquet" for place in range(3)]
    changed = table.with_columns(height=pl.when(~gap).then("height"))
    changed.write_parquet(paths[2])
    with pytest.raises(
        ValueError, match=r"missing values in 1 of 9,?000 rows \(first: row 1,?235 of .*2.parquet\)"
    ):
        read({"x": paths}, rows=ROWS)
    (source,) = read({"x": paths[2]}, rows=ROWS, nan_policy="omit")
    close(source.fold(weighted), in_places(changed.drop_nulls()))
    close(source.with_gaps().fold(weighted), in_places(changed))
    assert (source.size, source.given, source.survey.incomplete) == (N - 1, N, 1)
    infinite = pl.when(gap).then(np.inf).otherwise("height")
    table.with_columns(height=infinite).write_parquet(tmp_path / "inf.parquet")
    with pytest.raises(
        ValueError, match=r"inf.parquet has infinite values \(first: row 1,?235, in 'height'\); drop or"
    ):
        read({"x": tmp_path / "inf.parquet"}, rows=ROWS, nan_policy="omit")
    table.with_columns(height=infinite).write_csv(tmp_path / "inf.csv")
    with pytest.raises(ValueError, match=r"'height' of .*inf.csv has infinite values \('inf'\); drop or"):
        read({"x": tmp_path / "inf.csv"}, rows=ROWS, nan_policy="omit")
    path = written(tmp_path / "many.csv", lines(range(12_000), "1e400,x\n"))
    with pytest.raises(ValueError, match=r"'v' of .*many.csv has infinite values \('1e400'\); drop or"):
        read({"x": path}, rows=8 * SMALL)
    table.with_columns(height=None).write_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"0 rows left after 3,?000 of 3,?000 with missing values were drop"):
        read({"x": tmp_path / "none.csv", "y": table}, nan_policy="omit")


def weighted(block):
    return sums(block, WEIGHTS)


def in_places(frame):
    """The sums of `weighted` by a loop over the rows of a frame."""
    codes = {word: place for place, word in enumerate(sorted(set(frame["colour"])))}
    out = {"n": 0, "sum": 0.0, "order": 0.0, "cos": 0.0}
    for place, (height, count, colour, sure) in enumerate(frame.iter_rows()):
        if height is not None:
            row = np.array([height, count, codes[colour], sure], dtype=float)
            added = {"n": 1, "sum": row, "order": place * row, "cos": np.cos(row @ WEIGHTS)}
            out = {key: out[key] + added[key] for key in out}
    return out


def test_faults_name_the_file_and_the_block(folder, tmp_path, table):
    whole = (folder / "all.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut.parquet is not a readable Parquet file"):
        read({"x": tmp_path / "cut.parquet"})
    table.write_parquet(tmp_path / "bad.parquet", row_group_size=500, compression="zstd")
    damaged = bytearray((tmp_path / "bad.parquet").read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 2_000] = bytes(2_000)
    (tmp_path / "bad.parquet").write_bytes(damaged)
    with pytest.raises(
        InputError, match=r"block \d of .*bad.parquet \(rows [\d,]+ to [\d,]+\) cannot be read"
    ):
        read({"x": tmp_path / "bad.parquet"}, rows=ROWS)
    for place in range(3):
        table.write_parquet(tmp_path / f"part{place}.parquet")
    table.drop("sure").write_parquet(tmp_path / "part2.parquet")
    with pytest.raises(
        ValueError, match=r"part0.parquet and .*part2.parquet must have the same columns.*'sure'"
    ):
        read({"x": str(tmp_path / "part*.parquet")})
    table.with_columns(count=pl.lit("many")).write_parquet(tmp_path / "part2.parquet")
    with pytest.raises(
        TypeError,
        match=r"'count' .* numbers in block 1 of .*0.parquet .* text \('many'\) in block 1 of .*2.p",
    ):
        read({"x": str(tmp_path / "part*.parquet")})
    table.with_columns(count=pl.lit([1, 2])).write_parquet(tmp_path / "list.parquet")
    (source,) = read({"x": tmp_path / "list.parquet"})
    assert source.left_out == {"count": "it holds nested values, which cannot be compared"}
    with pytest.raises(InputError, match=r"column 'count' of .*list.parquet cannot be compared .*nested"):
        read({"x": tmp_path / "list.parquet"}, columns=["count", "height"])
    text = lines(range(3_000))
    for odd, wanted in (("1\n", "has 1 field where"), ("1,2,3\n", "has 3 fields where")):
        path = written(tmp_path / "ragged.csv", text + odd + text[4:])
        with pytest.raises(InputError, match=rf"line 3,002 of .*ragged.csv {wanted} the first line has 2"):
            read({"x": path}, rows=SMALL)
    path = written(tmp_path / "quote.csv", text + '1,"x\n' + text[4:] * 3)
    with pytest.raises(InputError, match=r"a quote in .*quote.csv is not closed"):
        read({"x": path}, rows=SMALL)
    (tmp_path / "latin.csv").write_bytes(text.encode() * 4 + b"1,\xff\n" + text[4:].encode())
    with pytest.raises(InputError, match=r"latin.csv is not UTF-8 \(line"):
        read({"x": tmp_path / "latin.csv"}, rows=SMALL)
    zipped = (folder / "zipped.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(zipped[: len(zipped) // 2])
    with pytest.raises(InputError, match=r"cut.csv.gz is a damaged gzip file"):
        read({"x": tmp_path / "cut.csv.gz"})
    with pytest.raises(InputError, match=r"no file is called .*none\*"):
        read({"x": str(tmp_path / "none*")})


@pytest.mark.parametrize("name", ["all.parquet", "all.csv"])
def test_a_file_that_changes_between_passes(name, folder, tmp_path, table):
    path = tmp_path / name
    path.write_bytes((folder / name).read_bytes())
    (source,) = read({"x": path}, rows=ROWS)
    short = table.head(N // 2)
    short.write_parquet(path) if name.endswith("parquet") else short.write_csv(path)
    with pytest.raises(InputError, match=r"block \d+ of .* has changed while it was read"):
        source.fold(weighted)
    os.remove(path)
    with pytest.raises(InputError, match=r"block 1 of .* cannot be read \(its file is not there\)"):
        source.fold(weighted)


PEAK = """
import sys, resource, numpy as np
from kembed.tables.reader import read
def peak():
    return int([line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0]) / 1024
read({"x": np.ones((9, 2))})[0].fold(lambda block: block.values.sum())
import polars; polars.scan_parquet(sys.argv[2]).collect()
before = peak()
(source,) = read({"x": sys.argv[1]}, rows=2**14)
source.fold(lambda block: block.values.sum())
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["large.parquet", "large.csv"])
def test_no_file_is_in_memory_whole(name, tmp_path, folder):
    """80 MB of numbers are read within 50."""
    values = np.random.default_rng(0).integers(0, 2**16, size=(2_000_000, 5))
    frame = pl.DataFrame(values)
    frame.write_parquet(tmp_path / name) if name.endswith("parquet") else frame.write_csv(tmp_path / name)
    command = [sys.executable, "-c", PEAK, str(tmp_path / name), str(folder / "all.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 50, done.stdout


def test_what_is_large():
    assert is_stored(pl.LazyFrame({"a": [1]}))
    for value in ([1.0, 2.0], ["a", "b"], np.ones(3), pl.DataFrame({"a": [1]}), None, []):
        assert not is_stored(value)


def test_what_can_be_read_only_once():
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), [])
    with pytest.raises(TypeError, match="x can be read only once; give the files"):
        read({"x": reader})


def test_digits_are_numbers_unless_they_are_declared(tmp_path):
    digits = np.random.default_rng(0).choice(["1", "2", "12"], 60)
    for name, kind in (("text", pl.String), ("declared", pl.Categorical)):
        pl.DataFrame({"c": pl.Series(digits).cast(kind)}).write_parquet(tmp_path / f"{name}.parquet")
    pl.DataFrame({"c": digits}).write_csv(tmp_path / "text.csv")
    declared = tmp_path / "declared.parquet", pd.DataFrame({"c": digits}, dtype="category")
    for text in (tmp_path / "text.parquet", tmp_path / "text.csv"):
        (source,) = read({"x": text})
        assert (source.schema.categorical, source.notes) == ((False,), ())
        for one in declared:  # declared in one of them is declared
            for source in read({"x": text, "y": one}):
                assert (source.schema.levels, source.notes) == ((("1", "12", "2"),), ())


def test_no_rows_in_memory_beside_a_file(folder, table):
    for empty in (np.zeros((0, 4)), table.head(0)):
        with pytest.raises(ValueError, match="x has 0 rows; at least 2 are needed: give more rows"):
            kembed.mmd_test(empty, str(folder / "all.parquet"))


# What times and categories are does not depend on where they come from.


@pytest.fixture(scope="module")
def clocks(tmp_path_factory):
    home = tmp_path_factory.mktemp("clocks")
    days = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 1, 30), "1d", eager=True)
    frames = {
        "plain": pl.DataFrame({"t": days}),
        "zoned": pl.DataFrame({"t": days.dt.replace_time_zone("Asia/Tokyo")}),
        "numbers": pl.DataFrame({"t": np.arange(30.0)}),
    }
    for name, frame in frames.items():
        frame.write_parquet(home / f"{name}.parquet")
        frame.write_csv(home / f"{name}.csv")
    return home, frames


@pytest.mark.parametrize("ending", ["parquet", "csv", "memory"])
@pytest.mark.parametrize("other", ["zoned", "numbers"])
def test_times_beside_other_kinds(clocks, ending, other):
    home, frames = clocks
    file = home / f"plain.{'csv' if ending == 'csv' else 'parquet'}"
    beside = frames[other] if ending == "memory" else home / f"{other}.{ending}"
    kinds = (TypeError, r"column 't' of .* holds dates in .*plain.*; give it the same kind")
    text = (ValueError, r"column 't' of .* looks numeric but does not read as numbers or dates")
    error, words = text if ending == "csv" else kinds
    with pytest.raises(error, match=words):
        read({"x": file, "y": beside})
    same = frames["plain"] if ending == "memory" else file
    x, y = read({"x": file, "y": same})
    np.testing.assert_array_equal(x.fold(take_rows).table, y.fold(take_rows).table)


def test_times_in_one_file_and_numbers_in_the_next(clocks):
    home, _ = clocks
    files = [home / "numbers.parquet", home / "plain.parquet"]
    with pytest.raises(TypeError, match=r"column 't' of x .* holds .*dates in x"):
        read({"x": files})


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_spaces_around_names_and_columns_without_one(suffix, tmp_path, rng):
    """As in text tables and whole files."""
    frames = [
        pl.DataFrame({name: rng.normal(size=40) for name in names})
        for names in ((" v ", ""), ("v", "unnamed 2"))
    ]
    paths = [str(tmp_path / f"{k}.{suffix}") for k in range(2)]
    for frame, path in zip(frames, paths, strict=True):
        (frame.write_parquet if suffix == "parquet" else frame.write_ipc)(path)
    found = kembed.mmd_test(*paths, kernel="median", n_resamples=19, rng=0)
    frames[0].columns = frames[1].columns
    assert found.pvalue == kembed.mmd_test(*frames, kernel="median", n_resamples=19, rng=0).pvalue
