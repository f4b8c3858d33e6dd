"""Notes on data: said where they are true, and not said of plain data."""

import numpy as np
import pandas as pd
import pytest

from kembed import compare, conditional_test, hsic_test, k_sample_test, mmd_test, pc, witness
from kembed.tables import diagnostics
from kembed.tables.reader import read_tables

QUICK = {"kernel": "median", "n_resamples": 19, "rng": 0}


def notes(x, y, **how) -> str:
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=1, same_columns=True)
    return "; ".join(diagnostics.of_two_samples(*tables, **how))


def series(rng, n, memory):
    x = rng.normal(size=n)
    for t in range(1, n):
        x[t] += memory * x[t - 1]
    return x


def test_plain_data_have_no_notes(rng):
    for n in (5, 20, 100, 1000):
        assert notes(rng.normal(size=(n, 3)), rng.normal(size=(n, 3))) == ""
        assert notes(rng.integers(0, 9, (n, 2)), rng.integers(0, 9, (n, 2))) == ""
    ages = rng.integers(18, 80, 200).astype(float)
    assert notes(ages[:100], ages[100:]) == ""
    assert notes(rng.normal(size=(60, 2)).round(1), rng.normal(size=(70, 2)).round(1)) == ""
    assert notes(["a", "b"] * 20, ["b", "c"] * 20) == ""


def test_rare_false_alarms():
    rng = np.random.default_rng(0)
    said = sum(bool(notes(rng.normal(size=(50, 4)), rng.normal(size=(50, 4)))) for _ in range(300))
    assert said == 0


def test_repeated_rows(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(50, 2))
    assert "every row of x occurs 3 times; the test assumes independent rows" in notes(np.repeat(x, 3, 0), y)
    assert "every row of y occurs twice" in notes(x, np.tile(y, (2, 1)))
    assert "10 of 50 rows of x repeat others" in notes(np.vstack([x, x[:10]]), y)
    coded = pd.DataFrame({"g": ["a", "b", "c", "d", "e"] * 6})
    assert "every row of x occurs 6 times" in notes(coded, coded.iloc[:29])
    even = pd.DataFrame({"g": np.repeat(list("abcdef"), [2, 4, 8, 6, 2, 4])})  # one in 64 by chance
    assert notes(even, coded.iloc[:29]) == ""
    assert "every row of x occurs twice" in notes(x[:6].repeat(2, axis=0), y)


def test_the_same_rows_in_both(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(50, 2))
    assert "x and y have 5 different rows in common; the test assumes independent samples" in notes(
        np.vstack([x, y[:5]]), y
    )
    assert "x and y have all different rows in common" in notes(x, x[::-1])


def test_pairs(rng):
    before = rng.normal(size=60)
    after = before + rng.normal(0.5, 0.4, size=60)
    assert "row by row x and y go together in 'column 0' (correlation 0.9" in notes(before, after)
    assert notes(before, after, paired=True) == ""
    assert "row by row" not in notes(np.sort(before), np.sort(rng.normal(size=60)))  # sorted alike
    assert "row by row" not in notes(before, after[::-1])
    gaps = np.where(rng.random(60) < 0.1, np.nan, before)
    assert any(
        "row by row x and y go" in note for note in mmd_test(gaps, after, nan_policy="omit", **QUICK).notes
    )


def test_rows_in_order(rng):
    x, y = series(rng, 200, 0.8), rng.normal(size=200)
    assert "neighbouring rows of x are alike in 'column 0' (correlation 0." in notes(x, y)
    assert "use null='wild'" in notes(x, y)
    assert notes(x, y, ordered=True) == ""
    assert "neighbouring" not in notes(np.sort(x), y)  # sorted, which is no series
    both = np.column_stack([x, series(rng, 200, 0.8)])
    assert "and 1 more (correlation" in notes(both, rng.normal(size=(90, 2)))


def test_a_sorted_file_is_no_series(rng):
    """Neighbours are alike in what goes with the column that the rows are sorted by, and in nothing else."""
    x, y = (pd.DataFrame({"age": rng.integers(20, 60, 300).astype(float)}) for _ in range(2))
    for table in (x, y):
        table["income"] = table.age + rng.normal(0.0, 8.0, 300)
        table["old"] = (table.age > 40) + 0.0
    ordered = x.sort_values("age"), y.sort_values(["old", "income"], ascending=False)
    assert not any("neighbouring" in note for note in mmd_test(*ordered, **QUICK).notes)
    walk = x.assign(income=np.cumsum(rng.normal(size=300)), age=np.sort(x.age))  # a series as well
    assert any("neighbouring rows of x" in note for note in mmd_test(walk, y, **QUICK).notes)


def test_a_series_with_a_clock_is_a_series(rng):
    x = pd.DataFrame({"year": np.arange(200.0), "level": np.cumsum(rng.normal(0.3, 1.0, size=200))})
    assert "neighbouring rows of x are alike in 'level'" in notes(x, x[::-1].iloc[rng.permutation(200)])


def test_clusters_in_one_sample(rng):
    """Villages are in one arm as a whole; by chance one of 8 rows is once in 128."""
    village = np.repeat(np.arange(40), 8)
    table = pd.DataFrame({"village": [f"v{k}" for k in village], "yield": rng.normal(size=320)})
    arm = np.isin(village, rng.permutation(40)[:20])
    seen = "rows of one 'village' lie in one sample only"
    wanted = f"{seen}; if rows of one 'village' are alike, pass unit='village' (--unit)"
    for each in (table, table.assign(village=village)):
        assert wanted in mmd_test(each[arm], each[~arm], **QUICK).notes
        assert wanted in compare(each[arm], each[~arm], **QUICK).test.notes
        assert wanted not in mmd_test(each[arm], each[~arm], unit="village", **QUICK).notes
    single = rng.permutation(arm)  # rows, not villages, are in either arm
    assert wanted not in notes(table[single], table[~single])
    ages = pd.DataFrame({"age": rng.integers(20, 60, 320)})  # a column that differs is no cluster
    assert "lie in one sample" not in notes(ages[ages.age < 40], ages[ages.age >= 40])


def test_identifiers_and_clocks(rng):
    one, other = np.arange(30.0), np.arange(100.0, 140.0)
    assert "column 'column 0' looks like a row number (it counts up by 1); consider excluding it" in notes(
        one, other
    )
    assert "looks like an ID or a timestamp (it rises from row to row)" in notes(one**1.5, other)
    assert "falls from row to row" in notes(-one, -other)
    incomes = rng.choice(100_000, 80, replace=False).astype(float)  # all different by chance
    assert notes(incomes[:40], incomes[40:]) == ""


def test_numbers_of_any_size_make_no_trouble(rng):
    for size in (1e-300, 1e150, 9e299):
        x = rng.normal(size=(40, 2)).clip(-1, 1) * size
        assert "neighbouring" not in notes(x, x[::-1] * 0.5)


def test_results_carry_them(rng):
    x, y = np.repeat(rng.normal(size=(30, 1)), 3, axis=0), rng.normal(size=(40, 1))
    found = mmd_test(x, y, **QUICK)
    assert any("occurs 3 times" in note for note in found.notes)
    assert f"\nnote: {found.notes[0]}" in repr(found)
    assert found.to_dict()["notes"] == list(found.notes)
    assert compare(x, y, **QUICK).to_dict()["notes"] == list(found.notes)
    smooth = series(rng, 100, 0.9)
    told = hsic_test(smooth, rng.normal(size=100), **QUICK).notes
    assert any("neighbouring rows of x" in note for note in told)
    assert any("use null='shift'" in note for note in told)
    assert hsic_test(smooth, smooth, null="wild", **QUICK).notes == ()
    assert hsic_test(smooth, smooth, null="shift", **QUICK).notes == ()
    given = conditional_test(
        ["1,000.5", "2,000.5", "3,000.5", "5,000.5", "8,000.5"] * 8,
        smooth[:40],
        rng.normal(size=40),
        rng=0,
        n_resamples=19,
    )
    assert any(note.startswith("x read as numbers (") for note in given.notes)
    prices = mmd_test(["1,000.5", "2,000.5"] * 3, ["2,000.5", "4,000.5"] * 4, **QUICK).notes
    assert any(note.startswith("column 0 read as numbers (") for note in prices)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_rows(n):
    x = np.arange(float(n))
    assert diagnostics.counting([x]) in ("", "a row number (it counts up by 1)") if n else True
    assert notes(np.arange(max(n, 1.0)), [3.0, 1.0]) == ""


def test_all_results_carry_notes():
    rng = np.random.default_rng(0)
    x, y = np.repeat(rng.normal(size=(40, 2)), 3, axis=0), rng.normal(size=(100, 2))
    copied = "every row of x occurs 3 times; the test assumes independent rows, so remove duplicates"
    found = witness(x, y, kernel="median")
    assert copied in found.notes
    assert copied in found.to_dict()["notes"]
    several = k_sample_test(x, y, y[:50], kernel="median", n_resamples=19)
    assert any("every row of sample 1 occurs 3 times" in note for note in several.test.notes)
    assert any(
        "sample 2 and sample 3 have 50 different rows in common" in note for note in several.test.notes
    )
    graph = pc(
        np.column_stack([y, np.arange(100.0), np.sort(y[:, 0]) + np.tile([0.0, 0.1], 50)]), test="fisher-z"
    )
    assert any("'column 2' looks like a row number" in note for note in graph.notes)
    assert any(note.endswith("pre-whiten, prewhiten= (--time)") for note in graph.notes)
    assert graph.to_dict()["notes"] == list(graph.notes)
    conditional = conditional_test(x[:, 0], x[:, 1], y[:1].repeat(120, axis=0), n_resamples=19)
    assert any("prewhiten= or dependence_length=" in note for note in conditional.notes)


def test_chance_ties_are_no_copies(rng):
    n = 1000
    pay = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(size=n) * 1e4)  # many without pay, of few ages
    jobs = np.column_stack([rng.integers(20, 30, n), rng.integers(0, 2, n), pay])
    assert notes(jobs[:500], jobs[500:]) == ""
    inches = np.column_stack([rng.normal(67, 2.5, n).round() * 2.54 / 3, rng.integers(8, 14, n)])
    assert notes(inches[:500], inches[500:]) == ""
    returns = np.where(rng.random(n) < 0.15, 0.0, rng.normal(size=n))  # days without a trade
    assert notes(returns[:500], returns[500:]) == ""
    prices = np.log(rng.integers(1000, 9000, n) / 1000)  # one column, rounded before the logarithm
    assert notes(prices[:500], prices[500:]) == ""


def test_copies_among_ties(rng):
    pay = np.where(rng.random(400) < 0.4, 0.0, rng.lognormal(size=400))
    jobs = np.column_stack([rng.integers(20, 70, 400), pay])
    copied = np.vstack([jobs, jobs[:100]])
    assert "repeat others" in notes(copied, rng.normal(size=(50, 2)))
    assert "different rows in common" in notes(jobs, copied[350:])
    values = rng.normal(size=100)
    assert "100 of 200 rows of x repeat others" in notes(np.repeat(values, [1, 3] * 50), rng.normal(size=90))
    drawn = rng.choice(values, 100)  # a bootstrap sample
    assert "rows of x repeat others" in notes(drawn, rng.normal(size=90))


def test_the_same_rounded_rows_in_another_order(rng):
    x = rng.normal(size=(60, 3)).round(1)
    assert "x and y have all different rows in common" in notes(x, rng.permutation(x))
    assert notes(x, rng.normal(size=(60, 3)).round(1)) == ""
    assert notes(np.tile([0.0, 1.0], 20), np.repeat([0.0, 1.0], 20)) == ""


def test_rare_values_that_meet_are_no_series():
    rng, said = np.random.default_rng(1), []
    for _ in range(300):
        few = np.zeros((60, 8))
        few[rng.permuted(np.tile(np.arange(60), (8, 1)), axis=1)[:, :3], np.arange(8)[:, None]] = 1.0
        wild = rng.standard_cauchy((60, 8)) ** 3
        said += [notes(few[:30], few[30:]), notes(wild[:30], wild[30:])]
    assert {*said} == {""}


def test_dates_are_no_row_numbers():
    days = pd.Series(pd.date_range("2020-01-01", periods=60))
    wanted = "column 'column 0' looks like an ID or a timestamp (it rises from row to row)"
    assert wanted in notes(days[:30], days[30:])


def test_repeated_rows_of_two_sides(rng):
    x, y = np.repeat(rng.normal(size=(2, 30)), 3, axis=1)
    copied = "every row of x and y occurs 3 times; the test assumes independent rows, so remove duplicates"
    assert copied in hsic_test(x, y, **QUICK).notes
    assert hsic_test(x, rng.normal(size=90), **QUICK).notes[0].startswith("neighbouring")
    assert copied in conditional_test(x, y, n_resamples=19, rng=0).notes
    assert "every row of data occurs 3 times" in " ".join(pc(np.column_stack([x, y]), test="fisher-z").notes)
    assert copied not in hsic_test(x, y, unit=3, **QUICK).notes


def test_rows_that_belong_together_are_pointed_to_units(rng):
    panel = np.repeat(rng.normal(size=30), 5) + 0.1 * rng.normal(size=150)
    assert "for clusters of rows name them, unit=" in notes(panel, rng.normal(size=90))
    assert any("unit=" in note for note in hsic_test(panel, panel, **QUICK).notes)


def test_a_graph_tells_once_of_rows_in_order(rng):
    told = pc(np.cumsum(rng.normal(size=(200, 4)), axis=0), n_resamples=39).notes
    assert [note for note in told if "neighbouring" in note] == [next(iter(told))]
    assert "and 3 more (correlation" in told[0]


def test_a_column_that_separates_the_samples_is_noted():
    rng = np.random.default_rng(0)
    x, y = (
        pd.DataFrame({"day": rng.permutation(30) + first, "v": rng.normal(size=30)}) for first in (0.5, 40.5)
    )
    (note,) = mmd_test(y, x, rng=0, n_resamples=19).notes
    seen = "every value of column 'day' in y is below every one in x"
    assert note == f"{seen}; if it is a time or an identifier, exclude it"
    assert mmd_test(x, y, unit="day", rng=0, n_resamples=19).notes == ()
