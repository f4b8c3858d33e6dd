"""Round trips: files, sketches, results and words come back as they went."""

import io
import json
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.properties import numbers, pairs_of_tables, tables

import kembed
from kembed import Sketch, learn_kernel, mmd_test, pc
from kembed.cli.words import readable
from kembed.core.text import plain, printable, shortened, visible
from kembed.core.writing import jsonable, write_text
from kembed.report.words import number
from kembed.tables.reader import read, read_tables

names = st.lists(
    st.text(
        st.characters(exclude_categories=("Cs", "Cc"), exclude_characters='"\ufeff'), min_size=1, max_size=6
    )
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=3,
    unique=True,
)
words = st.sampled_from(["red", "green", "blue, light", 'say "no"', "two\nlines", "ü"])


@given(
    names, st.integers(3, 6), st.data(), st.sampled_from([".csv", ".tsv", ".parquet", ".feather", ".jsonl"])
)
def test_files(named, rows, data, suffix):
    columns = {}
    for name in named:
        kind = data.draw(st.sampled_from([numbers, words]))
        columns[name] = data.draw(st.lists(kind, min_size=rows, max_size=rows))
    frame = pl.DataFrame(columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t{suffix}"
        writers = {".parquet": frame.write_parquet, ".feather": frame.write_ipc, ".jsonl": frame.write_ndjson}
        writers.get(suffix, lambda to: frame.write_csv(to, separator="\t" if suffix == ".tsv" else ","))(path)
        found = read({"x": path}, columns=named)[0].table()  # named, so that no identifier is left out
    assert list(found.names) == frame.columns
    for d, name in enumerate(frame.columns):
        assert [found.decoded(d, value) for value in found.values[:, d]] == pytest.approx(
            frame[name].to_list()
        )


@given(tables(rows=st.integers(32, 40)), st.integers(0, 9))
def test_sketches(rows, seed):
    sketch = Sketch.of(rows, kernel="median", rng=seed)
    with tempfile.TemporaryDirectory() as folder:
        again = Sketch.load(sketch.save(Path(folder) / "t.sketch"))
    assert again.features == sketch.features
    assert (again.rows, again.columns) == (sketch.rows, sketch.columns)
    new = rows[:20] + 1.0
    assert (
        mmd_test(again, new, n_resamples=19, rng=0).pvalue
        == mmd_test(sketch, new, n_resamples=19, rng=0).pvalue
    )


@given(pairs_of_tables(rows=st.integers(5, 8)))
def test_results_as_json(samples):
    found = mmd_test(*samples, kernel="median", n_resamples=19, rng=0)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["pvalue"] == found.pvalue


@given(arrays.arrays(float, (20, 3), elements=numbers))
def test_graphs_know_no_order_of_rows(rows):
    rows = rows + np.arange(60).reshape(20, 3) ** 2 % 17 / 4.0  # so that no column is constant
    graph, turned = pc(rows, test="fisher-z"), pc(rows[::-1], test="fisher-z")
    assert [str(edge) for edge in graph.edges] == [str(edge) for edge in turned.edges]
    json.dumps(graph.to_dict(), allow_nan=False)


@given(arrays.arrays(float, (12, 1), elements=numbers), st.sampled_from([0.5, 4.0]), st.integers(-4, 4))
def test_learned_scales_move_with_the_rows(rows, unit, offset):
    rows = rows + np.arange(12.0)[:, None] / 7.0  # at least twelve different ones
    here, there = learn_kernel(rows).kernel, learn_kernel(rows * unit + offset).kernel
    assert float(there.lengthscale) == pytest.approx(unit * float(here.lengthscale), rel=1e-3)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=6, unique=True))
def test_numbers_as_people_write_them(values):
    for form in ("{}", "{:.2f}", "{:,.1f}"):
        written = [form.format(value) for value in values]
        (table,), _ = read_tables({"x": written}, "raise", minimum=1)
        assert table.values[:, 0].tolist() == values


@given(st.lists(words, min_size=2, max_size=8))
def test_levels_are_coded_in_one_order(column):
    (table,), _ = read_tables({"x": np.array(column, dtype=object)}, "raise", minimum=1)
    assert [table.levels[0][int(code)] for code in table.values[:, 0]] == column
    assert list(table.levels[0]) == sorted(table.levels[0])


@given(st.text(max_size=30))
def test_what_is_shown_commands_no_terminal(text):
    for shown in (printable(text), visible(text), readable(ValueError(text))):
        assert shown.isprintable()
    assert len(shortened(text, 12)) <= 12
    buffer = io.StringIO()
    buffer.write(visible(text))
    assert "\n" not in buffer.getvalue()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_numbers_are_written_to_their_digits(value):
    assert float(plain(value, 9)) == pytest.approx(value, rel=1e-7, abs=1e-30)
    assert number(value)
    assert jsonable({"v": value})["v"] == value


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=50))
def test_texts_are_written_whole(text):
    with tempfile.TemporaryDirectory() as folder:
        path = write_text(Path(folder) / "t.txt", text)
        assert path.read_bytes().decode() == text
        assert [one.name for one in Path(folder).iterdir()] == ["t.txt"]


@given(st.sampled_from([kembed.DriftDetector, kembed.MeanEmbedding]), st.data())
def test_estimators_give_their_parameters_back(make, data):
    from sklearn.base import clone

    seed = data.draw(st.integers(0, 99))
    estimator = make(kernel="median", random_state=seed)
    assert clone(estimator).get_params() == estimator.get_params()
