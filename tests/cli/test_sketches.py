"""`kembed summarise`, and `kembed test` against what it wrote."""

import numpy as np
import polars as pl
import pytest

import kembed

ROWS = 400
QUICK = ["--resamples", "39"]


def table(rng, rows, shift=0.0):
    return pl.DataFrame({
        "id": [f"row {k}" for k in range(rows)],
        "v": rng.normal(shift, 1.0, rows),
        "town": rng.choice(["Oslo", "Rome"], rows),
    })  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sketches")
    rng = np.random.default_rng(0)
    for name, rows, shift in (
        ("monday", ROWS, 0.0),
        ("tuesday", 300, 0.0),
        ("same", 90, 0.0),
        ("new", 80, 1.0),
    ):
        table(rng, rows, shift).write_csv(folder / f"{name}.csv")
    kembed.Sketch.of(pl.read_csv(folder / "monday.csv").drop("id")).save(folder / "monday.kembed")
    return folder


def test_a_reference_is_kept(call, place):
    code, out, err = call("summarise", "monday.csv", "-o", "reference.kembed")
    assert code == 0, err
    assert "column 'id' is left out" in err
    for words in ("A sketch of 300 rows in v, town; 100 rows were held out", "wrote reference.kembed", "MB"):
        assert words in out
    assert "'Oslo', 'Rome'" in out
    assert kembed.Sketch.load(place / "reference.kembed").rows == 300


def test_new_rows_are_tested_against_it(call, answer):
    code, out, err = call("test", "monday.kembed", "new.csv", "--by-column", "--fail-on-difference", *QUICK)
    assert code == 1, err
    assert "The two samples differ: p = 0.025" in out
    assert "monday.kembed  300 rows" in out
    turned = answer("test", "same.csv", "monday.kembed", *QUICK)
    assert [sample["used"] for sample in turned["samples"]] == [90, 300]
    assert turned["differ"] is False
    assert turned["left_out"] == {"id": "only same.csv has it"}
    assert turned["columns"] == ["v", "town"]


def test_what_is_in_a_sketch(call, answer):
    code, out, _ = call("summarise", "monday.kembed")
    assert code == 0
    assert "A sketch of 300 rows" in out
    told = answer("summarise", "monday.kembed")
    assert told["output"] is None
    assert told["by_column"][1] == {"name": "town", "kind": "categories", "levels": ["Oslo", "Rome"]}


def test_days_are_put_together(call, answer, place):
    assert call("summarise", "tuesday.csv", "--like", "monday.kembed", "-o", "tuesday.kembed", "-q")[0] == 0
    both = answer("summarise", "monday.kembed", "tuesday.kembed", "-o", "both.kembed")
    assert [sample["used"] for sample in both["samples"]] == [300, 300]
    straight = answer("summarise", "monday.kembed", "tuesday.csv", "-o", "straight.kembed")
    assert straight["fingerprint"] == both["fingerprint"]
    assert kembed.Sketch.load(place / "both.kembed").rows == 600
    tables = answer("summarise", "monday.csv", "tuesday.csv", "-o", "tables.kembed")
    assert [sample["used"] for sample in tables["samples"]] == [300, 300]
    assert answer("test", "monday.kembed", "tuesday.kembed", *QUICK)["differ"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["summarise", "monday.csv"], "as in -o reference.kembed"),
        (["summarise", "monday.csv", "-o", "a.csv"], "must end in .kembed"),
        (["summarise", "none.csv", "-o", "a.kembed"], "none.csv does not exist"),
        (["summarise", "monday.csv", "-o", "a.kembed", "--columns", "w"], "no column 'w'"),
        (
            ["summarise", "same.csv", "--like", "monday.kembed", "--columns", "v", "-o", "a.kembed"],
            "--columns",
        ),
        (
            ["summarise", "same.csv", "--like", "monday.kembed", "--kernel", "bkl", "-o", "a.kembed"],
            "--kernel",
        ),
        (
            ["summarise", "same.csv", "--like", "same.csv", "-o", "a.kembed"],
            "same.csv is no file of kembed's",
        ),
        (["summarise", "monday.kembed", "other.kembed", "-o", "a.kembed"], "different features"),
        (["test", "monday.kembed"], "give a second file"),
        (["test", "monday.kembed", "new.csv", "--columns", "v"], "--columns"),
        (["test", "monday.kembed", "new.csv", "--kernel", "median"], "--kernel"),
        (["test", "monday.kembed", "narrow.csv"], "narrow.csv has no column 'town'"),
        (["test", "monday.kembed", "gaps.csv"], "gaps.csv has missing values"),
        (["summarise", "gaps.csv", "-o", "a.kembed"], "nan_policy='omit', --missing omit"),
        (
            ["summarise", "gaps.csv", "--missing", "include", "-o", "a.kembed"],
            "'include' is not one of 'omit', 'raise'",
        ),
        (["report", "monday.kembed", "new.csv", "--strata", "town"], "--strata is for samples of rows"),
        (["witness", "none.kembed", "new.csv"], "keeps 0 rows (keep_rows=, --keep-rows)"),
        (["learn", "monday.kembed"], "monday.kembed has no rows"),
        (["test", "cut.kembed", "new.csv"], "cut.kembed is damaged or incomplete; make"),
        (["test", "older.kembed", "new.csv"], "older.kembed was written by an older kembed; make"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line_says_what_is_wrong(call, place, arguments, words):
    table(np.random.default_rng(3), 50).drop("town").write_csv(place / "narrow.csv")
    gaps = pl.when(pl.int_range(pl.len()) < 6).then(None).otherwise(pl.col("v"))
    table(np.random.default_rng(3), 50).with_columns(v=gaps).write_csv(place / "gaps.csv")
    whole = (place / "monday.kembed").read_bytes()
    (place / "cut.kembed").write_bytes(whole[:1_000])
    (place / "older.kembed").write_bytes(b"kembed-file 1 sketch 00 1 1")
    if not (place / "none.kembed").exists():
        kembed.Sketch.of(pl.read_csv(place / "same.csv").drop("id"), keep_rows=0).save(place / "none.kembed")
    if not (place / "other.kembed").exists():
        kembed.Sketch.of(pl.read_csv(place / "same.csv").drop("id")).save(place / "other.kembed")
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert words in err.splitlines()[-1]
    assert not (place / "a.kembed").exists()


def test_missing_values_may_be_left_out(answer, place):
    rng = np.random.default_rng(3)
    gaps = pl.when(pl.int_range(pl.len()) < 6).then(None).otherwise(pl.col("v"))
    rows = table(rng, 60).with_columns(v=gaps)
    rows.write_csv(place / "holes.csv")
    told = answer("test", "monday.kembed", "holes.csv", "--missing", "omit", *QUICK)
    assert told["samples"][1] == {"name": "holes.csv", "rows": 60, "used": 54}


def test_text_is_read_as_in_tables(call, answer, place):
    """Thousands, money and codes mean against a sketch what they mean beside another file, and it is said."""
    rng = np.random.default_rng(1)

    def write(name, codes):
        pl.DataFrame({
            "income": [f"{value:,.1f}" for value in rng.lognormal(10.0, 0.3, 90)],
            "price": [f"1,{value:03d}.50" for value in rng.integers(1, 40, 90)],
            "code": rng.choice(codes, 90),
        }).write_csv(place / name)  # fmt: skip

    write("first.csv", ["TRUE", "FALSE", "none", "x"])
    write("second.csv", ["TRUE", "FALSE"])
    assert call("summarise", "first.csv", "-o", "first.kembed")[0] == 0
    told = answer("test", "first.kembed", "second.csv", *QUICK)
    assert [note.partition(" (")[0] for note in told["notes"]] == [
        "column 'income' read as numbers",
        "column 'price' read as numbers",
    ]
    assert call("summarise", "second.csv", "--like", "first.kembed", "-o", "second.kembed")[0] == 0
    assert kembed.Sketch.load(place / "second.kembed").to_dict()["by_column"][2]["levels"] == [
        *("FALSE", "TRUE", "none", "x"),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--paired"], "--paired is for samples of rows"),
        (["--weights", "v"], "--weights is for samples of rows"),
        (["--null", "wild"], "--null is for samples of rows"),
        (["--fast"], "--fast is for samples of rows"),
        (["--max-rows", "20"], "--max-rows is for samples of rows"),
        (["--groups", "a,b"], "a sketch has no groups"),
        (["--as-text", "town"], "--as-text is not for sketches"),
    ],
)
def test_what_a_sketch_cannot_do_is_refused(call, options, said):
    code, out, err = call("test", "monday.kembed", "same.csv", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"kembed: {said}")


def test_the_verdict_names_what_was_left_out(call):
    assert "to fit features. Left out: 'id'." in call("summarise", "monday.csv", "-o", "r.kembed")[1]
    assert "they are the same. Left out: 'id'." in call("test", "monday.kembed", "same.csv", *QUICK)[1]


def test_an_alarm_is_explained(call, answer, place):
    """A report and regions against a sketch, and against the file of a detector."""
    told = answer("report", "monday.kembed", "new.csv", "-o", "page.html", *QUICK)
    assert (told["differ"], told["effect_size"]["mmd"] > 0.0) == (True, True)
    assert [sample["used"] for sample in told["samples"]] == [300, 80]
    assert told["left_out"] == {"id": "only new.csv has it"}
    assert any("rest on the 400 rows that the sketch of monday.kembed" in note for note in told["notes"])
    page = (place / "page.html").read_text()
    assert "x, y = &#39;monday.kembed&#39;, &#39;new.csv&#39;" in page
    regions = answer("witness", "monday.kembed", "new.csv")
    assert regions["differ"]
    assert [sample["used"] for sample in regions["samples"]] == [400, 80]
    rows = pl.read_csv(place / "monday.csv").drop("id")
    kembed.DriftDetector(random_state=0).fit(rows).save(place / "monday.detector")
    known = answer("report", "monday.detector", "new.csv", "--columns", "v,town", "-o", "page.html", *QUICK)
    assert (
        known["pvalue"]
        == kembed.mmd_test(rows, pl.read_csv(place / "new.csv").drop("id"), n_resamples=39, rng=0).pvalue
    )
    assert answer("test", "monday.detector", "new.csv", "--columns", "v,town", *QUICK)["differ"]


def test_rows_are_kept_or_not(call, answer):
    told = answer("summarise", "monday.csv", "--keep-rows", "0", "-o", "none.kembed")
    assert told["kept"] == 0
    found = answer("report", "none.kembed", "new.csv", "-o", "page.html", *QUICK)
    assert (found["regions"], found["effect_size"], found["differ"]) == ([], None, True)
    assert any("not available" in note for note in found["notes"])
