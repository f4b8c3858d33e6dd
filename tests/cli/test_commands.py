"""The command line: answers that agree with the library, one-line errors, exit codes, whole files."""

import html
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import kembed
from kembed.cli import options, run, tour
from kembed.cli.app import COMMANDS
from kembed.cli.samples import load_samples
from kembed.cli.screen import Screen
from kembed.core.progress import progress_bar, showing_progress
from kembed.kernels.space import make_space
from kembed.learning.kernel_words import WORDS, choose_kernel

ROWS = 60
QUICK = ("--kernel", "median", "--resamples", "39")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two samples that differ in v alone, and files with one fault each."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)

    def write(file: str, **columns: object) -> None:
        pl.DataFrame(columns).write_csv(folder / file)

    v, w = rng.normal(size=(2, ROWS))
    city = rng.choice(["Rome", "Oslo"], ROWS).tolist()
    other = rng.normal(2.0, size=ROWS)
    write("before.csv", v=v, w=w, city=city)
    write("after.csv", v=other, w=rng.permutation(w) + 0.3 * np.cos(np.arange(ROWS)), city=city)
    write(
        "both.csv",
        v=[*v, *other],
        side=["a"] * ROWS + ["b"] * ROWS,
        year=[2019, 2020, 2021] * (ROWS // 3 * 2),
    )
    write("numbered.csv", id=range(ROWS), name=[f"n{k}" for k in range(ROWS)], v=v, extra=w)
    write("missing.csv", v=[None if k % 6 == 0 else value for k, value in enumerate(v)], w=w, city=city)
    write("infinite.csv", v=[np.inf if k == 3 else value for k, value in enumerate(v)], w=w, city=city)
    write("units.csv", v=[f"{value:.1f} kg" for value in v], w=w, city=city)
    write("gauge.csv", level=[0.5, 10.0, 2.0] * (ROWS // 3), v=v)
    write("one.csv", v=[1.0], w=[2.0], city=["Rome"])
    write("singles.csv", v=[1.0, 2.0, 3.0], who=["anna", "bert", "bert"])
    (folder / "before.doc").write_text("v\n1\n2\n")
    write("capitals.csv", V=v)
    write("words.csv", name=[f"n{k}" for k in range(ROWS)])
    write("ring.csv", s=np.sin(np.arange(ROWS)), c=np.cos(np.arange(ROWS)), noise=w)
    write("odd.csv", **{"\x1b[31mred\x1b[0m [bold]": v})
    (folder / "empty.csv").touch()
    (folder / "folder").mkdir()
    when = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 29), eager=True)
    pl.DataFrame({"v": v, "when": when}).write_parquet(folder / "dates.parquet")
    pl.DataFrame({"v": [[1], [2]] * 30}).write_parquet(folder / "nested.parquet")
    write("numbers.csv", v=v, when=w)
    write("shuffled.csv", v=["a", "b"] * (ROWS // 2), w=w, city=city)
    return folder


# kembed test.


def test_the_verdict_comes_first(call):
    code, out, err = call("test", "before.csv", "after.csv", *QUICK)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "The two samples differ: p = 0.025 (smallest attainable with 39 resamples)."
    assert "before.csv   60 rows" in lines
    assert "columns      v, w, city" in lines
    assert lines[-1] == "  kembed test before.csv after.csv --kernel median --resamples 39 --seed 0"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out


def test_no_difference_is_not_a_proof(call):
    code, out, _ = call("test", "before.csv", "after.csv", "--columns", "w", *QUICK, "--alpha", "0.03")
    assert code == 0
    assert out.startswith("No difference was found at the 3% level: p = ")
    assert out.splitlines()[0].endswith("This does not prove they are the same.")


@pytest.mark.parametrize("kernel", ["fused", "median", "1.5"])
def test_json_is_what_the_library_says(answer, place, kernel):
    found = answer("test", "before.csv", "after.csv", "--kernel", kernel, "--resamples", "99", "--seed", "7")
    x, y = (pl.read_csv(place / name) for name in ("before.csv", "after.csv"))
    given = kembed.Gaussian(1.5) if kernel == "1.5" else kernel
    direct = kembed.mmd_test(x, y, kernel=given, n_resamples=99, rng=7)
    assert found["pvalue"] == direct.pvalue
    assert found["statistic"] == pytest.approx(direct.statistic, rel=1e-12)
    assert found["differ"] is True
    assert found["seed"] == 7
    assert found["kembed"] == kembed.__version__
    assert found["samples"][1] == {"name": "after.csv", "rows": ROWS, "used": ROWS}


def test_by_column(answer, call):
    columns = answer("test", "before.csv", "after.csv", "--by-column", *QUICK)["by_column"]
    assert {one["name"] for one in columns if one["adjusted_pvalue"] <= 0.05} == {"v"}
    _, out, _ = call("test", "before.csv", "after.csv", "--by-column", *QUICK)
    rows = [line.split() for line in out.splitlines()]
    assert ["v", "0.025", "0.025"] in rows


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["before.csv", "after.csv"], 1), (["before.csv", "before.csv"], 0)],
)
def test_fail_on_difference(call, arguments, code):
    assert call("test", *arguments, *QUICK, "--fail-on-difference")[0] == code
    assert call("test", *arguments, *QUICK, "--fail-on-difference", "--json")[0] == code
    assert call("test", *arguments, *QUICK)[0] == 0


def test_quiet_prints_the_verdict_only(call):
    code, out, err = call("test", "before.csv", "after.csv", *QUICK, "--quiet")
    assert (code, out.count("\n"), err) == (0, 1, "")


def test_quiet_does_not_hide_what_is_left_out(call):
    code, out, err = call("test", "numbered.csv", "after.csv", *QUICK, "--quiet")
    assert (code, out.count("\n")) == (0, 1)
    only = "only numbered.csv has 'id', 'name', 'extra' and only after.csv has 'w', 'city'"
    assert out.startswith(f"The columns differ: {only}. ")
    assert "column 'extra' is left out: only numbered.csv has it" in err
    assert "Left out: 'name'." in call("test", "numbered.csv", "numbered.csv", *QUICK, "--quiet")[1]


def test_groups_of_one_file_are_two_files(answer, place):
    grouped = answer("test", "both.csv", "--group", "side", "--columns", "v", *QUICK)
    apart = answer("test", "before.csv", "after.csv", "--columns", "v", *QUICK)
    assert grouped["pvalue"] == apart["pvalue"]
    assert grouped["effect_of_kernel"] == pytest.approx(apart["effect_of_kernel"], rel=1e-12)
    assert [sample["name"] for sample in grouped["samples"]] == ["side=a", "side=b"]
    assert "side" not in grouped["columns"]
    years = answer("test", "both.csv", "--group", "year", "--groups", "2021,2019", *QUICK)
    assert [sample["name"] for sample in years["samples"]] == ["year=2021", "year=2019"]
    assert [sample["rows"] for sample in years["samples"]] == [40, 40]


def test_columns_that_cannot_be_compared_are_left_out_and_told(call, answer):
    _, _, err = call("test", "numbered.csv", "numbered.csv", *QUICK)
    assert err.splitlines() == [
        "note: numbered.csv and numbered.csv are the same file, so they cannot differ",
        "note: column 'name' is left out: every value is different, as in an identifier",
        "note: column 'id' looks like a row number (it counts up by 1); consider excluding it",
        "note: numbered.csv and numbered.csv have all different rows in common; the test assumes independent "
        "samples, so keep each of these rows in one of them",
    ]
    _, _, err = call("test", "before.csv", "numbered.csv", *QUICK)
    assert "note: column 'w' is left out: only before.csv has it" in err
    found = answer("test", "dates.parquet", "before.csv", *QUICK)
    assert found["columns"] == ["v"]
    assert found["left_out"]["when"] == "only dates.parquet has it"
    found = answer("test", "dates.parquet", "dates.parquet", *QUICK)
    assert (found["columns"], found["left_out"]) == (["v", "when"], {})
    named = answer("test", "numbered.csv", "numbered.csv", "--columns", "id,v", *QUICK)
    assert named["columns"] == ["id", "v"]  # asked for by name


def test_missing_values(call, answer):
    code, out, err = call("test", "missing.csv", "after.csv", "--missing", "raise", *QUICK)
    assert (code, out) == (2, "")
    assert "missing.csv has missing values in 10 of 60 rows (first: row 1), by column 'v': 10; " in err
    assert "leave those rows out (nan_policy='omit', --missing omit)" in err
    found = answer("test", "missing.csv", "after.csv", "--missing", "omit", *QUICK)
    assert [sample["used"] for sample in found["samples"]] == [50, 60]
    assert "10 of 60 rows of missing.csv have missing values and are left out ('v': 10)" in found["notes"]
    assert found["verdict"].endswith(" Rows used: 50 of 60 of missing.csv.")
    found = answer("test", "missing.csv", "after.csv", *QUICK)
    assert [sample["used"] for sample in found["samples"]] == [60, 60]
    assert found["columns"] == ["v", "w", "city"]


def test_units_are_not_interpreted(call, answer):
    code, _, err = call("test", "units.csv", "units.csv", *QUICK)
    assert code == 2
    assert "column 'v' of units.csv and units.csv looks numeric but does not read as numbers or dates" in err
    assert "--as-text" in err
    assert answer("test", "units.csv", "units.csv", "--as-text", "v", *QUICK)["columns"] == ["v", "w", "city"]


# How numbers are written, in which format, and whether a note says how they were read.
INCOMES = {
    "commas": ("{:,}.5", "csv", True),
    "plain text": ("{}", "parquet", False),
    "decimal commas": ("{},5", "parquet", True),
    "dots": ("{}.000,5", "feather", True),
}


@pytest.mark.parametrize("case", INCOMES)
def test_a_column_of_numbers_is_never_left_out(answer, tmp_path, case):
    form, suffix, told = INCOMES[case]
    paths = []
    for start in (15_000, 75_000) if case == "commas" else (150, 750):
        path = tmp_path / f"{start}.{suffix}"
        frame = pl.DataFrame({"income": [form.format(start + k) for k in range(40)]})
        write = {"csv": frame.write_csv, "tsv": lambda to, f=frame: f.write_csv(to, separator="\t")}
        write |= {"parquet": frame.write_parquet, "feather": frame.write_ipc}
        write[suffix](path)
        paths.append(path)
    found = answer("test", *paths, *QUICK)
    assert (found["columns"], found["left_out"], found["differ"]) == (["income"], {}, True)
    assert any("column 'income' read as " in note for note in found["notes"]) == told


def test_what_only_looks_like_numbers_is_refused(call, answer, tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("v\tw\n" + "".join(f"{k},{k + 100}\t{k}\n" for k in range(1, 40)))
    code, _, err = call("test", path, path, *QUICK)
    assert code == 2
    assert "commas could separate thousands or decimals ('1,101', '10,110', '11,111')" in err
    assert answer("test", path, path, "--columns", "w", *QUICK)["columns"] == ["w"]
    assert answer("test", path, path, "--decimal-comma", *QUICK)["columns"] == ["v", "w"]
    assert answer("test", path, path, "--as-text", "v", "--columns", "v", *QUICK)["columns"] == ["v"]
    words = tmp_path / "words.csv"
    words.write_text("v\n" + "".join(f"{k}\n" for k in range(30)) + "?\n")
    code, _, err = call("test", words, words, *QUICK)
    assert (code, "looks numeric but does not read as numbers or dates ('?'" in err) == (2, True)
    assert call("test", words, words, *QUICK, "--na", "?")[0] == 0


def test_numbers_that_begin_with_0_are_codes(call, answer, tmp_path):
    (tmp_path / "zip.csv").write_text(
        "zip,g\n" + "".join(f"0{k % 5}{k % 3}5,{'ab'[k % 2]}\n" for k in range(40))
    )
    code, _, err = call("test", tmp_path / "zip.csv", "--group", "g", *QUICK)
    assert (code, "column 'zip' of g=a and g=b looks numeric" in err) == (2, True)
    found = answer("test", tmp_path / "zip.csv", "--group", "g", "--as-text", "zip", *QUICK)
    assert found["columns"] == ["zip"]


def test_row_numbers(call, answer, tmp_path):
    for start in (1, 11):
        (tmp_path / f"{start}.csv").write_text("x\n" + "".join(f"{start + k}\n" for k in range(5)))
    found = answer("test", tmp_path / "1.csv", tmp_path / "11.csv", *QUICK)
    assert (found["columns"], found["differ"]) == (["x"], True)
    assert any("column 'x' looks like a row number" in note for note in found["notes"])
    women = tmp_path / "women.csv"  # of R: heights are 58, 59, ..., 72
    rows = zip(range(1, 16), range(58, 73), (115 + 3 * k for k in range(15)), strict=True)
    women.write_text('"rownames","height","weight"\n' + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    found = answer("learn", women)
    assert (found["columns"], list(found["left_out"])) == (["height", "weight"], ["rownames"])
    assert found["verdict"].endswith("Left out: 'rownames'.")
    named = tmp_path / "grouped.csv"
    named.write_text(",g,v\n" + "".join(f"{k},{'ab'[k // 20]},{k % 7}\n" for k in range(40)))
    found = answer("test", named, "--group", "g", *QUICK)
    assert (found["columns"], list(found["left_out"])) == (["v"], ["unnamed 1"])


def test_names_that_polars_takes_for_patterns(answer, tmp_path):
    names = ["^b.*$", "*", "b1"]
    for shift in (0.0, 3.0):
        rows = np.random.default_rng(int(shift)).normal(size=(40, 3)) + np.array([shift, 0.0, 0.0])
        pl.DataFrame(rows, schema=names).write_csv(tmp_path / f"{shift}.csv")
    files = [tmp_path / "0.0.csv", tmp_path / "3.0.csv"]
    for name in names:
        found = answer("test", *files, "--columns", name, *QUICK)
        assert (found["columns"], found["differ"]) == ([name], name == "^b.*$")
    assert answer("test", *files, *QUICK)["columns"] == names
    assert answer("independence", files[0], "--x", "^b.*$", "--y", "*", *QUICK)["x"] == ["^b.*$"]
    heavy = [pl.read_csv(file).with_columns(pl.Series("^w$", [1.0, 2.0] * 20)) for file in files]
    for frame, file in zip(heavy, files, strict=True):
        frame.write_csv(file)
    assert answer("test", *files, "--weights", "^w$", *QUICK)["columns"] == names


def test_names_cannot_paint_the_terminal(call):
    code, out, err = call("test", "odd.csv", "odd.csv", *QUICK, "--by-column")
    assert code == 0
    assert "\x1b" not in out + err
    assert "\\x1b[31mred\\x1b[0m [bold]" in out


# Mistakes: one line with a remedy, and 2.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("test nowhere.csv after.csv", "nowhere.csv does not exist; check the name"),
        ("test before.cvs after.csv", "before.cvs does not exist; check the name, perhaps before.csv"),
        ("test before.doc after.csv", "give CSV, TSV, JSON lines, Excel"),
        ("test folder after.csv", "folder is a folder; give a file in it"),
        ("test empty.csv after.csv", "empty.csv is empty"),
        ("test before.csv", "give a second, or --group COLUMN"),
        ("test - -", "there is one standard input; give a file for one"),
        ("test before.csv after.csv third.csv", "unexpected extra argument"),
        ("test before.csv capitals.csv", "no column in common .* capitals matter"),
        ("test before.csv words.csv", "no column in common .* rename or drop columns until the names agree"),
        ("test words.csv words.csv", "have no column that can be compared .*identifier"),
        ("test before.csv shuffled.csv", "'v' of before.csv and shuffled.csv looks numeric .*'a', 'b'"),
        ("test infinite.csv after.csv", "infinite.csv.* has infinite values .*; drop or replace them"),
        ("test one.csv after.csv", "one.csv has 1 row; at least 2 are needed: give more rows"),
        ("test singles.csv --group who", "anna has 1 row; at least 2 are needed: give more rows"),
        ("test nowhere.kembed after.csv", "nowhere.kembed does not exist; check the name"),
        ("test before.csv after.csv --columns v,z", "before.csv has no column 'z'; it has 'v', 'w', 'city'"),
        ("test before.csv after.csv --columns v,,w", "as in a,b,c, but 'v,,w' was given"),
        ("test nested.parquet nested.parquet --columns v", "'v' of nested.*: it holds nested values"),
        ("test dates.parquet numbers.csv", "holds dates in dates.parquet and numbers in numbers.csv"),
        ("test before.csv after.csv --colums v", "no such option:? '?--colums.*--columns"),
        (
            "test before.csv after.csv --kernel laplace",
            "--kernel takes fused, bkl, ard, paper, median, median-raw or a lengthscale",
        ),
        ("test before.csv after.csv --kernel -1", "--kernel takes"),
        (
            "test before.csv after.csv --alpha 5",
            "--alpha must lie strictly between 0 and 1.*write 0.05 for 5%",
        ),
        ("test before.csv after.csv --resamples 9", "use --resamples 19 or more"),
        ("test before.csv after.csv --seed -1", "--seed must be a whole number of at least 0, got '-1'"),
        (
            "test before.csv after.csv --missing drop",
            "'drop' is not one of 'include', 'omit', 'raise'",
        ),
        ("test before.csv after.csv --delimiter ;;", "--delimiter takes one character"),
        ("test before.csv after.csv --group city", "--group splits one file.*leave out after.csv"),
        ("test before.csv after.csv --groups a,b", "name the column with --group"),
        ("test both.csv --group sid", "has no column 'sid'; did you mean 'side'"),
        ("report both.csv --group year", r"has 3 groups \('year=2019', .*\); choose two with --groups"),
        ("test both.csv --group year --groups 2019", "--groups takes two or more different values"),
        ("test both.csv --group side --groups a,c", "has no value 'c'; it has 'a', 'b'"),
        ("test both.csv --group side --columns side", "makes the groups and is not compared"),
        ("test before.csv --group v", "has 60 values"),
        ("witness gauge.csv --group level", r"has 3 groups \('level=0.5', 'level=2', 'level=10'\); choose"),
        ("tset before.csv after.csv", "'tset'.*'test'"),
        ("witness before.csv after.csv --kernel fused", "a witness has one; use bkl or median"),
        ("witness before.csv after.csv --level 90", "level must lie strictly between 0 and 1.*0.9 for 90%"),
        ("witness before.csv after.csv -o figure.doc", "must end in .png or .svg or .pdf"),
        ("report before.csv after.csv -o before.csv", "must end in .html or .htm"),
        ("report before.csv after.csv -o nowhere/report.html", "does not exist; make it"),
        ("independence ring.csv --x s --y s,c", "column 's' is in x and in y; leave it out of one"),
        ("independence ring.csv --x s", "missing option '--y'"),
        ("independence ring.csv --x s --y c --columns s", "name columns with --x and --y"),
        ("independence missing.csv --x v --y w --missing raise", "missing values in 10 of 60 rows"),
        ("independence one.csv --x v --y w", "one.csv has 1 row; at least 4 are needed"),
        ("learn words.csv", "words.csv has no column that can be compared"),
        ("learn words.csv --columns name", "words.csv has no column of numbers that vary; it has 'name'"),
        ("learn missing.csv", "missing values in 10 of 60 rows.*--missing omit"),
        ("learn missing.csv --missing include", "'include' is not one of 'omit', 'raise'"),
        ("learn one.csv", "one.csv has 1 row; at least 5 are needed: give more rows"),
        ("when one.csv", "one.csv has 1 row, but two segments of at least 5 are needed"),
        ("when before.csv --order day", "has no column 'day'|is not a column"),
        ("when before.csv --order city", "order='city' holds text; name a column of dates or numbers"),
        ("when before.csv --block 0", "--block must be a whole number of at least 1, got '0'"),
        ("when before.csv --resamples 9", "use --resamples 19 or more"),
        ("when before.csv --plot curve.doc", "must end in .png or .svg or .pdf"),
        ("demo -o before.csv", "is, or lies in, a file"),
        ("demo -o before.csv/x", "is, or lies in, a file"),
    ],
)
def test_mistakes(call, arguments, message):
    code, out, err = call(*arguments.split())
    assert (code, out) == (2, "")
    *notes, complaint = err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert complaint.startswith("kembed: ")
    assert re.search(message, complaint), complaint


def test_output_is_never_an_input(call, place):
    (place / "page.html").write_text("v\n1\n2\n")
    code, _, err = call("report", "before.csv", "page.html", "-o", "page.html")
    assert code == 2
    assert "one of the inputs" in err


def test_faults_of_our_own_are_one_line_too(call, monkeypatch):
    def broken(*_, **__):
        raise KeyError("lost")

    monkeypatch.setattr(kembed, "mmd_test", broken)
    code, out, err = call("test", "before.csv", "after.csv", *QUICK)
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "KeyError: 'lost'; a fault of kembed, KEMBED_TRACEBACK=1 shows where" in err
    monkeypatch.setenv("KEMBED_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run(["test", "before.csv", "after.csv", *QUICK])


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory"),
        (ImportError("pip install it"), 2, "pip install it"),
        (PermissionError(13, "Permission denied", "x.html"), 2, "x.html: permission denied; check"),
        (
            ValueError("k(x, y)\nis no kernel in row 3; drop it"),
            2,
            "k(x, y) is no kernel in row 3; drop it",
        ),
    ],
)
def test_what_goes_wrong_inside(call, monkeypatch, raised, code, words):
    def broken(*_, **__):
        raise raised

    monkeypatch.setattr(kembed, "mmd_test", broken)
    found, out, err = call("test", "before.csv", "after.csv", *QUICK)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert words in err


def test_warnings_are_notes(call, monkeypatch):
    test = kembed.mmd_test

    def warning(*given, **options):
        warnings.warn("the data are\nfew", stacklevel=1)
        return test(*given, **options)

    monkeypatch.setattr(kembed, "mmd_test", warning)
    code, out, err = call("test", "before.csv", "after.csv", *QUICK, "--json")
    assert (code, err) == (0, "note: the data are few\n")
    assert json.loads(out)["notes"] == ["the data are few"]
    assert call("test", "before.csv", "after.csv", *QUICK, "--quiet")[2] == "note: the data are few\n"


# The other commands.


def test_independence(answer, call, place):
    found = answer("independence", "ring.csv", "--x", "s", "--y", "c", "--resamples", "99")
    ring = pl.read_csv(place / "ring.csv")
    direct = kembed.hsic_test(ring.select("s"), ring.select("c"), n_resamples=99, rng=0)
    assert found["pvalue"] == direct.pvalue <= 0.05
    assert found["dependent"] is True
    assert call("independence", "ring.csv", "--x", "s", "--y", "c", "--fail-on-dependence")[0] == 1
    code, out, _ = call(
        "independence", "ring.csv", "--x", "s", "--y", "noise", *QUICK, "--fail-on-difference"
    )
    assert code == 0
    assert out.startswith("No dependence was found at the 5% level: p = ")
    assert out.splitlines()[0].endswith("This does not prove independence.")


def test_when(answer, place, call):
    rows = pl.concat([pl.read_csv(place / name) for name in ("before.csv", "after.csv")])
    rows.with_row_index("t").reverse().write_csv(place / "series.csv")
    how = ["series.csv", "--order", "t", "--columns", "v,w", *QUICK[2:]]
    found = answer("when", *how, "--plot", "changes.png")
    direct = kembed.change_points(
        pl.read_csv(place / "series.csv").select("t", "v", "w"), order="t", n_resamples=39
    )
    assert found["changes"] == json.loads(json.dumps(direct.to_dict()["changes"]))
    assert found["samples"] == [{"name": "series.csv", "rows": 2 * ROWS, "used": 2 * ROWS}]
    assert found["columns"] == ["v", "w"]
    assert (place / "changes.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = call("when", *how, "--fail-on-difference")
    assert code == 1
    assert out.startswith("One change was found in 120 rows: at ")
    assert any(line.startswith(f"at {found['changes'][0]['time']:g}") for line in out.splitlines())
    code, out, _ = call("when", "before.csv", "--columns", "w", *QUICK[2:], "--fail-on-difference")
    assert (code, out[:19]) == (0, "No change was found")


def test_power(answer, place, call):
    how = ["before.csv", "--columns", "v,w", "--shift", "2sd", "--of", "v", "--draws", "10", *QUICK]
    found = answer("power", *how, "--rows", "15,400", "-o", "power.png")
    direct = kembed.required_rows(
        pl.read_csv(place / "before.csv").select("v", "w"),
        shift="2 sd",
        columns=["v"],
        rows=[15, 400],
        n_draws=10,
        kernel="median",
        n_resamples=39,
        rng=0,
    )
    assert found["curve"] == direct.to_dict()["curve"]
    assert found["verdict"] == repr(direct)
    assert (place / "power.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = call("power", *how)
    assert code == 0
    assert "rows per sample" in out
    for arguments, message in (
        (["power", "before.csv"], "one pilot sample does not differ from itself"),
        (["power", "before.csv", "--shift", "1sd", "--rows", "many"], "--rows takes whole numbers"),
    ):
        code, _, err = call(*arguments)
        assert code == 2
        assert message in err


def test_learn(answer, place, call):
    found = answer("learn", "before.csv", "--columns", "v", "-o", "curve.png")
    v = pl.read_csv(place / "before.csv")["v"].to_numpy()
    spread = 1.4826 * np.median(np.abs(v - np.median(v)))
    direct = kembed.learn_kernel((v - np.median(v)) / spread, rng=0)
    assert found["lengthscale"] == pytest.approx(float(direct.kernel.lengthscale) * spread, rel=1e-9)
    assert found["by_column"][0]["lengthscale"] == found["lengthscale"]
    assert found["median"] == pytest.approx(kembed.median_lengthscale(v[:, None]), rel=1e-6)
    assert (place / "curve.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = call("learn", "before.csv", "--columns", "v,city")
    assert code == 0
    assert "column 'city' is left out: it holds text" in err
    assert out.startswith(
        f"The best fit is a lengthscale of {found['lengthscale']:.3g}; the median rule gives "
    )


def test_learn_looks_at_the_columns_as_words_for_kernels_do(answer, place):
    """What `learn` finds is the kernel of `--kernel bkl` on the same rows."""
    found = answer("learn", "before.csv", "--columns", "v")
    v = pl.read_csv(place / "before.csv").select("v").to_numpy()
    kernel, evidence = choose_kernel("bkl", make_space(v, np.array([False])))
    assert found["lengthscale"] == pytest.approx(float(np.ravel(kernel.lengthscale)[0]), rel=1e-9)
    assert found["log_evidence"] == pytest.approx(evidence.model.log_evidence, rel=1e-9)


def test_the_raw_median_rule_has_its_own_word(answer, call, place):
    sample = ("before.csv", "after.csv", "--columns", "v,w")
    found = answer("test", *sample, "--kernel", "median-raw", "--resamples", "39")
    pooled = pl.concat(
        [pl.read_csv(place / name).select("v", "w") for name in ("before.csv", "after.csv")]
    ).to_numpy()
    expected = kembed.Gaussian(kembed.median_lengthscale(pooled))
    assert (found["kernel"], found["kernel_used"]) == ("median-raw", repr(expected))
    assert "columns as they are: Gaussian" in call("test", *sample, "--kernel", "median-raw")[1]
    assert set(options.KERNELS) == set(WORDS)


def test_witness(answer, call, place):
    sample = ("--columns", "v", "--kernel", "median")
    code, out, _ = call("witness", "before.csv", "after.csv", *sample, "-o", "w.svg")
    assert code == 0
    assert out.startswith("The two samples differ in 2 regions, with simultaneous 90% bands:\n")
    low, high = (
        float(re.search(rf"more {name}.csv: v in \[.*\n.*where v is (\S+)\n", out)[1])
        for name in ("before", "after")
    )
    assert low < 1.0 < high  # between the means, 0 and 2
    assert "<svg" in (place / "w.svg").read_text()
    assert "before.csv" in (place / "w.svg").read_text()
    found = answer("witness", "before.csv", "before.csv", *sample, "--fail-on-difference")
    assert found["regions"] == []
    assert found["verdict"].startswith("No region was found where they differ")
    assert [column["name"] for column in found["by_column"]] == ["v"]


def test_report_is_written_whole(call, place):
    code, out, _ = call("report", "before.csv", "after.csv", "--columns", "v", *QUICK, "-o", "page.html")
    assert code == 0
    assert "wrote page.html" in out
    page = (place / "page.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert "before.csv" in page
    assert not list(place.glob(".*"))


def test_a_failed_report_leaves_the_old_one(call, place, monkeypatch):
    (place / "old.html").write_text("old")

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    code, out, err = call("report", "before.csv", "after.csv", "--columns", "v", *QUICK, "-o", "old.html")
    assert (code, out) == (2, "")
    assert "no space left on device" in err
    assert (place / "old.html").read_text() == "old"
    assert not list(place.glob(".*"))


def test_demo(call, tmp_path, monkeypatch):
    monkeypatch.setattr(kembed, "compare", partial(kembed.compare, kernel="median", n_resamples=99))
    slow, fast = (part.select("body mass") for part in tour.patients())
    assert (slow.height, fast.height) == (221, 221)
    monkeypatch.setattr(tour, "patients", lambda: (slow.head(ROWS), fast.head(ROWS)))
    code, out, err = call("demo", "-o", str(tmp_path / "tour"))
    assert (code, err) == (0, "")
    assert {path.name for path in (tmp_path / "tour").iterdir()} == set(tour.FILES)
    assert all(f"wrote {tmp_path / 'tour' / name}" in out for name in tour.FILES)
    assert max(map(len, out.splitlines()[:2])) <= 80
    assert "slow and fast differ" in out
    assert "body mass" in out
    assert "two random halves: no difference was found" in out
    patients = pl.read_csv(tmp_path / "tour" / "patients.csv")
    assert patients.filter(pl.col("progress") == "slow").drop("progress").equals(slow.head(ROWS))
    assert pl.read_csv(tmp_path / "tour" / "slow.csv").equals(slow.head(ROWS))


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "command-line.md"
SHOWN = re.findall(
    r"```console\n\$ (kembed (?:test|independence) [^;<\n]*)\n(.*?)```", PAGE.read_text(), re.S
)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_is_printed(demo, monkeypatch, capsys, command, output):
    monkeypatch.chdir(demo)
    run(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    # The last digits of a sum may depend on the machine.
    printed, shown = (re.sub(r"(\.\d{6})\d+", r"\1", text) for text in (err + out, output))
    assert printed == shown


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The tables that `kembed demo` writes."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "kembed-demo").mkdir()
    slow, fast = tour.patients()
    tables = {"slow": slow, "fast": fast, "patients": tour.in_one(slow, fast)}
    for name, table in tables.items():
        table.write_csv(folder / "kembed-demo" / f"{name}.csv")
    kembed.Sketch.of(slow).save(folder / "slow.kembed")
    kembed.load_ozone().write_csv(folder / "ozone.csv")
    return folder


def test_the_page_has_every_command():
    text = PAGE.read_text()
    for command in COMMANDS:
        assert f"$ kembed {command}" in text
    assert len(SHOWN) >= 6


# Options and help.


def test_help_names_commands_files_and_exit_codes(call):
    code, out, _ = call("--help")
    assert code == 0
    for word in (
        *COMMANDS,
        "Parquet",
    ):
        assert word in out
    assert "Exit codes: 0 success; 1 a difference was found" in " ".join(out.split())
    assert call()[1].split() == out.split()
    assert call("--version") == (0, f"kembed {kembed.__version__}\n", "")


@pytest.mark.parametrize("command", ["test", "witness", "report"])
def test_every_shared_option_is_in_the_help(call, command):
    _, out, _ = call(command, "--help")
    panels = (options.Grouping, options.Seeded if command == "witness" else options.Testing, options.Failing)
    for panel in panels:
        for field in fields(panel):
            assert f"--{field.name.replace('_', '-')}" in out


def test_the_keyboard_is_announced(tmp_path, monkeypatch, capsys):
    class Keyboard:
        buffer = io.BytesIO(b"v\n1\n2\n3\n")

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.chdir(tmp_path)
    Path("b.csv").write_text("v\n1\n2\n4\n")
    with warnings.catch_warnings():
        pair = load_samples("-", "b.csv", options.Grouping(), Screen(["test"]))
    assert pair.labels == ("standard input", "b.csv")
    assert "end with Ctrl-D" in capsys.readouterr().err


# The process.


def process(place: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "kembed", *arguments]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_standard_input_and_exit_code(place):
    text = (place / "after.csv").read_text()
    done = process(place, "test", "before.csv", "-", *QUICK, "--fail-on-difference", input=text)
    assert done.returncode == 1
    assert done.stdout.startswith("The two samples differ: ")
    assert "standard input  60 rows" in done.stdout
    assert done.stderr == ""


def test_help_is_light(place):
    code = (
        "import sys; from kembed.cli import run; run(['test', '--help'])\n"
        "print([m for m in ('numpy', 'jax', 'scipy', 'matplotlib', 'polars', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_plain_test_needs_no_jax(place):
    code = (
        "import sys; from kembed.cli import run; run(['test', 'before.csv', 'after.csv', '-q'])\n"
        "heavy = ('jax', 'scipy.linalg', 'scipy.optimize', 'matplotlib', 'sklearn')\n"
        "heavy += ('pandas', 'pydantic.main', 'rich.progress')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_few_rows_in_memory_load_no_engine(place):
    code = (
        "import sys; from kembed.cli import run; run(['test', 'before.csv', 'after.csv', '-q'])\n"
        "of_many = ('dask', 'binned', 'streams', 'sketch')\n"
        "own = [m for m in sys.modules if m.startswith('kembed.') and m.rpartition('.')[2] in of_many]\n"
        "print(own)"
    )
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True, env=kept
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_closed_pipe_is_fine(place, more):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "kembed", "test", "before.csv", "after.csv", *QUICK, *more]
    done = subprocess.run(
        [*command, "--fail-on-difference"],
        cwd=place,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")  # what it found, not that nobody read it


def test_ctrl_c(place):
    code = (
        "import kembed, os, signal, sys\n"
        "kembed.mmd_test = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['kembed', 'test', 'before.csv', 'after.csv']\n"
        "from kembed.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "kembed: interrupted\n")


@pytest.fixture
def terminal(monkeypatch):
    """Standard error passes for a terminal: what Rich believes."""
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")


@contextmanager
def waiting(quiet: bool = False):
    with warnings.catch_warnings():
        screen = Screen(["test"], quiet=quiet)
        with screen.waiting("comparing [1] rows") as may_draw:
            yield screen, may_draw


def test_waiting_is_shown_on_a_terminal(terminal, capsys):
    with waiting() as (screen, may_draw):
        assert may_draw
        assert "comparing [1] rows" in capsys.readouterr().err
        screen.note("the data are few")
        # What is written meanwhile stands on a line of its own.
        assert re.search(r"\x1b\[2K\x1b\[33mnote: \x1b\[0mthe data are few\n", capsys.readouterr().err)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.rsplit("comparing", 1)[1].endswith("\x1b[2K")  # at the end the line is clean
    with waiting(quiet=True) as (_, may_draw):
        assert not may_draw
    assert capsys.readouterr() == ("", "")


def test_nothing_is_shown_elsewhere(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with waiting() as (screen, may_draw):
        screen.note("the data are few")
    assert not may_draw
    assert capsys.readouterr() == ("", "note: the data are few\n")


def test_the_spinner_makes_room_for_bars(terminal, capsys):
    with waiting(), showing_progress(True):
        with progress_bar(3, 1e12, "passing") as bar:
            capsys.readouterr()
            time.sleep(0.3)  # several frames of the spinner
            bar.update(1)
            assert "comparing" not in capsys.readouterr().err
        assert "comparing" in capsys.readouterr().err
    with showing_progress(True), progress_bar(3, 1e12, "passing"):
        assert "passing" in capsys.readouterr().err


# What people expect of a command line.


def test_short_help(call):
    assert call("-h") == call("--help")
    assert call("test", "-h") == call("test", "--help")


@pytest.mark.parametrize(
    ("typed", "wanted"), [("kembed wit", "witness"), ("kembed test --by", "--by-column")]
)
def test_a_shell_can_complete(typed, wanted):
    asked = {"_KEMBED_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "kembed"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [wanted]


def test_columns_can_be_excluded(answer):
    found = answer("test", "before.csv", "after.csv", "--exclude", "v,city", *QUICK)
    assert found["columns"] == ["w"]
    assert not found["differ"]
    assert (
        "there is no column 'nix' to exclude; there are 'v', 'w', 'city'"
        in answer("test", "before.csv", "after.csv", "--exclude", "nix", *QUICK)["notes"][0]
    )


def test_rows_can_be_drawn(answer):
    found = answer("test", "before.csv", "after.csv", "--columns", "v", "--max-rows", "20", *QUICK)
    assert [sample["used"] for sample in found["samples"]] == [20, 20]
    assert "20 of the 60 rows of before.csv were drawn at random" in found["notes"][0]


def test_pairs_weights_and_time_series(answer, place):
    x, y = (pl.read_csv(place / file).select("v") for file in ("before.csv", "after.csv"))
    how = {"kernel": "median", "n_resamples": 39, "rng": 0}
    paired = answer("test", "before.csv", "after.csv", "--columns", "v", "--paired", *QUICK)
    assert paired["statistic"] == pytest.approx(kembed.mmd_test(x, y, paired=True, **how).statistic)
    wild = answer("test", "before.csv", "after.csv", "--columns", "v", "--null", "wild", *QUICK)
    assert (wild["null"], wild["pvalue"]) == ("wild", kembed.mmd_test(x, y, null="wild", **how).pvalue)
    for null in ("shift", "wild"):
        told = answer("independence", "before.csv", "--x", "v", "--y", "w", "--null", null, *QUICK)
        table = pl.read_csv(place / "before.csv")
        expected = kembed.hsic_test(table["v"], table["w"], null=null, **how)
        assert (told["null"], told["pvalue"]) == (null, expected.pvalue)
    for name, frame in (("wx.csv", x), ("wy.csv", y)):
        frame.with_columns(weight=pl.Series(np.linspace(1.0, 2.0, ROWS))).write_csv(place / name)
    weights = (np.linspace(1.0, 2.0, ROWS),) * 2
    found = answer("test", "wx.csv", "wy.csv", "--weights", "weight", *QUICK)
    assert found["columns"] == ["v"]
    assert found["statistic"] == pytest.approx(kembed.mmd_test(x, y, weights=weights, **how).statistic)


def test_rows_without_a_weight_are_left_out(answer, call, place, tmp_path):
    """As the note says; they once counted with weight 1."""
    how = {"kernel": "median", "n_resamples": 39, "rng": 0}
    x, y = (pl.read_csv(place / file).select("v") for file in ("before.csv", "after.csv"))
    weight = pl.Series("weight", [None if k % 4 == 0 else 1.0 + k for k in range(ROWS)])
    files = [tmp_path / "x.csv", tmp_path / "y.csv"]
    for file, frame in zip(files, (x, y), strict=True):
        frame.with_columns(weight).write_csv(file)
    found = answer("test", *map(str, files), "--weights", "weight", "--missing", "omit", *QUICK)
    left = weight.is_not_null()
    expected = kembed.mmd_test(x.filter(left), y.filter(left), weights=(weight.filter(left),) * 2, **how)
    assert found["statistic"] == pytest.approx(expected.statistic)
    code, out, err = call("test", "before.csv", "after.csv", "--weights", "city")
    assert (code, out) == (2, "")
    assert err.startswith("kembed: --weights 'city' must hold numbers, but in before.csv it holds text; ")


def test_more_than_two_groups(answer, call):
    found = answer("test", "both.csv", "--group", "year", "--columns", "v", *QUICK)
    assert [sample["name"] for sample in found["samples"]] == ["year=2019", "year=2020", "year=2021"]
    assert [pair["samples"] for pair in found["by_pair_of_samples"]] == [
        ["year=2019", "year=2020"],
        ["year=2019", "year=2021"],
        ["year=2020", "year=2021"],
    ]
    code, _, err = call("test", "both.csv", "--group", "year", "--paired")
    assert code == 2
    assert "--paired is for two samples; choose two with --groups" in err


def test_independence_given_others(answer, place):
    found = answer("independence", "ring.csv", "--x", "s", "--y", "c", "--given", "noise", *QUICK)
    table = pl.read_csv(place / "ring.csv")
    sides = (table.select(name) for name in ("s", "c", "noise"))
    direct = kembed.conditional_test(*sides, kernel="median", n_resamples=39, rng=0)
    assert (found["pvalue"], found["given"]) == (direct.pvalue, ["noise"])


def test_the_page_has_the_command_and_its_notes(call, place):
    code, _, _ = call("report", "before.csv", "numbered.csv", *QUICK, "-o", "noted.html")
    assert code == 0
    page = (place / "noted.html").read_text(encoding="utf-8")
    wanted = "kembed report before.csv numbered.csv --kernel median --resamples 39 -o noted.html --seed 0"
    assert wanted in page
    assert "Not compared:" in page


@pytest.mark.parametrize(
    "arguments",
    [
        ("before.csv", "after.csv"),
        ("both.csv", "--group", "side"),
    ],
)
def test_the_code_on_the_page_gives_the_same_verdict(arguments, call, place, monkeypatch):
    code, said, _ = call("report", *arguments, *QUICK, "-o", "again.html")
    assert code == 0
    page = (place / "again.html").read_text(encoding="utf-8")
    recipe = html.unescape(re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.S)[-1])
    assert "A.csv" not in recipe
    monkeypatch.chdir(place)
    found = {}
    exec(recipe, found)
    assert found["found"].verdict.rstrip(".") in said.replace("\n", " ")


def test_regions_of_dates_are_told_as_dates(call, place):
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 12, 31), eager=True)
    for name, half in (("early.csv", days[:180]), ("late.csv", days[180:])):
        pl.DataFrame({"day": half}).write_csv(place / name)
    _, said, _ = call("witness", "early.csv", "late.csv", "--kernel", "median")
    assert "day in [2020-" in said
    assert "most clearly where day is 2020-" in said


def test_nulls_that_do_not_go_with_the_rest(place, call):
    sides = ("--x", "v", "--y", "w")
    (place / "brief.csv").write_text("v,w\n" + "".join(f"{k * 7 % 5},{k * 3 % 7}\n" for k in range(15)))
    for arguments, said in (
        (["before.csv", *sides, "--given", "k", "--null", "shift"], "--null shift is for the test without"),
        (["before.csv", *sides, "--null", "wild"], "null='wild' takes one kernel, but kernel stands for sev"),
        (["before.csv", *sides, "--null", "wild"], "kernel='median' or a kernel object (--kernel)\n"),
        (["before.csv", *sides, "--null", "gamma"], "'gamma' is not one of 'permutation', 'wild', 'shift'"),
        (["brief.csv", *sides, "--null", "shift"], "15 rows give no p-value below 0.0667, so nothing can be"),
    ):
        code, out, err = call("independence", *arguments)
        assert (code, out) == (2, "")
        assert said in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--null", "wild", "--by-column"], "by_column goes with null='permutation'"),
        (["--null", "wild", "--by-column"], "leave one out (--by-column, --null)\n"),
        (["--paired", "--weights", "w"], "weights goes with null='permutation' and unpaired samples"),
        (["--paired", "--weights", "w"], "(--weights, --null, --paired)\n"),
        (["--weights", "w"], "weights[0] of before.csv must be positive and finite"),
        (["--fast", "--null", "wild"], "statistic='features' (--fast) goes with null='permutation'"),
        (["--fast", "--null", "wild"], "but null='wild' was given; leave one of them out\n"),
    ],
)
def test_options_that_do_not_go_together_are_called_by_their_names(call, options, said):
    code, out, err = call("test", "before.csv", "after.csv", *options)
    assert (code, out) == (2, "")
    assert said in err


def test_notes_name_options(place, call):
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(2, 120)), axis=1).round(4)
    pl.DataFrame({"a": walk[0], "b": walk[1]}).write_csv(place / "walk.csv")
    pl.DataFrame({"a": walk[0] + rng.normal(size=120) / 9, "b": walk[1]}).write_csv(place / "later.csv")
    quick = ("--kernel", "median", "--resamples", "19", "--alpha", "0.1")
    said = call("test", "walk.csv", "later.csv", *quick)[2]
    assert "(kembed test --null wild)" in said
    assert "if they are pairs, use paired=True (kembed test --paired)" in said
    assert "(kembed test --null wild)" in call("witness", "walk.csv", "later.csv")[2]
    said = call("independence", "walk.csv", "--x", "a", "--y", "b", *quick)[2]
    assert "(kembed independence --null shift)" in said
    assert "pre-whiten, prewhiten= (--time)" in call("graph", "walk.csv", "--test", "fisher-z")[2]


def test_inflation_is_a_name(place, call):
    rng = np.random.default_rng(0)
    for file in ("x.csv", "y.csv"):
        pl.DataFrame({"inf": rng.normal(size=30)}).write_csv(place / file)
    code, out, err = call("test", "x.csv", "y.csv", "--kernel", "median", "--resamples", "19")
    assert (code, err) == (0, "")
    assert "columns      inf" in out
    assert call("learn", "x.csv")[0] == 0


def test_words_among_numbers_are_refused(place, call):
    rng = np.random.default_rng(0)
    for file in ("x.csv", "y.csv"):
        words = [*map(str, range(20)), *(f"A/{k}" for k in range(8))] * 3
        pl.DataFrame({"ticket": words, "v": rng.normal(size=84)}).write_csv(place / file)
    code, out, err = call("test", "x.csv", "y.csv", "--kernel", "median", "--resamples", "19")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "looks numeric but does not read as numbers or dates ('A/0', 'A/1', 'A/2'); clean it" in err


def test_dates_that_rise_are_told_by_learn(place, call):
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 9), eager=True)
    pl.DataFrame({"day": days, "v": np.random.default_rng(0).normal(size=40)}).write_parquet(
        place / "d.parquet"
    )
    assert (
        "column 'day' looks like an ID or a timestamp (it rises from row to row)"
        in call("learn", "d.parquet")[2]
    )


def test_copies_are_told_of_sides(place, call):
    x, y = np.repeat(np.random.default_rng(0).normal(size=(2, 20)), 3, axis=1)
    pl.DataFrame({"x": x, "y": y}).write_csv(place / "thrice.csv")
    said = call("independence", "thrice.csv", "--x", "x", "--y", "y", "--resamples", "39")[2]
    assert "note: every row of x of thrice.csv and y of thrice.csv occurs 3 times" in said
    assert (
        "note: every row of thrice.csv occurs 3 times" in call("graph", "thrice.csv", "--test", "fisher-z")[2]
    )


def test_nothing_has_changed_where_nothing_was_found(place, call):
    """A column may speak for itself at its own level where the whole test does not."""
    rng = np.random.default_rng(0)
    wide = {f"c{k}": rng.normal(size=40) for k in range(6)}
    pl.DataFrame(wide).write_csv(place / "x.csv")
    others = {name: rng.normal(size=40) for name in wide}
    pl.DataFrame({**others, "c3": wide["c3"] + 0.85}).write_csv(place / "y.csv")
    assert "changed      c3 (p at most 0.05" in call("test", "x.csv", "y.csv")[1]
    out = call("test", "x.csv", "y.csv", "--alpha", "0.005")[1]
    assert "No difference was found" in out
    assert "changed" not in out
    assert "by itself    c3 (p at most 0.05" in out


@pytest.mark.parametrize(
    ("command", "option", "value", "message"),
    [
        ("test", "--alpha", "5%", "must be a number between 0 and 1, got '5%'; for 5% write 0.05"),
        ("graph", "--alpha", "x", "must be a number between 0 and 1, got 'x'"),
        ("witness", "--level", "90%", "must be a number between 0 and 1, got '90%'; for 90% write 0.9"),
        ("test", "--resamples", "many", "must be a whole number, got 'many'"),
        ("test", "--max-rows", "1", "must be a whole number of at least 2, got '1'"),
        ("test", "--seed", "1.5", "must be a whole number, got '1.5'"),
        ("graph", "--least-timescale", "week", "must be a number, got 'week'"),
    ],
)
def test_numbers_that_are_none_are_named_in_our_words(capsys, command, option, value, message):
    files = ["a.csv"] if command == "graph" else ["a.csv", "b.csv"]
    assert run([command, *files, option, value]) == 2
    assert capsys.readouterr().err == f"kembed: {option} {message}\n"


def test_a_command_with_two_dashes_can_be_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("-a.csv", "b.csv"):
        Path(name).write_text("u\n" + "\n".join(map(str, range(9))) + "\n")
    assert run(["test", "--", "-a.csv", "b.csv"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    program, *words = shlex.split(line)
    assert program == "kembed"
    assert run(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line
