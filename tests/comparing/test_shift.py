"""What kind of shift: the answers, where the relation changed, the overlap, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import kembed
from kembed.cli import run
from kembed.comparing import shift as relation
from kembed.comparing.shift import (
    Overlap,
    Profile,
    TargetDifference,
    _inside,
    _joined,
    differences,
    find_shift,
)
from kembed.tables.reader import read
from kembed.testing.procedure import read_procedure

QUICK = {"n_resamples": 99, "rng": 0}


def tables(seed=1, rows=350, *, moved=1.0, change=0.0, where=-np.inf):
    """Two samples: the input a moves, and y changes where a exceeds `where`."""
    rng = np.random.default_rng(seed)

    def sample(second):
        a = rng.normal(moved * second, 1.0, rows)
        b = rng.normal(size=rows)
        y = np.sin(a) + 0.5 * b + 0.7 * rng.normal(size=rows) + change * second * (a > where)
        return pd.DataFrame({"a": a, "b": b, "y": y})

    return sample(0), sample(1)


def read_pair(pair):
    one, other = read({"x": pair[0], "y": pair[1]}, nan_policy="include")
    return one.table(), other.table()


def shift_of(pair):
    """What `compare(target="y")` asks for, without all else."""
    procedure = read_procedure("auto", "permutation", 99, None, 0)
    return find_shift(read_pair(pair), "y", ("train", "live"), 0.05, "fused", procedure)


@pytest.fixture(scope="module")
def moved():
    """Only the inputs change."""
    return shift_of(tables(seed=4))


@pytest.fixture(scope="module")
def raised():
    """Inputs change, and y is raised where a exceeds 1."""
    return shift_of(tables(change=1.5, where=1.0))


def test_a_covariate_shift_is_no_change_of_the_relation(moved):
    assert moved.inputs.pvalue == moved.target_alone.pvalue == 0.01
    assert moved.relation.pvalue > 0.05
    assert moved.kinds == ("covariate shift",)
    assert moved.regions == ()
    assert not moved.changed
    assert "no change of y at equal inputs was found" in moved.verdict
    low, high = moved.average.interval
    assert low < 0.0 < high


def test_a_concept_shift_is_found_and_located(raised):
    assert raised.kinds == ("concept shift", "covariate shift")
    assert raised.relation.pvalue == 0.01
    (region,) = raised.regions
    assert region.column == "a"
    assert 0.7 < region.box[0] < 1.3
    assert region.box[1] > 2.0
    assert region.interval[0] < 1.5 < region.interval[1]
    assert "The difference varies along a: where a is " in raised.verdict
    assert raised.profiles[0].column == "a"
    assert raised.profiles[0].pvalue < 0.001 < raised.profiles[-1].pvalue


def test_the_tests_are_those_of_the_public_functions():
    """P(y | inputs) is `conditional_test` of y and the sample, where all rows overlap."""
    first, second = tables(moved=0.3, rows=150)
    found = shift_of((first, second))
    assert found.relation.overlap == Overlap((150, 150), (1.0, 1.0))
    both = pd.concat([first, second], ignore_index=True)
    sample = np.repeat([0.0, 1.0], 150)
    alone = kembed.conditional_test(both[["y"]], sample, both[["a", "b"]], n_resamples=99, rng=3)
    assert found.relation.test.statistic == pytest.approx(alone.statistic, rel=0.05)  # other random signs
    assert found.relation.test.regressions[0][0].unexplained == pytest.approx(
        alone.regressions[0][0].unexplained
    )


def test_neither_the_order_of_rows_nor_that_of_samples_matters(raised):
    first, second = tables(change=1.5, where=1.0)
    again = shift_of((first.sample(frac=1, random_state=0)[["y", "b", "a"]], second[::-1]))
    assert again.relation.pvalue == raised.relation.pvalue
    assert again.average.value == pytest.approx(raised.average.value, rel=1e-6)
    turned = shift_of((second, first))
    assert turned.relation.pvalue == pytest.approx(raised.relation.pvalue, abs=0.02)
    assert turned.average.value == pytest.approx(-raised.average.value, rel=1e-6)
    assert turned.regions[0].box == raised.regions[0].box


def test_the_difference_is_least_squares_of_residuals(monkeypatch):
    """τ and its error as a loop over the rows of a group."""
    rng = np.random.default_rng(0)
    r, e, some = rng.normal(size=60), rng.normal(size=60), rng.random(60) < 0.5
    value, error = relation._estimate(r, e, some)
    rows = np.flatnonzero(some)
    total = sum(r[i] ** 2 for i in rows)
    slope = sum(r[i] * e[i] for i in rows) / total
    squares = sum((r[i] * (e[i] - slope * r[i])) ** 2 for i in rows)
    assert value == pytest.approx(slope)
    assert error == pytest.approx(np.sqrt(squares * len(rows) / (len(rows) - 1)) / total)
    assert relation._estimate(np.zeros(5), np.ones(5), np.ones(5, bool)) == (0.0, float("inf"))


def test_without_inputs_that_matter_the_average_is_the_difference_of_means():
    rng = np.random.default_rng(0)
    first = pd.DataFrame({"a": rng.normal(size=400), "y": rng.normal(size=400)})
    second = pd.DataFrame({"a": rng.normal(size=400), "y": rng.normal(0.8, 2.0, 400)})
    found = shift_of((first, second))
    assert found.average.value == pytest.approx(second["y"].mean() - first["y"].mean(), abs=0.02)
    error = np.sqrt(first["y"].var() / 400 + second["y"].var() / 400)
    half = found.average.interval[1] - found.average.value
    assert half == pytest.approx(1.96 * error, rel=0.05)
    ratio, low, high = found.spread
    assert ratio == pytest.approx(second["y"].std() / first["y"].std(), rel=0.03)
    assert low < 2.0 < high
    assert found.kinds == ("concept shift",)
    assert found.regions == ()
    assert "does not vary clearly along any single input" in found.verdict
    assert f"Its spread there is {ratio:.2g} times as wide" in found.verdict


def test_categories_of_the_target_are_shares():
    rng = np.random.default_rng(2)

    def sample(more, n=500):
        a, town = rng.normal(size=n), rng.choice(["Aix", "Bonn"], n)
        chance = 1.0 / (1.0 + np.exp(-a)) * 0.6 + more * (town == "Bonn")
        return pd.DataFrame({"a": a, "town": town, "y": np.where(rng.random(n) < chance, "yes", "no")})

    found = shift_of((sample(0.0), sample(0.3)))
    assert found.kinds == ("concept shift",)
    assert found.spread is None
    region = found.regions[0]
    assert (region.column, region.box, region.level) == ("town", ("Bonn",), "yes")
    assert region.interval[0] < 0.3 < region.interval[1]
    assert "where town is 'Bonn' y is 'yes' " in found.verdict
    assert "percentage points more often in live" in found.verdict


def test_a_label_shift_is_called_one():
    rng = np.random.default_rng(0)

    def sample(share, n=400):
        y = rng.random(n) < share
        return pd.DataFrame({"a": rng.normal(1.5 * y), "y": np.where(y, "ill", "well")})

    found = shift_of((sample(0.2), sample(0.6)))
    assert found.inputs.pvalue == found.relation.pvalue == found.target_alone.pvalue == 0.01
    assert found.reverse.pvalue > 0.05
    assert found.kinds == ("label shift",)
    assert (
        "This is label shift: y changed, and no change of the inputs at equal y was found." in found.verdict
    )


def test_poor_overlap_is_refused_with_its_reason():
    found = shift_of(tables(moved=12.0))
    assert found.relation.test is None
    assert np.isnan(found.relation.pvalue)
    assert found.kinds == ()
    assert "whether y changed at equal inputs cannot be said: only " in found.verdict
    assert "lie where both samples have rows; at least 50 of each" in found.verdict
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["relation"]["pvalue"] is None
    with pytest.raises(ValueError, match="nothing to draw: only"):
        found.plot()


def test_rows_beyond_the_overlap_are_left_out():
    """The relation changes only where the first sample has no rows: that is not seen, and said."""
    rng = np.random.default_rng(3)
    first = pd.DataFrame({"a": rng.uniform(0.0, 2.0, 500)})
    second = pd.DataFrame({"a": rng.uniform(1.0, 4.0, 500)})
    for table in (first, second):
        table["y"] = table["a"] + 0.5 * rng.normal(size=500)
    second.loc[second["a"] > 2.5, "y"] += 5.0
    found = shift_of((first, second))
    assert found.relation.pvalue > 0.05
    assert found.relation.overlap.shares[0] < 0.75
    assert found.relation.overlap.shares[1] < 0.6
    assert "where both samples have rows: " in found.verdict


def test_the_share_of_either_sample_does_not_decide_on_overlap():
    """Probabilities for samples of equal size: 1% of all rows may be all that the second has."""
    chance = np.array([0.0, 0.0004, 0.01, 0.2, 1.0])
    np.testing.assert_array_equal(_inside(chance, 0.01), [False, False, True, False, False])
    np.testing.assert_array_equal(_inside(1.0 - chance, 0.99), [False, False, True, False, False])
    assert Overlap((50, 800), (0.05, 0.2)).refusal == ""
    assert "only 49 and 800 rows (5% and 20%)" in Overlap((49, 800), (0.05, 0.2)).refusal
    assert Overlap((500, 800), (0.05, 0.02)).refusal


def test_too_many_inputs_are_refused():
    rng = np.random.default_rng(0)
    first, second = (pd.DataFrame(rng.normal(size=(60, 40))).add_prefix("v").assign(y=1.0) for _ in range(2))
    first["y"], second["y"] = rng.normal(size=60), rng.normal(size=60)
    found = shift_of((first, second))
    assert found.relation.overlap is None
    assert "make 40 columns (every category is one), too many for 120 rows; give 5 rows a column" in (
        found.relation.refusal
    )


def test_a_target_that_the_inputs_determine_has_not_changed():
    first, second = tables()
    for table in (first, second):
        table["y"] = 2.0 * table["a"] - table["b"]
    found = shift_of((first, second))
    assert found.target_alone.pvalue == 0.01
    assert found.relation.pvalue > 0.5
    assert found.kinds == ("covariate shift",)


def test_missing_values_of_the_target_belong_to_it():
    first, second = tables(moved=0.0, rows=400, seed=2)
    second.loc[second["a"] > 0.5, "y"] = np.nan
    found = shift_of((first, second))
    assert found.changed
    assert found.inputs.pvalue > 0.05
    assert {profile.column for profile in found.profiles} == {"a", "b"}
    (along,) = (profile for profile in found.profiles if profile.column == "a")
    assert max(group.box[0] for group in along.groups) < 0.5


def test_neighbouring_groups_are_joined():
    def group(low, high, value, half, share=0.25):
        return TargetDifference("a", (low, high), None, value, (value - half, value + half), (share, share))

    groups = (group(0.0, 1.0, 2.0, 1.0), group(1.0, 2.0, 4.0, 1.0, 0.5), group(2.0, 3.0, 0.5, 1.0))
    profile = Profile("a", None, 0.01, (*groups, group(3.0, 4.0, -3.0, 1.0), group(4.0, 5.0, 3.0, 1.0)))
    found = profile.regions
    assert [one.box for one in found] == [(0.0, 2.0), (3.0, 4.0), (4.0, 5.0)]
    assert found[0].value == pytest.approx((0.5 * 2.0 + 1.0 * 4.0) / 1.5)
    assert found[0].interval == pytest.approx((found[0].value - 1.0, found[0].value + 1.0))
    assert _joined(groups[0], groups[1]).shares == (0.75, 0.75)
    assert found[0].describe("y", "live") == "where a is 0 to 2 y is 3.33 higher in live (2.33 to 4.33)"


def test_bands_hold_for_all_groups_at_once():
    """Of 40 draws with nothing changed, at most 6 have any band that excludes 0 (P(more) = .003 at .05)."""
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pair = []
        for _ in range(2):
            a = rng.normal(size=(150, 2))
            pair.append(pd.DataFrame({"a": a[:, 0], "b": a[:, 1], "y": a[:, 0] + rng.normal(size=150)}))
        table = read_pair((pd.concat(pair, ignore_index=True), pair[0]))[0]
        y, x, second = table.columns([2]), table.columns([0, 1]), np.arange(300) >= 150
        compared = relation._regressed(y, x, second, rng.permutation(300))
        wrong += any(group.sure for profile in differences(compared, 0.05)[2] for group in profile.groups)
    assert wrong <= 6


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        ("z", {}, ValueError, "target='z' is not a column; the samples have 'a', 'b', 'y'"),
        (2, {}, TypeError, "target must be the name of a column, but 2 was given"),
        ("y", {"paired": True}, ValueError, "leave one of them out"),
        ("y", {"strata": "b"}, ValueError, "but strata= was given"),
    ],
)
def test_refuses(target, options, error, message):
    with pytest.raises(error, match=message):
        kembed.compare(*tables(rows=20), target=target, **options, **QUICK)


def test_a_target_needs_inputs_and_both_samples():
    first, second = tables(rows=30)
    with pytest.raises(ValueError, match="target='y' is the only column"):
        kembed.compare(first[["y"]], second[["y"]], target="y", **QUICK)
    with pytest.raises(ValueError, match="target='y' cannot be used: only x has it"):
        kembed.compare(first, second[["a", "b"]], target="y", **QUICK)


def test_the_comparison_the_report_and_the_command_line_say_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for table, name in zip(tables(change=2.0, where=0.5, rows=150), ("train.csv", "live.csv"), strict=True):
        table.to_csv(name, index=False)
    few = {"n_resamples": 39, "rng": 0}
    code = run(["report", "train.csv", "live.csv", "--target", "y", "--resamples", "39", "--json"])
    told = json.loads(capsys.readouterr().out)
    found = kembed.compare("train.csv", "live.csv", labels=("train.csv", "live.csv"), target="y", **few)
    assert code == 0
    assert told["shift"] == json.loads(json.dumps(found.to_dict()["shift"]))
    assert found.shift.verdict in told["verdict"]
    page = (tmp_path / "report.html").read_text()
    assert "What kind of shift?" in page
    assert "Concept shift and covariate shift" in page
    assert "--target y" in page
    assert "target=&#39;y&#39;" in page
    for wrong, message in (("z", "has no column 'z'"), ("y --unit b", "leave --unit out")):
        assert run(f"report train.csv live.csv --target {wrong}".split()) == 2
        assert message in capsys.readouterr().err


def test_it_is_drawn(raised):
    axes = raised.plot()
    assert axes.get_xlabel() == "a"
    assert "live less train" in axes.get_ylabel()
    assert raised.plot(column="b").get_xlabel() == "b"
    with pytest.raises(ValueError, match="column must be an input, 'a', 'b'"):
        raised.plot(column="y")
    assert "<table>" in raised._repr_html_()
    assert repr(raised).splitlines()[1].startswith("  where a is ")
