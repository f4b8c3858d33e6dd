"""Pairs by a column: the same answer as rows that were put in order by hand, whatever the column is."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kembed
from kembed.cli import run

QUICK = {"n_resamples": 99, "rng": 0}


@pytest.fixture(scope="module")
def visits():
    """Sixty patients before and after, who come in another order, and a few who came once."""
    rng = np.random.default_rng(0)
    level = 5.0 * rng.normal(size=60)
    ids = np.array([f"p{number:03d}" for number in rng.permutation(999)[:60]])
    before = pd.DataFrame({"id": ids, "v": level + rng.normal(size=60), "w": rng.normal(size=60)})
    after = pd.DataFrame({"id": ids, "v": level + rng.normal(0.8, 1.0, 60), "w": rng.normal(size=60)})
    order = rng.permutation(60)
    return before.iloc[:57], after.iloc[order].iloc[:58].reset_index(drop=True)


def by_hand(before, after):
    both = before.merge(after, on="id", suffixes=("", "_after"))
    return both[["v", "w"]], both[["v_after", "w_after"]].set_axis(["v", "w"], axis=1)


def test_rows_are_matched_by_their_values(visits):
    result = kembed.mmd_test(*visits, paired="id", by_column=True, **QUICK)
    alone = kembed.mmd_test(*by_hand(*visits), paired=True, by_column=True, **QUICK)
    assert result.pvalue == alone.pvalue == 0.01
    assert result.sizes == alone.sizes
    assert [column.pvalue for column in result.columns] == [column.pvalue for column in alone.columns]
    assert kembed.mmd_test(visits[0][["v", "w"]], visits[1][["v", "w"]], **QUICK).pvalue > 0.05


def test_rows_without_a_partner_are_named(visits):
    before, after = visits
    lone = len(set(before["id"]) - set(after["id"])), len(set(after["id"]) - set(before["id"]))
    (note,) = (n for n in kembed.mmd_test(*visits, paired="id", **QUICK).notes if "partner" in n)
    assert note.startswith(f"{lone[0]} of 57 rows of x and {lone[1]} of 58 rows of y have no partner by 'id'")
    assert "'p" in note


@pytest.mark.parametrize("kind", ["numbers", "dates", "polars"])
def test_any_kind_of_column_matches(visits, kind):
    expected = kembed.mmd_test(*visits, paired="id", **QUICK).pvalue
    names = {name: place for place, name in enumerate(sorted(set(visits[0]["id"]) | set(visits[1]["id"])))}
    pair = [table.assign(id=table["id"].map(names)) for table in visits]
    if kind == "dates":
        days = [pd.Timestamp("2024-01-01") + pd.to_timedelta(table["id"], "D") for table in pair]
        pair = [table.assign(id=day) for table, day in zip(pair, days, strict=True)]
    if kind == "polars":
        pair = [pl.from_pandas(table) for table in visits]
    assert kembed.mmd_test(*pair, paired="id", **QUICK).pvalue == expected


def test_more_texts_than_a_category_has_levels():
    """Beyond 10,000 levels text is compared in groups; as a key every value counts."""
    rng = np.random.default_rng(0)
    ids = np.array([f"key {number}" for number in range(12_000)])
    level = rng.normal(size=12_000)
    before = pl.DataFrame({"id": ids, "v": level})
    order = rng.permutation(12_000)
    after = pl.DataFrame({"id": ids[order], "v": (level + 1.0)[order]})
    result = kembed.mmd_test(before, after, paired="id", kernel="median", **QUICK)
    alone = kembed.mmd_test(level, level + 1.0, paired=True, kernel="median", **QUICK)
    assert result.sizes == (12_000, 12_000)
    assert result.statistic == pytest.approx(alone.statistic)
    assert not any("groups by a hash" in note for note in result.notes)


def test_missing_values_of_other_columns(visits):
    before, after = (table.copy() for table in visits)
    before.loc[3:8, "w"] = np.nan
    with pytest.raises(ValueError, match="x has missing values"):
        kembed.mmd_test(before, after, paired="id", **QUICK)
    omitted = kembed.mmd_test(before, after, paired="id", nan_policy="omit", **QUICK)
    by = by_hand(before, after)
    alone = kembed.mmd_test(*by, paired=True, nan_policy="omit", **QUICK)
    assert omitted.sizes == alone.sizes
    assert omitted.pvalue == alone.pvalue
    found = kembed.compare(before, after, paired="id", **QUICK)
    summary = next(column for column in found.columns if column.name == "w")
    assert summary.missing == pytest.approx((by[0]["w"].isna().mean(), 0.0))


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        (
            lambda t: t,
            "name",
            "pairs by 'name' cannot be made: the samples have 'v', 'w'; name one",
        ),
        (lambda t: t.assign(id=t["id"].where(t.index != 4)), "id", "'id' has missing values in x"),
        (
            lambda t: t.assign(id="a"),
            "id",
            r"1 value of 'id' is repeated in x \('a'\); pair by a column",
        ),
        (lambda t: t.assign(id=t["id"] + "x"), "id", "0 values of 'id' occur in both samples; at least 2"),
        (lambda t: t[["id"]], "id", "no other column to compare"),
    ],
)
def test_refuses(visits, change, key, message):
    before, after = visits
    after = after[["id"]] if change(before).shape[1] == 1 else after
    with pytest.raises(ValueError, match=message):
        kembed.mmd_test(change(before), after, paired=key, nan_policy="include", **QUICK)


def test_a_wrong_type_is_refused(visits):
    with pytest.raises(TypeError, match="paired must be True or False"):
        kembed.mmd_test(*visits, paired=1, **QUICK)
    with pytest.raises(ValueError, match="cannot be made: only x has it"):
        kembed.compare(visits[0], visits[1].drop(columns="id"), paired="id", **QUICK)


def test_the_commands_pair_by_a_column(visits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for table, name in zip(visits, ("before.csv", "after.csv"), strict=True):
        table.to_csv(name, index=False)
    pd.concat([t.assign(time=k) for k, t in enumerate(visits)]).to_csv("long.csv", index=False)
    expected = kembed.mmd_test(*visits, paired="id", by_column=True, **QUICK)
    quick = ["--resamples", "99", "--json"]
    told = []
    for command in (
        ["test", "before.csv", "after.csv", "--by-column"],
        ["test", "long.csv", "--group", "time", "--by-column"],
        ["report", "before.csv", "after.csv"],
    ):
        assert run([*command, "--paired-by", "id", *quick]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [one["pvalue"] for one in told] == [expected.pvalue] * 3
    assert told[0]["columns"] == told[2]["columns"] == ["v", "w"]
    assert told[0]["samples"][0] == {"name": "before.csv", "rows": 57, "used": expected.sizes[0]}
    assert any("no partner by 'id'" in note for note in told[2]["notes"])
    for wrong, message in (
        (["--paired-by", "name"], "has no column 'name'"),
        (["--paired-by", "id", "--max-rows", "20"], "leave one of them out"),
        (["--paired-by", "id", "--columns", "id"], "there is no other column to compare"),
        (["--paired-by", "id", "--unit", "w"], "leave unit out"),
    ):
        assert run(["test", "before.csv", "after.csv", *wrong]) == 2
        assert message in capsys.readouterr().err
