"""One table, many sources: the schema, the notes and the p-value do not depend on where the rows come from.

Real tables of scikit-learn, statsmodels and kembed, with columns derived from them (identifiers, row numbers,
dates, booleans, categories, gaps), are written in every format, in one file and in two, and given as every
kind of table in memory. KEMBED_THOROUGH=1 asks the other functions about every table and source too.
"""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import datasets
from statsmodels import datasets as more_datasets

import kembed
from kembed.cli import run

THOROUGH = os.environ.get("KEMBED_THOROUGH") == "1"
EXCEL = any(importlib.util.find_spec(name) for name in ("fastexcel", "openpyxl"))
ROWS = 150  # of both samples together
INDICATOR = "{} (missing)"  # the column that says where another is missing
TEST = {"kernel": "median", "n_resamples": 99, "rng": 0, "by_column": True, "nan_policy": "include"}


# The tables. Columns are numbers unless their kind is given.


def sklearn_table(name: str, *columns: str, **options: Any) -> tuple[pl.DataFrame, np.ndarray]:
    bunch = getattr(datasets, f"load_{name}")(as_frame=True, **options)
    return pl.from_pandas(bunch.data[list(columns)]), np.asarray(bunch.target)


def statsmodels_table(name: str, *columns: str) -> pl.DataFrame:
    frame = getattr(more_datasets, name).load_pandas().data.reset_index()
    return pl.from_pandas(frame[list(columns)])


def gaps(column: str, every: int, first: int = 0) -> pl.Expr:
    """The column without every `every`-th of its values."""
    return pl.when(pl.int_range(pl.len()) % every != first).then(pl.col(column)).alias(column)


def named(codes: Any, *names: str) -> pl.Series:
    return pl.Series([names[int(code)] for code in codes])


def iris() -> pl.DataFrame:
    frame, target = sklearn_table("iris", "sepal length (cm)", "sepal width (cm)", "petal length (cm)")
    species = named(target, "setosa", "versicolor", "virginica").cast(pl.Categorical)
    plants = pl.Series([f"plant {k}" for k in range(frame.height)])
    frame = frame.with_columns(plants.alias("plant"), species.alias("species"))
    return frame.with_columns(gaps("sepal width (cm)", 9), long=pl.col("petal length (cm)") > 4)


def wine() -> pl.DataFrame:
    frame, target = sklearn_table("wine", "alcohol", "malic_acid", "proline")
    rows = pl.Series("rownames", np.arange(1, frame.height + 1))
    cultivar = named(target, "barolo", "grignolino", "barbera").alias("cultivar")
    return frame.select(rows, pl.all(), cultivar).with_columns(pl.col("proline").cast(pl.Int64))


def breast_cancer() -> pl.DataFrame:
    frame, target = sklearn_table("breast_cancer", "mean radius", "mean texture")
    frame = frame.with_columns(pl.Series("malignant", target == 0), pl.col("mean texture").cast(pl.Float32))
    patients = pl.Series("patient", [f"{k:x}-{k % 7}-b" for k in range(900, 900 + frame.height)])
    return frame.with_columns(gaps("malignant", 11, 3), patients)


def diabetes() -> pl.DataFrame:
    frame, target = sklearn_table("diabetes", "age", "sex", "bmi", "s1", scaled=False)
    visits = [date(1990, 1, 1) + timedelta(days=int(value)) for value in frame["s1"]]
    frame = frame.with_columns(pl.Series("visit", visits), pl.Series("progression", target))
    return frame.with_columns(gaps("visit", 13), gaps("bmi", 8), pl.col("sex").cast(pl.Int8))


def digits() -> pl.DataFrame:
    frame, target = sklearn_table("digits", "pixel_0_0", "pixel_3_4", "pixel_5_2")
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    digit = named(target, *words).cast(pl.Enum(words))
    return frame.with_columns(pl.all().cast(pl.UInt8), digit.alias("digit"))


def linnerud() -> pl.DataFrame:
    frame, target = sklearn_table("linnerud", "Chins", "Situps", "Jumps")
    return frame.with_columns(pl.Series("weight", target[:, 0]), pl.Series("heavy", target[:, 0] > 175))


def ozone() -> pl.DataFrame:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    frame = kembed.load_ozone().select("date", "weekday", "ozone", "temp", "wind")
    return frame.with_columns(gaps("temp", 10), named(frame["weekday"] - 1, *days).alias("weekday"))


def fertility() -> pl.DataFrame:
    """Gaps of its own, two identifiers, a column with one value and an empty one."""
    columns = ("Country Name", "Country Code", "Indicator Name", "1960", "1990", "2013")
    frame = statsmodels_table("fertility", *columns).with_columns(pl.col("2013").cast(pl.Float64))
    return frame.rename({year: f"rate in {year}" for year in columns[3:]})


def co2() -> pl.DataFrame:
    """Gaps of its own, and moments."""
    frame = statsmodels_table("co2", "index", "co2").rename({"index": "week"}).head(400)
    season = named((frame["week"].dt.month() - 1) // 3, "winter", "spring", "summer", "autumn")
    return frame.with_columns(pl.col("week").cast(pl.Datetime("us")), season.alias("season"))


def statecrime() -> pl.DataFrame:
    frame = statsmodels_table("statecrime", "state", "violent", "murder", "urban")
    return frame.with_columns(gaps("murder", 6), urban=pl.col("urban") > 70)


def grunfeld() -> pl.DataFrame:
    frame = statsmodels_table("grunfeld", "firm", "year", "invest", "value")
    year = pl.date(pl.col("year").cast(pl.Int32), 12, 31).alias("year")
    return frame.with_columns(gaps("firm", 15), year, gaps("invest", 12, 5))


def macrodata() -> pl.DataFrame:
    frame = statsmodels_table("macrodata", "year", "quarter", "realgdp", "unemp")
    first = pl.datetime(pl.col("year").cast(pl.Int32), 3 * pl.col("quarter").cast(pl.Int32) - 2, 1, 12)
    season = named(frame["quarter"] - 1, "first", "second", "third", "fourth").cast(pl.Categorical)
    return frame.select(first.alias("quarter"), season.alias("season"), "realgdp", gaps("unemp", 9))


def modechoice() -> pl.DataFrame:
    frame = statsmodels_table("modechoice", "individual", "mode", "choice", "ttme", "gc")
    mode = named(frame["mode"] - 1, "air", "train", "bus", "car").alias("mode")
    return frame.with_columns(pl.col("individual").cast(pl.Int32), mode, pl.col("choice") == 1, gaps("gc", 7))


def randhie() -> pl.DataFrame:
    frame = statsmodels_table("randhie", "mdvis", "idp", "disea", "hlthp").gather_every(40)
    rows = pl.Series("Unnamed: 0", np.arange(frame.height))
    return frame.select(rows, "mdvis", pl.col("idp") == 1, "disea", "hlthp").with_columns(gaps("mdvis", 8))


def heart() -> pl.DataFrame:
    frame = statsmodels_table("heart", "survival", "censors", "age")
    operated = [datetime(1967, 1, 1, k % 24, 30) + timedelta(days=25 * k) for k in range(frame.height)]
    frame = frame.with_columns(pl.col("censors") == 1, pl.Series("operated", operated))
    return frame.with_columns(gaps("operated", 14))


def anes96() -> pl.DataFrame:
    frame = statsmodels_table("anes96", "popul", "PID", "age", "income", "vote")
    vote = named(frame["vote"], "Clinton, Bill", 'Dole, "Bob"').alias("vote")
    frame = frame.with_columns(pl.col("PID").cast(pl.Int64), vote, gaps("income", 9))
    return frame.with_columns(gaps("PID", 12))


LEFT_OUT, CATEGORY = "left out", "category"
TABLES: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, str]]] = {
    "iris": (iris, {"plant": LEFT_OUT, "species": CATEGORY}),
    "wine": (wine, {"rownames": LEFT_OUT, "cultivar": CATEGORY}),
    "breast_cancer": (breast_cancer, {"patient": LEFT_OUT}),
    "diabetes": (diabetes, {}),
    "digits": (digits, {"digit": CATEGORY}),
    "linnerud": (linnerud, {}),
    "ozone": (ozone, {"weekday": CATEGORY}),
    "fertility": (
        fertility,
        {
            "Country Name": LEFT_OUT,
            "Country Code": LEFT_OUT,
            "Indicator Name": CATEGORY,
            "rate in 2013": LEFT_OUT,
        },
    ),
    "co2": (co2, {"season": CATEGORY}),
    "statecrime": (statecrime, {"state": LEFT_OUT}),
    "grunfeld": (grunfeld, {"firm": CATEGORY}),
    "macrodata": (macrodata, {"season": CATEGORY}),
    "modechoice": (modechoice, {"mode": CATEGORY}),
    "randhie": (randhie, {"Unnamed: 0": LEFT_OUT}),
    "heart": (heart, {}),
    "anes96": (anes96, {"vote": CATEGORY}),
}


def samples(name: str) -> dict[str, pl.DataFrame]:
    """Two random samples of a table."""
    frame = TABLES[name][0]()
    order = np.random.default_rng(5).permutation(frame.height)[:ROWS]
    return {"x": frame[order[: len(order) // 2]], "y": frame[order[len(order) // 2 :]]}


# The sources.


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Dates and moments as ISO text, which is how JSON has them."""
    moments = [name for name, kind in frame.schema.items() if kind.is_temporal()]
    return frame.with_columns(pl.col(name).dt.to_string("iso") for name in moments)


def write_excel(frame: pl.DataFrame, path: Path) -> None:
    """One sheet of inline strings, numbers, booleans and serial dates: no library is needed to write that."""
    day, styles = datetime(1899, 12, 30), {date: 1, datetime: 2}

    def cell(value: Any) -> str:
        if value is None:
            return "<c/>"
        if isinstance(value, bool):
            return f'<c t="b"><v>{value:d}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        if isinstance(value, date):
            start = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
            return f'<c s="{styles[type(value)]}"><v>{(start - day) / timedelta(days=1)!r}</v></c>'
        return f"<c><v>{value!r}</v></c>"

    rows = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in [frame.columns, *frame.rows()])
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    formats = "".join(f'<xf numFmtId="{number}" applyNumberFormat="1"/>' for number in (0, 14, 22))
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/>'
            f'<Override PartName="/xl/styles.xml" ContentType="{kind}.styles+xml"/></Types>',
        )
        links = f'<Relationships xmlns="{package}/relationships">'
        link = f'<Relationship Id="%s" Type="{office}/%s" Target="%s"/>'
        top = links + link % ("r1", "officeDocument", "xl/workbook.xml") + "</Relationships>"
        book.writestr("_rels/.rels", top)
        inner = link % ("r1", "worksheet", "worksheets/sheet1.xml") + link % ("r2", "styles", "styles.xml")
        book.writestr("xl/_rels/workbook.xml.rels", f"{links}{inner}</Relationships>")
        sheet = '<sheet name="data" sheetId="1" r:id="r1"/>'
        workbook = f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{sheet}</sheets></workbook>'
        book.writestr("xl/workbook.xml", workbook)
        book.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{main}"><fonts count="1"><font/></fonts><fills count="1"><fill/></fills>'
            f'<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
            f'<cellXfs count="3">{formats}</cellXfs></styleSheet>',
        )
        sheet = f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
        book.writestr("xl/worksheets/sheet1.xml", sheet)


def write_gzip(frame: pl.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.write_csv().encode()))


WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "csv.gz": write_gzip,
    "ndjson": lambda frame, path: as_text(frame).write_ndjson(path),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "feather": lambda frame, path: frame.write_ipc(path),
    "xlsx": write_excel,
}


def write(name: str, suffix: str, folder: Path) -> None:
    """Both samples in a file each, and each in two files."""
    for label, frame in samples(name).items():
        cut = frame.height // 3
        parts = {
            f"{label}.{suffix}": frame,
            f"{label}-1.{suffix}": frame[:cut],
            f"{label}-2.{suffix}": frame[cut:],
        }
        for file, part in parts.items():
            WRITERS[suffix](part, folder / file)


def files(name: str, suffix: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The sources that are files of one format."""
    write(name, suffix, folder)
    for pattern in (f"%s.{suffix}", f"%s-*.{suffix}"):
        yield pattern % "x", [str(folder / (pattern % label)) for label in "xy"]
    if suffix == "csv":
        yield "a list of paths", [[folder / f"{label}-{part}.csv" for part in (1, 2)] for label in "xy"]
        yield "pandas of CSV", [pd.read_csv(folder / f"{label}.csv") for label in "xy"]
        yield "polars of CSV", [pl.read_csv(folder / f"{label}.csv") for label in "xy"]
        yield "polars that scans CSV", [pl.scan_csv(folder / f"{label}-*.csv") for label in "xy"]
    if suffix == "parquet":
        yield "polars that scans Parquet", [pl.scan_parquet(folder / f"{label}-*.parquet") for label in "xy"]
        yield "Dask that reads Parquet", [dd.read_parquet(folder / f"{label}-*.parquet") for label in "xy"]


def in_memory(name: str) -> Iterator[tuple[str, Any]]:
    """The sources that are tables in memory, and lazy ones of them."""
    frames = list(samples(name).values())
    cut = frames[0].height // 3
    yield "polars", frames
    yield "lazy polars", [frame.lazy() for frame in frames]
    yield "pandas", [frame.to_pandas() for frame in frames]
    yield "pandas of Arrow types", [frame.to_pandas(use_pyarrow_extension_array=True) for frame in frames]
    yield "Arrow", [frame.to_arrow() for frame in frames]
    yield (
        "Arrow in two chunks",
        [pl.concat([one[:cut], one[cut:]], rechunk=False).to_arrow() for one in frames],
    )
    yield "a dictionary of lists", [frame.to_dict(as_series=False) for frame in frames]
    yield "Dask", [dd.from_pandas(frame.to_pandas(), npartitions=2, sort=False) for frame in frames]


# What must be the same.


def answer(result: dict[str, Any], sizes: Any) -> dict[str, Any]:
    """What a result says: its columns, their kinds, the notes and the p-values."""
    columns = [(column["name"], column["pvalue"]) for column in result["by_column"]]
    return {
        "columns": columns,
        "kernel": result[
            "kernel_used"
        ],  # which columns are numbers, how far apart; how many levels others have
        "notes": sorted(result["notes"]),
        "sizes": list(sizes),
        "pvalue": result["pvalue"],
    }


def differences(found: dict[str, dict[str, Any]], wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By source, what is not as wanted: what it is, and what it should be."""
    wrong = {
        source: {key: (value[key], wanted[key]) for key in wanted if value[key] != wanted[key]}
        for source, value in found.items()
    }
    return {source: keys for source, keys in wrong.items() if keys}


def python_answer(pair: Any, **options: Any) -> dict[str, Any]:
    outcome = kembed.mmd_test(*pair, **{**TEST, **options})
    return answer(outcome.to_dict(), outcome.sizes)


def shell_answer(folder: Path, pattern: str) -> dict[str, Any]:
    """The same question to the command line, whose notes have the names of files."""
    names = [pattern % label for label in "xy"]
    out, err = io.StringIO(), io.StringIO()
    options = ["--kernel=median", "--resamples=99", "--seed=0", "--by-column", "--json", "--missing=include"]
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["test", *names, *options])
    assert code == 0, err.getvalue()
    result = json.loads(out.getvalue())
    for label, name in zip("xy", names, strict=True):
        result["notes"] = [note.replace(name, label) for note in result["notes"]]
    return answer(result, [sample["used"] for sample in result["samples"]])


def kinds(result: kembed.TestOutcome) -> dict[str, str]:
    """What every column was taken for, as the kernel shows it."""
    categories: list[int] = []
    for part in getattr(result.kernel, "kernels", [result.kernel]):
        if isinstance(part, kembed.OnColumns) and isinstance(part.kernel, kembed.Delta):
            categories += list(part.columns)
        assert not isinstance(part, kembed.Delta)  # of all columns: every table here has numbers
    names = [column.name for column in result.columns or ()]
    return {name: CATEGORY if place in categories else "number" for place, name in enumerate(names)}


@pytest.fixture(scope="module")
def expected() -> Callable[[str], dict[str, Any]]:
    """The answer of a table in memory, computed once."""
    kept: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        if name not in kept:
            kept[name] = python_answer(samples(name).values())
        return kept[name]

    return of


# The tests.

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's own, of pandas 3.1


@pytest.mark.parametrize("name", TABLES)
def test_a_column_is_what_it_was_made_to_be(name):
    frames = samples(name)
    result = kembed.mmd_test(*frames.values(), **TEST)
    wanted = {column: TABLES[name][1].get(column, "number") for column in frames["x"].columns}
    found = kinds(result)
    assert {column: found.get(column, LEFT_OUT) for column in wanted} == wanted
    for column, kind in wanted.items():
        noted = any(note.startswith(f"column {column!r} is left out: ") for note in result.notes)
        assert noted == (kind == LEFT_OUT), (column, result.notes)
    gappy = [
        column
        for column, kind in wanted.items()
        if kind == "number" and any(frame[column].null_count() for frame in frames.values())
    ]
    assert [column for column in gappy if INDICATOR.format(column) not in found] == []
    assert result.sizes == tuple(frame.height for frame in frames.values())


@pytest.mark.parametrize("name", TABLES)
def test_tables_in_memory_have_one_answer(name, expected):
    found = {source: python_answer(pair) for source, pair in in_memory(name)}
    assert differences(found, expected(name)) == {}


@pytest.mark.parametrize("name", TABLES)
def test_files_have_the_answer_of_tables_in_memory(name, expected, tmp_path):
    found = {}
    for suffix in WRITERS:
        if suffix != "xlsx":
            found |= {source: python_answer(pair) for source, pair in files(name, suffix, tmp_path)}
    assert differences(found, expected(name)) == {}


@pytest.mark.skipif(not EXCEL, reason="nothing that reads Excel files is installed (fastexcel or openpyxl)")
@pytest.mark.parametrize("name", TABLES)
def test_excel_has_the_answer_of_tables_in_memory(name, expected, tmp_path):
    found = {source: python_answer(pair) for source, pair in files(name, "xlsx", tmp_path)}
    assert differences(found, expected(name)) == {}


@pytest.mark.parametrize("name", TABLES)
def test_the_command_line_has_the_answer_of_python(name, expected, tmp_path):
    patterns = ("%s.csv", "%s-*.csv", "%s.parquet", "%s-*.parquet", "%s.ndjson")
    for suffix in ("csv", "parquet", "ndjson"):
        write(name, suffix, tmp_path)
    found = {pattern: shell_answer(tmp_path, pattern) for pattern in patterns}
    for shown in (*found.values(), wanted := dict(expected(name))):  # what it says of columns
        shown["notes"] = [note for note in shown["notes"] if note.startswith("column ")]
    assert differences(found, wanted) == {}


@pytest.mark.parametrize("name", TABLES if THOROUGH else ("ozone", "fertility"))
def test_every_function_has_one_answer_for_every_source(name, tmp_path):
    """`compare`, the default kernel, several samples and independence."""
    label = next(
        c for c, kind in samples(name)["x"].schema.items() if kind.is_numeric() and c not in TABLES[name][1]
    )
    other = next(c for c in samples(name)["x"].columns if c != label and TABLES[name][1].get(c) != LEFT_OUT)
    resampling = {"n_resamples": 19, "nan_policy": "include"}

    def answers(pair: Any) -> dict[str, Any]:
        x, y = pair
        compared = kembed.compare(x, y, kernel="median", n_resamples=19).to_dict()
        columns = {
            column["name"]: (column["categorical"], column["missing"], column["unit"], column["pvalue"])
            for column in compared["by_column"]
        }
        fused = kembed.mmd_test(x, y, rng=0, **resampling)
        several = kembed.k_sample_test(x, y, x, kernel="median", rng=0, **resampling)
        together = kembed.hsic_test(label, other, data=x, kernel="median", rng=0, **resampling)
        return {
            "compare": (compared["pvalue"], compared["samples"], compared["verdict"], columns),
            "mmd_test": (fused.pvalue, fused.sizes, fused.notes),
            "k_sample_test": (several.pvalue, sorted(getattr(several, "notes", ()))),
            "hsic_test": (together.pvalue, together.sizes),
        }

    wanted = answers(samples(name).values())
    sources = (
        dict(in_memory(name)) | dict(files(name, "csv", tmp_path)) | dict(files(name, "parquet", tmp_path))
    )
    chosen = sources if THOROUGH else ("pandas", "x-*.csv", "x.parquet", "lazy polars")
    assert differences({source: answers(sources[source]) for source in chosen}, wanted) == {}


def test_there_are_as_many_tables_as_promised():
    assert len(TABLES) >= 12
