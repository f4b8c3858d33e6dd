"""`kembed graph`: the graph of the library, one-line errors, whole files, several processes."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import polars as pl
import pytest

from kembed.conditional.tester import ConditionalTester
from kembed.graphs.background import Background
from kembed.graphs.pc import pc

ROWS = 120
LINEAR = ("--test", "fisher-z")
QUICK = ("--kernel", "median", "--resamples", "39")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a --> c <-- b, c --> d, and files with one fault each."""
    folder = tmp_path_factory.mktemp("graphs")
    rng = np.random.default_rng(3)
    a, b, e, f = rng.normal(size=(4, ROWS))
    c = a + b + 0.5 * e
    d = c + 0.5 * f

    def write(file: str, **columns: object) -> None:
        pl.DataFrame(columns).write_csv(folder / file)

    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 4, 29), eager=True)
    write("four.csv", a=a, b=b, c=c, d=d)
    write("noise.csv", a=a, b=b)
    write("days.csv", day=days, a=a + np.arange(ROWS) / 20.0, b=b, c=c)
    write("gaps.csv", a=[None, *a[1:]], b=b, c=c)
    write("text.csv", a=a, b=b, kind=["x", "y"] * (ROWS // 2), same=[1.0] * ROWS, n=range(ROWS))
    write("one.csv", a=a)
    return folder


@pytest.fixture
def call(call):
    """Run `kembed graph` in that folder."""
    return partial(call, "graph")


def edges(found: dict) -> list[str]:
    return [f"{edge['a']} {edge['mark']} {edge['b']}" for edge in found["edges"]]


# What is printed.


def test_the_answer_comes_first_and_says_what_marks_mean(call):
    code, out, err = call("four.csv", *LINEAR)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "3 of 6 pairs of columns are connected directly at the 5% level: 3 with a direction."
    assert [line.split("  ")[0] for line in lines[3:6]] == ["a --> c", "b --> c", "c --> d"]
    assert "a --> b: the tests suggest that a causes b, and not the other way round." in lines
    assert "a --- b" not in out
    assert "nothing unmeasured" in out
    assert "four.csv  120 rows" in lines
    assert lines[-1] == "  kembed graph four.csv --test fisher-z --seed 0"
    assert "share of runs" not in out


def test_frequencies_are_printed_where_there_are_runs(call):
    _, out, _ = call("four.csv", *LINEAR, "--orders", "2", "--bootstrap", "6")
    assert re.search("^edge +largest p +orders +resamples$", out, re.M)
    assert "orders, resamples: share of runs with the edge, and with its mark." in out
    assert "2 orders of the columns, 6 resamples of the rows" in out
    row = next(line for line in out.splitlines() if line.startswith("a --> c"))
    assert row.split()[-1].endswith("%")


def test_pairs_of_many_resamples_are_told(call, place):
    raw = np.column_stack([np.ones(ROWS), np.random.default_rng(1).normal(size=(ROWS, 2))])
    _, a, e = np.linalg.qr(raw)[0].T
    r = 0.172  # exactly: p = 0.06
    pl.DataFrame({"a": a, "b": r * a + np.sqrt(1 - r * r) * e}).write_csv(place / "weak.csv")
    _, out, _ = call("weak.csv", *LINEAR, "--bootstrap", "20")
    assert "not connected, but in many resamples" in out


def test_no_edge_is_no_proof(call):
    code, out, _ = call("noise.csv", *LINEAR)
    assert code == 0
    assert out.startswith("No two of 2 columns are connected at the 5% level. This does not prove")


def test_quiet_prints_one_line(call):
    assert call("four.csv", *LINEAR, "--quiet")[1].count("\n") == 1


def test_conflicts_are_told(call, place):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2, ROWS))  # behind b and c: a --> b <-> c <-- d
    a, d = rng.normal(size=(2, ROWS))
    b, c = a + hidden[0] + 0.3 * hidden[1], d + hidden[0] - 0.3 * hidden[1]
    pl.DataFrame({"a": a, "b": b, "c": c, "d": d}).write_csv(place / "hidden.csv")
    _, out, _ = call("hidden.csv", *LINEAR)
    assert "b <-> c" in out
    assert "conflict: " in out
    assert "disagree" in out
    assert "trust neither" in out


# The same as the library.


def test_json_is_what_the_library_says(answer, place):
    found = answer(
        "four.csv", *LINEAR, "--bootstrap", "4", "--seed", "7", "--alpha", "0.1", "--max-given", "1"
    )
    direct = pc(
        pl.read_csv(place / "four.csv"), test="fisher-z", n_bootstrap=4, rng=7, alpha=0.1, max_given=1
    )
    assert edges(found) == [str(edge) for edge in direct.edges]
    assert [edge["pvalue"] for edge in found["edges"]] == [edge.pvalue for edge in direct.edges]
    assert found["pairs"] == direct.table()
    assert (found["bootstrap"], found["alpha"], found["seed"]) == (4, 0.1, 7)
    assert found["tests"] == direct.n_tests
    assert {"pair": ["a", "b"], "given": [], "pvalue": direct.pvalues[frozenset("ab")]} in found[
        "separating_sets"
    ]


def test_residuals_are_tested_by_default_and_kept_in_a_cache(answer, place, tmp_path):
    options = ("four.csv", *QUICK, "--columns", "a,b,c", "--seed", "2", "--cache", tmp_path / "kept")
    found = answer(*options)
    table = pl.read_csv(place / "four.csv").select("a", "b", "c")
    tester = ConditionalTester(table, kernel="median", n_resamples=39, rng=2)
    direct = pc(None, test=tester, rng=2)
    assert edges(found) == [str(edge) for edge in direct.edges] == ["a --> c", "b --> c"]
    assert answer(*options) == found
    # The library with the same seed asks for the same p-values.
    library = pc(table, kernel="median", n_resamples=39, rng=2, cache=tmp_path / "kept")
    assert found["pairs"] == library.table()
    # What is kept is what is reported: nothing is computed again.
    for file in (tmp_path / "kept").rglob("output.pkl"):
        joblib.dump(0.75, file)
    assert {one["pvalue"] for one in answer(*options)["separating_sets"]} == {0.75}


def test_time_is_taken_out_and_is_no_variable(call, answer, place):
    options = ("days.csv", "--time", "day", *QUICK, "--least-timescale", "20")
    found = answer(*options)
    table = pl.read_csv(place / "days.csv", try_parse_dates=True)
    tester = ConditionalTester(
        table, kernel="median", n_resamples=39, prewhiten="day", least_timescale=20.0, rng=0
    )
    assert found["columns"] == ["a", "b", "c"]
    assert edges(found) == [str(edge) for edge in pc(None, test=tester, rng=0).edges]
    assert [one["before"] for one in found["prewhitened"]] == [one.before for one in tester.prewhitened]
    assert found["prewhitened"][0]["before"] > 0.5 > abs(found["prewhitened"][0]["after"])
    assert "trend over day  timescale" in call(*options)[1]


@pytest.mark.parametrize(
    ("options", "background"),
    [
        (["--tier", "d", "--tier", "a,b,c"], Background(tiers=[("d",), ("a", "b", "c")])),
        (["--forbid", "c->d", "--forbid", "a-->c"], Background(forbidden=[("c", "d"), ("a", "c")])),
        (["--require", "a -> b"], Background(required=[("a", "b")])),
    ],
)
def test_what_is_known_beforehand(answer, place, options, background):
    found = answer("four.csv", *LINEAR, *options)
    direct = pc(pl.read_csv(place / "four.csv"), test="fisher-z", background=background)
    assert edges(found) == [str(edge) for edge in direct.edges]
    assert edges(found) != ["a --> c", "b --> c", "c --> d"]
    assert found["background"] == repr(background)


def test_a_required_edge_has_no_p_value(call):
    _, out, _ = call("four.csv", *LINEAR, "--require", "a->b")
    row = next(line for line in out.splitlines() if line.startswith("a --> b") and "cause" not in line)
    assert row.split()[-1] == "known"
    assert "known before  required: a --> b" in out


def test_columns_that_cannot_be_variables_are_left_out(answer):
    found = answer("text.csv", *QUICK)
    assert found["columns"] == ["a", "b", "kind", "n"]
    assert found["left_out"] == {"same": "it does not vary"}
    assert found["verdict"].endswith("Left out: 'same'.")
    assert "column 'n' looks like a row number (it counts up by 1)" in " ".join(found["notes"])


def test_missing_values_are_part_of_their_column(answer, place):
    found = answer("gaps.csv", *QUICK)
    assert (found["columns"], found["samples"][0]["used"]) == (["a", "b", "c"], ROWS)
    assert {edge["a"] for edge in found["edges"]} | {edge["b"] for edge in found["edges"]} <= {"a", "b", "c"}


def test_rows_with_gaps_are_left_out_on_request(answer, place):
    found = answer("gaps.csv", *LINEAR, "--missing", "omit")
    assert found["samples"] == [{"name": "gaps.csv", "rows": ROWS, "used": ROWS - 1}]
    direct = pc(pl.read_csv(place / "gaps.csv"), test="fisher-z", nan_policy="omit")
    assert edges(found) == [str(edge) for edge in direct.edges]


# Files.


@pytest.mark.parametrize("suffix", ["png", "svg", "json"])
def test_the_suffix_says_what_is_written(call, tmp_path, suffix):
    path = tmp_path / f"graph.{suffix}"
    code, out, _ = call("four.csv", *LINEAR, "-o", path)
    assert code == 0
    assert f"wrote {path}" in out
    content = path.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    start = {"png": b"\x89PNG", "svg": b"<?xml", "json": b'{"kembed"'}
    assert content.startswith(start[suffix])
    if suffix == "json":
        assert edges(json.loads(content)) == ["a --> c", "b --> c", "c --> d"]


def test_a_failed_write_leaves_the_old_file(call, tmp_path, monkeypatch):
    path = tmp_path / "graph.json"
    path.write_text("old")

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    code, out, err = call("four.csv", *LINEAR, "-o", path)
    assert (code, out) == (2, "")
    assert "no space left on device" in err
    assert [one.name for one in tmp_path.iterdir()] == ["graph.json"]
    assert path.read_text() == "old"


# Errors.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("one.csv", "a graph needs two columns that vary, but one.csv has 'a'"),
        ("nowhere.csv", "nowhere.csv does not exist"),
        ("gaps.csv --missing raise", "gaps.csv has missing values in 1 of 120 rows"),
        ("gaps.csv --test fisher-z", "gaps.csv has missing values in 'a', and partial correlation has no"),
        ("four.csv --columns a,x", "four.csv has no column 'x'; it has 'a', 'b', 'c', 'd'"),
        ("text.csv --columns a,same", "column 'same' cannot be used: it does not vary"),
        ("days.csv --time when", "days.csv has no column 'when'"),
        ("days.csv --time day --columns day,a", "column 'day' is the time and no variable"),
        ("text.csv --time kind", "--time 'kind' must hold numbers, but in text.csv it holds text"),
        ("days.csv --time day --least-timescale 0", "--least-timescale must be"),
        ("days.csv --least-timescale 20", "--least-timescale is about --time; name the column of times"),
        ("days.csv --time day --test fisher-z", "--time is for --test residuals"),
        ("four.csv --kernel median --test fisher-z", "--kernel is for --test residuals"),
        ("four.csv --resamples 99 --test fisher-z", "--resamples is for --test residuals"),
        ("four.csv --cache one.csv", "--cache one.csv is, or lies in, a file; choose another name"),
        ("four.csv --forbid a-", "--forbid takes a cause and an effect, as in 'a->b', but 'a-' was given;"),
        ("four.csv --forbid a->b->c", "--forbid takes a cause and an effect"),
        ("four.csv --require a->x", "the graph of four.csv has no column 'x'"),
        ("four.csv --tier a, --tier b", "names are given with commas between them"),
        ("four.csv --tier a --tier a", "tiers has 'a' more than once"),
        ("four.csv --require a->b --forbid a->b", "'a' --> 'b' is both required and forbidden"),
        ("four.csv --kernel ard", "--kernel takes fused, bkl, paper, median or a lengthscale such as 2.5"),
        (
            "four.csv --alpha 5",
            "--alpha must lie strictly between 0 and 1, but 5 was given",
        ),
        ("four.csv --alpha 0.001 --resamples 99", "use --resamples 999 or more"),
        ("four.csv --orientation left", "'left' is not one of"),
        ("four.csv -o graph.txt", "-o graph.txt must end in .png or .svg or .pdf or .json"),
        ("four.csv -o nowhere/graph.json", "the folder of -o nowhere/graph.json does not exist"),
        ("text.csv --columns a,kind --test fisher-z", "'kind' of text.csv holds text or categories"),
    ],
)
def test_one_line_says_what_is_wrong(call, arguments, message):
    code, out, err = call(*arguments.split(" "))
    assert (code, out) == (2, "")
    *notes, last = err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert last.startswith("kembed: ")
    assert message in last


# Processes.


def kept(folder) -> int:
    """How many p-values a cache holds."""
    return len(list(Path(folder).rglob("output.pkl")))


def nobody_left(group: int) -> bool:
    """Whether all processes of a group have ended, or do within ten seconds."""
    for _ in range(100):
        if not running_in(group):
            return True
        time.sleep(0.1)
    return False


def running_in(group: int) -> int:
    """How many processes of the group run; one that has ended may stay listed in a container."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return 0
    listed = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            listed.append(file.read_text().rpartition(")")[2].split())
    many = 99  # where the system does not list them
    return sum(int(one[2]) == group and one[0] not in "ZX" for one in listed) if listed else many


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups to interrupt")
def test_an_interrupted_search_ends_its_processes_and_goes_on_later(place, tmp_path):
    command = [sys.executable, "-m", "kembed", "graph", "four.csv", "--bootstrap", "80", "--workers", "2"]
    command += ["--cache", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        end = time.monotonic() + 60.0
        while time.monotonic() < end and (kept(tmp_path) < 5 or running_in(running.pid) < 3):
            time.sleep(0.1)
        assert running_in(running.pid) >= 3  # this one, and two that search resamples
        time.sleep(2.0)
        os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does: to all of them
        out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert (out, err) == ("", "kembed: interrupted\n")
    assert nobody_left(running.pid)
    assert kept(tmp_path) >= 5
