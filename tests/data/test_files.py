"""Tables from files: what is read, and what is said of files that cannot be."""

import csv
import gzip
import io
import re
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

from kembed.data.files import InputError, checked, picked, read_table
from kembed.data.sources import read_bytes

TABLE = pl.DataFrame({"height": [1.5, 2.0, -3.25], "count": [1, 2, 3], "city": ["Rome", "Oslo", "Bern"]})


@pytest.fixture
def written(tmp_path):
    def write(content: bytes | str, name: str = "t.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def complaint(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


# What is read.


@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.txt", "t", "t.tsv", "t.csv.gz", "t.parquet", "t.pq"])
def test_every_kind_gives_the_same_table(tmp_path, name):
    path = tmp_path / name
    if "p" in path.suffix:
        TABLE.write_parquet(path)
    else:
        text = TABLE.write_csv(separator="\t" if "tsv" in name else ",").encode()
        path.write_bytes(gzip.compress(text) if "gz" in name else text)
    assert read_table(path).equals(TABLE)


@pytest.mark.parametrize("name", ["t.feather", "t.arrow", "t.ipc"])
def test_feather(tmp_path, name):
    TABLE.write_ipc(tmp_path / name)
    assert read_table(tmp_path / name).equals(TABLE)


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(TABLE.write_csv().encode())

    monkeypatch.setattr("sys.stdin", Stdin)
    assert read_table("-").equals(TABLE)


def test_the_whole_column_decides_what_it_is(written):
    rows = "\n".join(["1,1"] * 2_000 + ["1.5,x"])
    frame = read_table(written(f"late,text\n{rows}\n"))
    assert frame["late"].dtype == pl.Float64
    assert frame["text"].dtype == pl.String
    assert frame["late"][-1] == 1.5


def test_missing_words_spaces_and_infinities(written):
    frame = read_table(written("a, b ,c\n 1 ,NA,inf\nn/a, x y ,-Infinity\n NaN ,,1e3\n"))
    assert frame.to_dict(as_series=False) == {
        "a": [1, None, None],
        "b": [None, "x y", None],
        "c": [float("inf"), float("-inf"), 1000.0],
    }
    assert read_table(written("a\n1\n?\n"), missing=["?"])["a"].to_list() == [1, None]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.jsonl", "t.json"])
def test_words_for_missing_values_are_those_of_every_kind(tmp_path, name):
    frame = pl.DataFrame({"v": ["NA", "1", "", "?", "2"], "w": [" a", "b ", "N/A", " ", "a"]})
    writers = {".csv": "csv", ".parquet": "parquet", ".feather": "ipc", ".jsonl": "ndjson", ".json": "json"}
    path = tmp_path / name
    getattr(frame, f"write_{writers[path.suffix]}")(path)
    found = read_table(path, missing=["?"])
    assert found["v"].cast(pl.String).to_list() == [None, "1", None, None, "2"]
    assert found["w"].to_list() == ["a", "b", None, None, "a"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_names_are_those_of_every_kind(tmp_path, suffix):
    frame, path = pl.DataFrame({"": [1.5], " a ": [2.5]}), tmp_path / f"t.{suffix}"
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[suffix](path)
    assert read_table(path).to_dict(as_series=False) == {"unnamed 1": [1.5], "a": [2.5]}
    assert picked(frame, [""]).columns == [""]


def test_words_stay_as_they_are_written(written):
    found = read_table(written("a,b\nTRUE, 1.50\nfalse,NA\n"), words=["a", "b"])
    assert found.to_dict(as_series=False) == {"a": ["TRUE", "false"], "b": ["1.50", None]}


def test_declared_categories_keep_their_words(tmp_path):
    words = pl.Series("w", ["NA", " a", "b"], dtype=pl.Categorical)
    words.to_frame().write_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")["w"].cast(pl.String).to_list() == ["NA", " a", "b"]


def test_true_and_false(written):
    assert read_table(written("a\nTrue\nfalse\nNA\n"))["a"].to_list() == [True, False, None]


def test_delimiters_and_decimal_commas(written):
    path = written("a;b\n1,5;2\n-,25;3\n")
    assert read_table(path, delimiter=";")["a"].to_list() == ["1,5", "-,25"]
    assert read_table(path, delimiter="semicolon", decimal_comma=True)["a"].to_list() == [1.5, -0.25]
    assert read_table(written("a\tb\n1\t2\n"), delimiter="tab").shape == (1, 2)
    assert read_table(written("a|b\n1|2\n"), delimiter="|").shape == (1, 2)


def test_quotes_line_ends_and_byte_order_mark(written):
    expected = {"a": ["x, y", 'say "no"'], "b": [1, 2]}
    for end in ("\n", "\r\n", "\r"):
        text = end.join(["a,b", '"x, y",1', '"say ""no""",2', ""])
        assert read_table(written("\ufeff" + text)).to_dict(as_series=False) == expected


def test_lines_and_columns_of_nothing_are_not_data(written):
    frame = read_table(written("\na,b,\n1,2,\n\n3,4,\n,,\n\n"))
    assert frame.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4]}
    # In a single column an empty line is a missing value, unless it is the end of the file.
    assert read_table(written("a\n1\n\n3\n\n\n"))["a"].to_list() == [1, None, 3]


def test_unnamed_columns_keep_their_place(written):
    assert read_table(written(",a\n0,7\n1,8\n")).columns == ["unnamed 1", "a"]


def test_no_header(written):
    frame = read_table(written("1.5,2\n3,4\n"), header=False)
    assert frame.to_dict(as_series=False) == {"column 1": [1.5, 3.0], "column 2": [2, 4]}
    assert read_table(written("2019,2020\n1,2\n")).columns == ["2019", "2020"]  # years are names


def test_columns_are_chosen_in_order_and_by_their_right_names():
    assert checked(["city", "height", "city"], TABLE.columns, "t.csv") == ["city", "height"]
    for wrong, message in (
        ("hieght", "t.csv has no column 'hieght'; did you mean 'height'?"),
        ("z", "t.csv has no column 'z'; it has 'height', 'count', 'city'"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            checked([wrong], TABLE.columns, "t.csv")


# What is refused, and with what remedy.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "t.csv is empty"),
        (b" \n\n", "t.csv is empty"),
        (b"a,b\n", "has column names but no rows"),
        (b"a,b\n,\n", "has column names but no rows"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 of .*t.csv has 3 fields where the first line has 2"),
        (b"a,b,c\n1,2,3\n\n4,5\n", "line 4 of .* has 2 fields where the first line has 3"),
        (b"a,b,a\n1,2,3\n", "more than one column named 'a'; rename"),
        (b"1,1\n1,2\n", "more than one column named '1'; .*--no-header"),
        (b"0.5,1\n1,2\n", r"holds numbers \(0.5, 1\) where names should be; use --no-header"),
        (b",,\n1,2,3\n", "no column names"),
        ("a,b\n1,2\nM\xfcller,3\n".encode("latin-1"), r"not UTF-8 \(line 3\); save it as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is UTF-16, not UTF-8"),
        (b"a\0b\n1\n", "not a text table"),
        (b'a,b\n"1,2\n3,4\n', "a quote in .* is not closed"),
        (b"a;b\n1,5;2\n", "single column, 'a;b': .*use --delimiter ';'"),
        (b"a\tb\n1\t2\n", "use --delimiter tab"),
        (b"a|b\n1|2\n", r"use --delimiter '\|'"),
        (b"PAR1....", "is a Parquet file, not a text table"),
        (b"PK\x03\x04..", "is a spreadsheet or archive"),
        (b"\x1f\x8b....", "damaged gzip"),
        (gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30], "damaged gzip"),
    ],
)
def test_refused(written, content, message):
    path = written(content)
    with pytest.raises(InputError, match=message):
        read_table(path)
    assert complaint(path)


def test_a_name_with_another_delimiter_in_it_is_fine(written):
    assert read_table(written("income; net\n1\n2\n")).columns == ["income; net"]


@pytest.mark.parametrize(("name", "message"), [("t.parquet", "Parquet"), ("t.feather", "Feather")])
def test_damaged_binary_files(written, name, message):
    assert f"not a readable {message}" in complaint(written(b"PAR1xxxx", name))


def test_kinds_that_are_not_read(written):
    assert "give CSV, TSV, JSON lines, Excel, Parquet or Feather" in complaint(written(b"x", "t.docx"))


def test_sheets_are_read_where_there_is_a_reader(written):
    installed = any(find_spec(reader) for reader in ("fastexcel", "openpyxl"))
    words = (
        "is not a readable Excel file" if installed else "pip install fastexcel to read it, or save the sheet"
    )
    assert words in complaint(written(b"x", "t.xlsx"))


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz"])
def test_json(tmp_path, name):
    path = tmp_path / name
    text = io.BytesIO()
    (TABLE.write_json if ".json" in path.suffixes else TABLE.write_ndjson)(text)
    path.write_bytes(gzip.compress(text.getvalue()) if "gz" in name else text.getvalue())
    assert read_table(path).equals(TABLE)


def test_a_number_late_in_json_lines_counts(written):
    lines = ['{"a": 1}'] * 2_000 + ['{"a": 1.5, "b": "x"}']
    frame = read_table(written("\n".join(lines), "t.jsonl"))
    assert (frame["a"][-1], frame["b"].count()) == (1.5, 1)


def test_damaged_files_are_one_line(written, capfd):
    rng = np.random.default_rng(0)
    for name, write in (
        ("t.feather", TABLE.write_ipc),
        ("t.parquet", TABLE.write_parquet),
        ("t.jsonl", TABLE.write_ndjson),
    ):
        buffer = io.BytesIO()
        write(buffer)
        whole = buffer.getvalue()
        for k in range(60):
            data = bytearray(whole[: rng.integers(1, len(whole))] if k % 2 else whole)
            for place in rng.integers(0, len(data), 6):
                data[place] = rng.integers(256)
            with suppress(InputError):  # and nothing else
                read_table(written(bytes(data), name))
    assert capfd.readouterr() == ("", "")


# Quotes, long fields, devices, bombs.


def test_a_quote_inside_a_field_is_a_quote(written):
    frame = read_table(written('5" pipe,b "x" c\n1,x"y\n2,z"w"\n3,"say ""no"""\n'))
    assert frame.columns == ['5" pipe', 'b "x" c']
    assert frame.rows() == [(1, 'x"y'), (2, 'z"w"'), (3, 'say "no"')]
    assert read_table(written('"a ""b""",c\n1,2\n')).columns == ['a "b"', "c"]
    assert read_table(written('"a\nb",c\n1,2\n')).rows() == [(1, 2)]  # a name of two lines
    assert read_table(written("a\u2028b\x0b,c\n1,2\n")).rows() == [(1, 2)]  # of one, whatever it looks like


def test_a_field_may_be_long(written):
    before = csv.field_size_limit()
    long = "x" * 200_000
    for table in (f"a,b\n{long},1\ny,2\n", f'{long},b\ny"z,1\n', f"{long},b\ny,1\n"):
        assert (
            max(
                map(
                    len,
                    map(str, read_table(written(table)).row(0) + tuple(read_table(written(table)).columns)),
                )
            )
            == 200_000
        )
    assert csv.field_size_limit() == before
    assert "line 3 of" in complaint(written(f"a,b\n{long},1\n3,4,5\n"))


def test_limits(written, tmp_path):
    bomb = written(gzip.compress(b"a,b\n" + b"1,2\n" * 5_000_000), "bomb.csv.gz")
    with pytest.raises(
        InputError, match=r"unpacked, .*bomb.csv.gz is more than 0.00977 GiB, which is the limit; give"
    ):
        read_bytes(bomb, most=10 * 1024**2)
    assert len(read_bytes(bomb)) == 20_000_004
    assert "is a device and no table; give a file" in complaint("/dev/zero")
    assert "cannot be read" in complaint("a\0b.csv")


def test_names_are_names_and_no_patterns(written):
    frame = read_table(written("^b.*$,*,b,\n1,2,3,\n4,5,6,\n"))
    assert frame.to_dict(as_series=False) == {"^b.*$": [1, 4], "*": [2, 5], "b": [3, 6]}
    assert picked(frame, ["*", "^b.*$"]).rows() == [(2, 1), (5, 4)]


def test_places(tmp_path, written):
    assert "is a folder" in complaint(tmp_path)
    written("a\n1\n", "heights.csv")
    assert complaint(tmp_path / "hieghts.csv").endswith("heights.csv")
    assert "does not exist; check the name" in complaint(tmp_path / "nowhere" / "t.csv")
    assert "\\x1b[31m" in complaint(tmp_path / "\x1b[31m.csv")  # a name cannot paint the terminal


def test_options(written):
    path = written(TABLE.write_csv())
    assert "--delimiter takes one character, or 'tab', but ';;' was given" in complaint(path, delimiter=";;")
