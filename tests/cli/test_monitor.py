"""`kembed monitor`: a state that grows batch by batch."""

import numpy as np
import polars as pl
import pytest

import kembed

QUICK = ["--resamples", "99"]


def table(rng, rows, shift=0.0, day="Mon"):
    columns = {"load": rng.normal(shift, 1.0, rows), "town": rng.choice(["Oslo", "Rome"], rows)}
    return pl.DataFrame(columns | {"day": [day] * rows})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    rng = np.random.default_rng(0)
    days = ("Mon", "Tue")
    pl.concat([table(rng, 60, day=days[k % 2]) for k in range(6)]).write_csv(folder / "reference.csv")
    for k in range(4):
        table(rng, 50, 3.0 * (k > 1), days[k % 2]).write_csv(folder / f"day{k}.csv")
    pl.read_csv(folder / "day0.csv").drop("town").write_csv(folder / "missing.csv")
    for k in range(2):
        table(rng, 60).write_csv(folder / f"part{k}.csv")
    return folder


def test_batches_one_after_the_other(call, place):
    start = ["monitor", "s.kembed"]
    same = ["--reference", "reference.csv", "--exclude", "day", *QUICK]
    codes = []
    for k in range(4):
        code, out, err = call(
            *start, f"day{k}.csv", *same, "--label", f"2026-05-0{k + 1}", "--fail-on-difference"
        )
        assert err == ""
        codes.append(code)
    assert codes[0] == codes[1] == 0
    assert codes[3] == 1
    assert out.startswith("ALARM ")
    assert "The change began about 2026-05-03" in out
    assert "If nothing had changed, at most 5% of such monitors would ever alarm." in out
    for words in (
        "2026-05-04  50 rows, p = ",
        "columns     load, town",
        "state       s.kembed, ",
        "evidence",
    ):
        assert words in out
    assert "To repeat" not in out
    monitor = kembed.Monitor.load(place / "s.kembed")
    assert monitor.labels == tuple(f"2026-05-0{k}" for k in range(1, 5))
    before = (place / "s.kembed").read_bytes()
    code, _, err = call(*start, "day3.csv", "--label", "2026-05-04")
    assert (code, "has seen '2026-05-04' already" in err) == (2, True)
    code, _, err = call(*start, "missing.csv")
    assert (code, "'town'" in err) == (2, True)
    assert (place / "s.kembed").read_bytes() == before


def test_python_says_the_same(answer, place):
    reference, batch = (pl.read_csv(place / name) for name in ("reference.csv", "day1.csv"))
    monitor = kembed.Monitor(reference, by="day", mean_time=50, n_resamples=99)
    said = monitor.update(batch, label="a").to_dict()
    how = ["--reference", "reference.csv", "--by", "day", "--mean-time", "50", "--label", "a", *QUICK]
    found = answer("monitor", "by.kembed", "day1.csv", *how, "--plot", "evidence.png")
    assert {name: found[name] for name in said} == said
    assert found["columns"] == ["load", "town"]
    assert (found["alpha"], found["mean_time"], found["threshold"]) == (None, 50.0, 100.0)
    assert (place / "evidence.png").read_bytes().startswith(b"\x89PNG")


def test_a_list_of_references_and_a_sketch(call):
    parts = ["--reference", "part0.csv", "--reference", "part1.csv", "--exclude", "day", *QUICK]
    assert call("monitor", "parts.kembed", "day0.csv", *parts)[0] == 0
    assert call("summarise", "reference.csv", "--exclude", "day", "-o", "reference.kembed", "-q")[0] == 0
    code, out, err = call("monitor", "of.kembed", "day0.csv", "--reference", "reference.kembed", *QUICK)
    assert code == 0, err
    assert out.startswith("No alarm after 1 batch: evidence ")
    assert "Left out: day." in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new.kembed", "day0.csv"], "new.kembed does not exist; start it with --reference FILE"),
        (["new.csv", "day0.csv", "--reference", "part0.csv"], "new.csv must end in .kembed"),
        (["of.kembed", "day0.csv", "--alpha", "0.01"], "was made with alpha=0.05, but 0.01 was given"),
        (["new.kembed", "day0.csv", "--alpha", "0.1", "--mean-time", "9"], "give one"),
        (["new.kembed", "day0.csv", "--alpha", "2"], "--alpha must lie strictly between 0 and 1"),
        (
            ["new.kembed", "day0.csv", "--reference", "part0.csv", "--plot", "a.txt"],
            "--plot a.txt must end in",
        ),
        (["new.kembed", "day0.csv", "--reference", "part0.csv", "--by", "site"], "no column 'site'"),
        (["new.kembed", "none.csv", "--reference", "part0.csv"], "none.csv does not exist"),
        (["reference.kembed", "day0.csv"], "holds a sketch, and a monitor is wanted"),
    ],
)
def test_what_is_refused(call, place, arguments, words):
    if not (place / "of.kembed").exists():
        rows = pl.read_csv(place / "reference.csv").drop("day")
        kembed.Monitor(rows).save(place / "of.kembed")
        kembed.Sketch.of(rows).save(place / "reference.kembed")
    code, _, err = call("monitor", *arguments)
    assert code == 2
    assert words in err
    assert not (place / "new.kembed").exists()
