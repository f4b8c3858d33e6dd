"""Tables from files: what is read, and what is said of files that cannot be."""

import csv
import gzip
import io
import os
import re
import threading
from contextlib import suppress
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

from kembed.tables.delimited import TextOptions
from kembed.tables.files import checked
from kembed.tables.parts import InputError
from kembed.tables.reader import open_value, read

TABLE = pl.DataFrame({"height": [1.5, 2.0, -3.25], "count": [1, 2, 3], "city": ["Rome", "Oslo", "Rome"]})
COLUMNS = TABLE.to_dict(as_series=False)


@pytest.fixture
def written(tmp_path):
    def write(content: bytes | str, name: str = "t.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def columns(path, keep=(), **options) -> dict[str, list]:
    """What is read: None where a value is missing, categories as their levels."""
    (source,) = read({"x": path}, nan_policy="include", keep=keep, options=TextOptions(**options))
    table = source.table()
    found = {}
    for d, name in enumerate(table.names):
        if not table.missing_of[d]:
            listed = [table.decoded(d, value) for value in table.values[:, d]]
            gaps = ~table.observed(d) if not table.categorical[d] else [one == "missing" for one in listed]
            found[name] = [None if gap else one for one, gap in zip(listed, gaps, strict=True)]
    return found


def names(path, **options) -> tuple[str, ...]:
    return open_value(path, "x", TextOptions(**options)).names


def complaint(path, **options) -> str:
    with pytest.raises(ValueError, match=r"; |takes") as caught:  # with a remedy
        columns(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


# What is read.

KINDS = ["t.csv", "T.CSV", "t.txt", "t", "t.tsv", "t.csv.gz", "t.parquet", "t.pq", "t.feather", "t.arrow"]


def as_bytes(table: pl.DataFrame, name: str) -> bytes:
    """A table in the format that a name stands for."""
    plain = name.lower().removesuffix(".gz")
    ending = plain.rpartition(".")[2] if "." in plain else "csv"
    kind = {"parquet": "parquet", "pq": "parquet", "feather": "ipc", "arrow": "ipc", "ipc": "ipc"}.get(ending)
    kind = kind or {"jsonl": "ndjson", "ndjson": "ndjson", "json": "json"}.get(ending, "csv")
    buffer = io.BytesIO()
    getattr(table, f"write_{kind}")(buffer, **({"separator": "\t"} if ending == "tsv" else {}))
    return gzip.compress(buffer.getvalue()) if name.endswith("gz") else buffer.getvalue()


@pytest.mark.parametrize("name", [*KINDS, "t.ipc", "t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz"])
def test_every_kind_gives_the_same_table(written, name):
    assert columns(written(as_bytes(TABLE, name), name)) == COLUMNS


@pytest.mark.parametrize("kind", ["t.csv", "t.csv.gz"])
def test_standard_input_and_pipes(monkeypatch, tmp_path, kind):
    content = as_bytes(TABLE, kind)

    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr("sys.stdin", Stdin)
    assert columns("-") == COLUMNS
    os.mkfifo(tmp_path / "pipe.csv")
    writer = threading.Thread(target=(tmp_path / "pipe.csv").write_bytes, args=(content,))
    writer.start()
    assert columns(tmp_path / "pipe.csv") == COLUMNS
    writer.join()


def test_the_whole_column_decides_what_it_is(written):
    rows = "\n".join(["1,u"] * 2_000 + ["1.5,v"])
    found = columns(written(f"late,text\n{rows}\n"))
    assert (found["late"][-1], found["text"][-1]) == (1.5, "v")
    lines = ['{"a": 1}'] * 2_000 + ['{"a": 1.5, "b": "x"}', '{"a": 1.5, "b": "x"}']
    found = columns(written("\n".join(lines), "t.jsonl"))
    assert (found["a"][-1], found["b"].count("x")) == (1.5, 2)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.feather", "t.jsonl", "t.json"])
def test_missing_tokens_and_spaces(written, name):
    """Empty text and what the user says are missing in every format, NA and its like in text formats."""
    frame = pl.DataFrame({"v": ["2", "1 ", "", "?", " 2"], "w": [" a", "b ", "N/A", " ", "a"]})
    found = columns(written(as_bytes(frame, name), name), keep=["w"], missing=("?",))
    token = None if name in ("t.csv", "t.tsv") else "N/A"
    assert found == {"v": [2, 1, None, None, 2], "w": ["a", "b", token, None, "a"]}


def test_every_missing_token_of_text_formats(written):
    tokens = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", ""]
    lines = "\n".join(f"{token},{k}" for k, token in enumerate([*tokens, "2.5", "-1"]))
    assert columns(written(f"a,b\n{lines}\n"))["a"] == [None] * len(tokens) + [2.5, -1]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl"])
def test_names_are_those_of_every_kind(written, name):
    frame = pl.DataFrame({"": [1.5, 1.5], " a ": [2.5, 1.0]})
    assert columns(written(as_bytes(frame, name), name)) == {"unnamed 1": [1.5, 1.5], "a": [2.5, 1.0]}
    assert names(written(",a\n0,7\n1,8\n")) == ("unnamed 1", "a")


def test_columns_as_text_stay_as_they_are_written(written):
    found = columns(written("a,b\nTRUE, 1.50\nfalse,NA\n"), as_text=("a", "b"))
    assert found == {"a": ["TRUE", "false"], "b": ["1.50", None]}


def test_declared_categories_keep_their_words(tmp_path):
    words = pl.Series("w", ["NA", " a", "b"], dtype=pl.Categorical)
    words.to_frame().write_parquet(tmp_path / "t.parquet")
    assert columns(tmp_path / "t.parquet") == {"w": ["NA", " a", "b"]}


def test_true_and_false(written):
    assert columns(written("a\nTrue\nfalse\nNA\n"))["a"] == [1, 0, None]


def test_delimiters_and_decimal_commas(written):
    path = written("a;b\n1,5;2\n-,25;3\n")
    assert columns(path, delimiter=";")["a"] == [1.5, -0.25]
    path = written("a;b\n1,234;2\n1,235;3\n")
    assert "commas could separate thousands or decimals" in complaint(path, delimiter=";")
    assert columns(path, delimiter="semicolon", decimal_comma=True)["a"] == [1.234, 1.235]
    assert columns(written("a\tb\n1\t2\n"), delimiter="tab") == {"a": [1], "b": [2]}
    assert columns(written("a|b\n1|2\n"), delimiter="|") == {"a": [1], "b": [2]}


def test_quotes_line_ends_and_byte_order_mark(written):
    expected = {"a": ["x, y", 'say "no"'], "b": [1, 2]}
    for end in ("\n", "\r\n"):
        text = end.join(["a,b", '"x, y",1', '"say ""no""",2', ""])
        assert columns(written("\ufeff" + text), keep=["a"]) == expected
    assert "ends its lines with \\r alone" in complaint(written("a,b\r1,2\r"))


def test_empty_lines_and_columns_of_nothing_are_not_data(written):
    found = columns(written("\na,b,\n1,2,\n\n3,4,\n,,\n\n"))  # a line of empty fields is a row
    assert found == {"a": [1, 3, None], "b": [2, 4, None]}
    assert columns(written("a\n1\n\n3\n\n\n")) == {"a": [1, 3]}


def test_no_header(written):
    assert columns(written("1.5,2\n3,4\n"), header=False) == {"column 1": [1.5, 3.0], "column 2": [2, 4]}
    assert names(written("2019,2020\n1,2\n")) == ("2019", "2020")  # years are names


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
        (b"a,b\n,\n", r"t.csv has no column that can be compared \('a': it is empty\); give one of"),
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
    assert re.search(message, complaint(written(content)))


def test_a_name_with_another_delimiter_in_it_is_fine(written):
    assert names(written("income; net\n1\n2\n")) == ("income; net",)


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


def test_damaged_files_are_one_line(written, capfd):
    rng = np.random.default_rng(0)
    for name in ("t.feather", "t.parquet", "t.jsonl", "t.csv.gz"):
        whole = as_bytes(TABLE, name)
        for k in range(60):
            data = bytearray(whole[: rng.integers(1, len(whole))] if k % 2 else whole)
            for place in rng.integers(0, len(data), 6):
                data[place] = rng.integers(256)
            with suppress(ValueError, TypeError):  # and nothing else
                columns(written(bytes(data), name))
    assert capfd.readouterr() == ("", "")


# Quotes, long fields, devices, bombs.


def test_a_quote_inside_a_field_is_a_quote(written):
    found = columns(written('5" pipe,b "x" c\n1,x"y\n2,z"w"\n3,"say ""no"""\n'), keep=['b "x" c'])
    assert found == {'5" pipe': [1, 2, 3], 'b "x" c': ['x"y', 'z"w"', 'say "no"']}
    assert columns(written('"a ""b""",c\n1,2\n')) == {'a "b"': [1], "c": [2]}
    assert columns(written('"a\nb",c\n1,2\n')) == {"a\nb": [1], "c": [2]}  # a name of two lines
    assert columns(written("a\u2028b\x0b,c\n1,2\n")) == {"a\u2028b": [1], "c": [2]}  # and of one


def test_a_field_may_be_long(written):
    before = csv.field_size_limit()
    long = "x" * 200_000
    for table in (f"a,b\n{long},1\ny,2\n", f'{long},b\ny"z,1\n', f"{long},b\ny,1\n"):
        found = columns(written(table), keep=["a", long])
        assert long in (*found, next(iter(found.values()))[0])
    assert csv.field_size_limit() == before
    assert "line 3 of" in complaint(written(f"a,b\n{long},1\n3,4,5\n"))


def test_limits(written, monkeypatch):
    class Endless:
        def read(self, size):
            return b"1,2\n" * (size // 4)

    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": Endless()}))
    monkeypatch.setattr("kembed.tables.files.MOST", 10 * 1024**2)
    assert "standard input is more than 0.00977 GiB, which is the limit; give a file" in complaint("-")
    assert "is a device and no table; give a file" in complaint("/dev/zero")
    assert "cannot be read" in complaint("a\0b.csv")


def test_names_are_names_and_no_patterns(written):
    path = written("^b.*$,*,b,\n1,2,3,\n4,5,6,\n")
    assert columns(path) == {"^b.*$": [1, 4], "*": [2, 5], "b": [3, 6]}
    (source,) = read({"x": path}, columns=["*", "^b.*$"])
    assert source.table().values.tolist() == [[2, 1], [5, 4]]


def test_places(tmp_path, written):
    assert "is a folder" in complaint(tmp_path)
    written("a\n1\n", "heights.csv")
    assert complaint(tmp_path / "hieghts.csv").endswith("heights.csv")
    assert "does not exist; check the name" in complaint(tmp_path / "nowhere" / "t.csv")
    assert "\\x1b[31m" in complaint(tmp_path / "\x1b[31m.csv")  # a name cannot paint the terminal


def test_options(written):
    path = written(TABLE.write_csv())
    assert "--delimiter takes one character, or 'tab', but ';;' was given" in complaint(path, delimiter=";;")
