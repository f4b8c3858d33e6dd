"""Rows in files, block by block: the same answer as in memory; errors name the file and the block."""

import gzip
import os
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kembed
from kembed.data.files import InputError
from kembed.data.tables import read_tables
from kembed.engines.kinds import is_large_source
from kembed.engines.lines import TextRules
from kembed.engines.memory import in_memory, take_rows
from kembed.engines.settling import open_sources

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
    whole = block.whole
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


def in_door(value, nan_policy="raise"):
    (one,), _ = read_tables({"x": value}, nan_policy, 1)
    return in_memory(one)


@pytest.fixture(scope="module")
def expected(table):
    return in_door(table).map_sum(sums, WEIGHTS)


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
    assert is_large_source(value)
    (source,) = open_sources({"x": value}, rows=rows)
    order = [source.schema.names.index(name) for name in table.columns]
    assert source.size == N
    assert [source.schema.levels[d] for d in order] == list(in_door(table).schema.levels)
    close(source.map_sum(ordered, order, WEIGHTS), expected)


def ordered(block, order, weights):
    return sums(block._replace(values=block.values[:, order]), weights)


def test_blocks_are_short_and_in_order(folder):
    for value in sources(folder):
        (source,) = open_sources({"x": value}, rows=ROWS)
        blocks = source.map_sum(Places.of)
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
    (source,) = open_sources({"x": tmp_path / "a[1].parquet"})
    assert source.map_sum(lambda block: block.values.sum()) == 3.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_memmaps(order, tmp_path, rng):
    values = np.asfortranarray(rng.normal(size=(1_000, 6))) if order == "F" else rng.normal(size=(1_000, 6))
    np.save(tmp_path / "a.npy", values.astype("f4"))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for seen in (mapped, mapped[17:900:3, 1:5], mapped[::-1]):
        weights = np.ones((seen.shape[1], 2))
        (source,) = open_sources({"x": seen}, rows=100)
        close(source.map_sum(sums, weights), in_door(np.array(seen)).map_sum(sums, weights))
    assert is_large_source(mapped)
    assert not is_large_source(np.array(mapped))


def test_samples_share_their_codes(tmp_path):
    first, second = pl.DataFrame({"c": ["b", "d"], "v": [1, 2]}), pl.DataFrame({"v": [3.5], "c": ["a"]})
    first.write_parquet(tmp_path / "x.parquet")
    second.write_csv(tmp_path / "y.csv")
    given = {"x": tmp_path / "x.parquet", "y": str(tmp_path / "y.csv"), "z": [["d", 1.0], ["e", 2.0]]}
    x, y, z = open_sources(given)
    assert x.schema == y.schema == z.schema
    assert x.schema.levels == (("a", "b", "d", "e"), ())
    tables = [source.map_sum(lambda block: block.values).tolist() for source in (x, y, z)]
    assert tables == [[[1, 1], [2, 2]], [[0, 3.5]], [[2, 1], [3, 2]]]


def test_samples_of_other_columns(tmp_path):
    pl.DataFrame({"a": [1.0], "b": [1.0]}).write_parquet(tmp_path / "x.parquet")
    pl.DataFrame({"a": [1.0], "c": [1.0]}).write_parquet(tmp_path / "y.parquet")
    with pytest.raises(
        ValueError, match=r"must have the same columns, but only .*x.parquet has 'b' and only"
    ):
        open_sources({"x": tmp_path / "x.parquet", "y": tmp_path / "y.parquet"})
    with pytest.raises(ValueError, match=r"y has 3 columns where .*x.parquet has 2"):
        open_sources({"x": tmp_path / "x.parquet", "y": np.ones((2, 3))})
    x, y = open_sources({"x": tmp_path / "x.parquet", "y": np.ones((2, 3))}, same_columns=False)
    assert (len(x.schema.names), len(y.schema.names)) == (2, 3)
    with pytest.raises(
        TypeError, match=r"column 'a' holds text or categories in y but numbers in .*x.parquet"
    ):
        open_sources({"x": tmp_path / "x.parquet", "y": pl.DataFrame({"a": ["u"], "b": [1.0]})})


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(values, odd=""):
    return "v,w\n" + "".join(f"{value},{'xy'[value % 2]}\n" for value in values) + odd


SMALL = 2**17 * 1_000 // 2**23  # rows of a block that make a text part of a thousand bytes


def test_text_that_is_numbers_but_for_one_word(tmp_path):
    few = written(tmp_path / "few.csv", lines(np.arange(2_000) % 7, "A,x\n"))
    with pytest.raises(InputError, match=r"'v' of .*few.csv looks like numbers, but 1 of its 8 .*'A'"):
        open_sources({"x": few}, rows=SMALL)
    (source,) = open_sources({"x": few}, rows=SMALL, nan_policy="omit", rules=TextRules(missing=("A",)))
    assert len(source.parts) > 5
    assert not source.schema.categorical[0]
    total = source.map_sum(lambda block: np.nansum(block.values[:, 0]))
    assert total == sum(i % 7 for i in range(2_000))
    many = written(tmp_path / "many.csv", lines(range(12_000), "oops,x\n"))
    wanted = (
        r"'v' of .*many.csv holds numbers in block 1 of .* but text \('oops'\) in block \d+ of .*many.csv"
    )
    with pytest.raises(InputError, match=wanted):
        open_sources({"x": many}, rows=8 * SMALL)
    (source,) = open_sources(
        {"x": many}, rows=8 * SMALL, nan_policy="omit", rules=TextRules(missing=("oops",))
    )
    assert source.survey.missing.many == 1
    assert source.schema.categorical == (False, True)


def test_text_tables_as_the_door_reads_them(tmp_path):
    text = "a,b,c,\n\n 1.5 ,true,x,\nNA,false,NA,\n\n2e3,TRUE, y ,\n\n\n"
    (source,) = open_sources({"x": written(tmp_path / "a.csv", text)}, nan_policy="omit")
    assert source.schema.names == ("a", "b", "c")
    assert source.schema.levels == ((), (), ("x", "y"))
    found = source.map_sum(lambda block: block.values)
    np.testing.assert_array_equal(found, [[1.5, 1, 0], [np.nan, 0, np.nan], [2000, 1, 1]])
    assert source.left_out == {}
    rules = TextRules(delimiter=";", decimal_comma=True, header=False)
    (source,) = open_sources({"x": written(tmp_path / "b.csv", "1,5;u\n2,25;v,1\n")}, rules=rules)
    assert source.schema.names == ("column 1", "column 2")
    assert source.schema.levels == ((), ("u", "v,1"))
    assert source.map_sum(lambda block: block.values[:, 0].sum()) == 3.75


def test_identifiers_are_left_out_and_too_many_levels_refused(tmp_path):
    n = 12_000
    frame = pl.DataFrame({"id": [f"k{i}" for i in range(n)], "v": np.arange(n) % 3, "same": "u"})
    frame.with_columns(id=pl.when(pl.int_range(n) > 5).then("id")).write_parquet(tmp_path / "a.parquet")
    (source,) = open_sources({"x": tmp_path / "a.parquet"})  # its missing values do not count
    assert source.left_out == {"id": "every value is different, as in an identifier"}
    assert source.schema.names == ("v", "same")
    assert source.constant == ("same",)
    assert source.survey.missing.many == 0
    pl.concat([frame, frame]).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"'id' of .*b.parquet is text with more than 10,000 different values"
    ):
        open_sources({"x": tmp_path / "b.parquet"})
    (source,) = open_sources({"x": tmp_path / "b.parquet"}, columns=["v"])
    assert source.schema.names == ("v",)


def test_text_of_very_many_values_is_compared_in_groups(tmp_path):
    rng, n = np.random.default_rng(0), 24_000
    for name, most in (("a", 30_000), ("c", 50)):
        words = [f"k{i}" for i in rng.integers(0, most, n)]
        pl.DataFrame({"who": words, "v": rng.normal(size=n)}).write_parquet(tmp_path / f"{name}.parquet")
    x, y = open_sources({"x": tmp_path / "a.parquet", "y": tmp_path / "c.parquet"}, rows=7_000)
    assert x.schema.levels[0][0] == "group 1 of 4,096"
    assert x.schema == y.schema
    note = "column 'who' has more than 10,000 different values; they are compared in 4,096 groups by a hash"
    assert (x.notes, y.notes) == ((note,), ())
    words = pl.read_parquet(tmp_path / "a.parquet")["who"].to_list()
    expected = np.array([zlib.crc32(word.encode()) % 4_096 for word in words])
    np.testing.assert_array_equal(x.map_sum(take_rows).table[:, 0], expected)
    quick = {"kernel": kembed.OnColumns(kembed.Delta(), [0]), "n_resamples": 19, "rng": 0}
    paths = (tmp_path / "a.parquet", tmp_path / "c.parquet")
    found = kembed.mmd_test(*paths, **quick)
    assert (found.pvalue, found.notes) == (0.05, (note,))
    amounts = pl.DataFrame({"who": [f"${i},000" for i in range(1, 12_001)] * 2})  # numbers in disguise
    amounts.write_parquet(tmp_path / "d.parquet")
    wrong = r"'who' of .*d.parquet is text with more than 10,000 .*numbers of it"
    with pytest.raises(InputError, match=wrong):
        open_sources({"x": paths[0], "y": tmp_path / "d.parquet"}, columns=["who"])


def test_missing_and_infinite_values_name_file_and_row(folder, tmp_path, table):
    for place in range(3):
        table.write_parquet(tmp_path / f"{place}.parquet")
    gap = pl.int_range(N) == 1_234
    paths = [tmp_path / f"{place}.parquet" for place in range(3)]
    changed = table.with_columns(height=pl.when(~gap).then("height"))
    changed.write_parquet(paths[2])
    with pytest.raises(
        ValueError, match=r"missing values in 1 of 9000 rows \(first: row 1235 of .*2.parquet\)"
    ):
        open_sources({"x": paths}, rows=ROWS)
    (source,) = open_sources({"x": paths[2]}, rows=ROWS, nan_policy="omit")
    close(source.map_sum(weighted), in_places(changed))
    assert (source.size, source.survey.missing.many) == (N, 1)
    infinite = pl.when(gap).then(np.inf).otherwise("height")
    table.with_columns(height=infinite).write_csv(tmp_path / "inf.csv")
    with pytest.raises(
        ValueError, match=r"inf.csv has infinite values in 1 of 3000 rows \(first: row 1235\)"
    ):
        open_sources({"x": tmp_path / "inf.csv"}, rows=ROWS, nan_policy="omit")
    table.with_columns(height=None).write_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"0 rows left after 3000 of 3000 with missing values were dropped"):
        open_sources({"x": tmp_path / "none.csv"}, nan_policy="omit")


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
        open_sources({"x": tmp_path / "cut.parquet"})
    table.write_parquet(tmp_path / "bad.parquet", row_group_size=500, compression="zstd")
    damaged = bytearray((tmp_path / "bad.parquet").read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 2_000] = bytes(2_000)
    (tmp_path / "bad.parquet").write_bytes(damaged)
    with pytest.raises(
        InputError, match=r"block \d of .*bad.parquet \(rows [\d,]+ to [\d,]+\) cannot be read"
    ):
        open_sources({"x": tmp_path / "bad.parquet"}, rows=ROWS)
    for place in range(3):
        table.write_parquet(tmp_path / f"part{place}.parquet")
    table.drop("sure").write_parquet(tmp_path / "part2.parquet")
    with pytest.raises(
        ValueError, match=r"part0.parquet and .*part2.parquet must have the same columns.*'sure'"
    ):
        open_sources({"x": str(tmp_path / "part*.parquet")})
    table.with_columns(pl.col("count").cast(pl.String)).write_parquet(tmp_path / "part2.parquet")
    with pytest.raises(
        InputError, match=r"'count' .* numbers in block 1 of .*0.parquet .* text in block 1 of .*2.p"
    ):
        open_sources({"x": str(tmp_path / "part*.parquet")})
    table.with_columns(count=pl.lit([1, 2])).write_parquet(tmp_path / "list.parquet")
    with pytest.raises(InputError, match=r"column 'count' of .*list.parquet holds nested values"):
        open_sources({"x": tmp_path / "list.parquet"})
    text = lines(range(3_000))
    for odd, wanted in (("1\n", "has 1 field where"), ("1,2,3\n", "has 3 fields where")):
        path = written(tmp_path / "ragged.csv", text + odd + text[4:])
        with pytest.raises(
            InputError, match=rf"line \d+ of block \d+ of .*ragged.csv \(from byte .*\) {wanted}"
        ):
            open_sources({"x": path}, rows=SMALL)
    path = written(tmp_path / "quote.csv", text + '1,"x\n' + text[4:] * 3)
    with pytest.raises(InputError, match=r"a quote in .*quote.csv is not closed"):
        open_sources({"x": path}, rows=SMALL)
    (tmp_path / "latin.csv").write_bytes(text.encode() * 4 + b"1,\xff\n" + text[4:].encode())
    with pytest.raises(InputError, match=r"block \d+ of .*latin.csv .* is not UTF-8"):
        open_sources({"x": tmp_path / "latin.csv"}, rows=SMALL)
    zipped = (folder / "zipped.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(zipped[: len(zipped) // 2])
    with pytest.raises(InputError, match=r"cut.csv.gz is a damaged gzip file"):
        open_sources({"x": tmp_path / "cut.csv.gz"})
    with pytest.raises(InputError, match=r"no file is called .*none\*"):
        open_sources({"x": str(tmp_path / "none*")})


@pytest.mark.parametrize("name", ["all.parquet", "all.csv"])
def test_a_file_that_changes_between_passes(name, folder, tmp_path, table):
    path = tmp_path / name
    path.write_bytes((folder / name).read_bytes())
    (source,) = open_sources({"x": path}, rows=ROWS)
    short = table.head(N // 2)
    short.write_parquet(path) if name.endswith("parquet") else short.write_csv(path)
    with pytest.raises(InputError, match=r"block \d+ of .* has changed while it was read"):
        source.map_sum(weighted)
    os.remove(path)
    with pytest.raises(InputError, match=r"block 1 of .* cannot be read \(its file is not there\)"):
        source.map_sum(weighted)


PEAK = """
import sys, resource, numpy as np
from kembed.engines.settling import open_sources
def peak():
    return int([line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0]) / 1024
open_sources({"x": np.ones((9, 2))})[0].map_sum(lambda block: block.values.sum())
import polars; polars.scan_parquet(sys.argv[2]).collect()
before = peak()
(source,) = open_sources({"x": sys.argv[1]}, rows=2**14)
source.map_sum(lambda block: block.values.sum())
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
    assert is_large_source(pl.LazyFrame({"a": [1]}))
    for value in ([1.0, 2.0], ["a", "b"], np.ones(3), pl.DataFrame({"a": [1]}), None, []):
        assert not is_large_source(value)


def test_what_can_be_read_only_once():
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), [])
    with pytest.raises(TypeError, match="x can be read only once; give the files"):
        open_sources({"x": reader})


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_flipped_bit_is_told_where_pages_have_checksums(dictionary, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    frame = pl.DataFrame({"a": np.arange(5_000.0), "b": np.arange(5_000.0) % 7})
    how = {"compression": "none", "use_dictionary": dictionary, "row_group_size": 1_000}
    for checked in (False, True):
        path = tmp_path / f"{checked}.parquet"
        pq.write_table(frame.to_arrow(), path, write_page_checksum=checked, **how)
        (source,) = open_sources({"x": path}, rows=700)
        assert source.size == 5_000
        whole = bytearray(path.read_bytes())
        whole[int(0.45 * len(whole))] ^= 0x10  # in the third row group
        path.write_bytes(whole)
        if not checked:
            assert open_sources({"x": path}, rows=700)[0].size == 5_000  # nobody can know
            continue
        with pytest.raises(InputError, match=r"block 3 of .*True.parquet \(rows .*cannot be read \(.*CRC"):
            open_sources({"x": path}, rows=700)
    pq.write_table(frame.to_arrow(), path, write_page_checksum=True, **{**how, "row_group_size": 5_000})
    assert open_sources({"x": path}, rows=700)[0].size == 5_000  # written anew, with other row groups


def test_digits_that_a_typed_format_holds_as_text(tmp_path):
    digits = np.random.default_rng(0).choice(["1", "2", "12"], 60)
    for name, kind in (("text", pl.String), ("declared", pl.Categorical)):
        pl.DataFrame({"c": pl.Series(digits).cast(kind)}).write_parquet(tmp_path / f"{name}.parquet")
    pl.DataFrame({"c": digits}).write_csv(tmp_path / "text.csv")
    text, declared = tmp_path / "text.parquet", tmp_path / "declared.parquet"
    (source,) = open_sources({"x": text})
    assert source.schema.categorical == (False,)
    told = "is text read as numbers: '12' is 12; write it as categories if they are codes"
    assert source.notes == (f"column 'c' of {text} {told}",)
    (source,) = open_sources({"x": tmp_path / "text.csv"})  # a format that has nothing but text
    assert (source.schema.categorical, source.notes) == ((False,), ())
    for samples in ({"x": declared}, {"x": text, "y": declared}):  # declared in one of them is declared
        for source in open_sources(samples):
            assert (source.schema.levels, source.notes) == ((("1", "12", "2"),), ())
    found = kembed.mmd_test(text, text, kernel="median", n_resamples=19, rng=0)
    assert found.notes[0] == f"column 'c' of {text} {told}"


@pytest.mark.parametrize("empty", [np.zeros((0, 4)), pl.DataFrame({"height": []}, schema={"height": float})])
def test_no_rows_in_memory_beside_a_file(folder, empty):
    with pytest.raises(ValueError, match="x has 0 rows; at least 1 is needed: give more rows"):
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
    with pytest.raises(TypeError, match=r"column 't' of .* holds dates in .*plain.*; give it the same kind"):
        open_sources({"x": file, "y": beside})
    same = frames["plain"] if ending == "memory" else file
    x, y = open_sources({"x": file, "y": same})
    np.testing.assert_array_equal(x.map_sum(take_rows).table, y.map_sum(take_rows).table)


def test_times_in_one_file_and_numbers_in_the_next(clocks):
    home, _ = clocks
    files = [home / "numbers.parquet", home / "plain.parquet"]
    with pytest.raises(InputError, match=r"column 't' of x .* holds numbers and dates in different places"):
        open_sources({"x": files})


def test_declared_categories_in_memory_beside_a_file(tmp_path):
    """Digits that are declared as categories stay so, as they do beside another table in memory."""
    digits = pd.DataFrame({"code": ["1", "2"] * 10})
    digits.to_csv(tmp_path / "codes.csv", index=False)
    digits.to_parquet(tmp_path / "codes.parquet")
    x, y = open_sources({"x": digits.astype("category"), "y": tmp_path / "codes.parquet"})
    assert x.schema.categorical == y.schema.categorical == (True,)
    with pytest.raises(TypeError, match="column 'code' holds text or categories in x but numbers in"):
        open_sources({"x": digits.astype("category"), "y": tmp_path / "codes.csv"})


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
