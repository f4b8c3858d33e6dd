"""Many rows: regressions on a shared basis, and screening on few of them."""

import numpy as np
import pytest
from tests import reference

from kembed import ConditionalTester, pc
from kembed.conditional.features import SCREENING_ROWS as ROWS
from kembed.conditional.features import Screening, Settings, TableFeatures
from kembed.conditional.regression import MANY_ROWS, Conditioner, column_basis
from kembed.conditional.residuals import Variable

NUMERIC = np.zeros(1, dtype=bool)


def conditioner(Z):
    return Conditioner(Z, many=True)


def test_features_of_a_column_are_those_of_its_kernel():
    x = np.random.default_rng(0).normal(size=300)
    F = column_basis(x, 0.35, 28, many=True).features
    K = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 0.35**2)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    np.testing.assert_allclose(F @ F.T, K, atol=5e-3)  # negligible eigenvalues are dropped


def test_residuals_are_those_of_ridge_regression():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 2))
    x = Z[:, 0] ** 2 + Z[:, 1] + 0.3 * rng.normal(size=200)
    given = conditioner(Z)
    learned, residuals = given.fit(x)
    found = residuals(x[:, None])
    (basis,) = given._bases
    slow, freedom = reference.ridge_residuals(basis.features.astype(float), x - x.mean(), 1.0 / learned.ratio)
    np.testing.assert_allclose(found.fitted[:, 0], slow, atol=2e-4)
    assert found.freedom == pytest.approx(freedom + 1.0, abs=1e-2)
    assert given.fit(rng.normal(size=200)) is None
    assert given.rank == 2


@pytest.mark.parametrize(
    "signal",
    [
        lambda Z: np.sin(2.0 * Z).sum(axis=1),
        lambda Z: Z[:, 0] * Z[:, 1],
        lambda Z: np.sin(2.0 * Z.sum(axis=1)),  # along one oblique axis, for which the basis is too coarse
    ],
)
def test_nothing_of_a_signal_is_left(signal):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(6_000, 3))
    f = signal(Z)
    noise = 0.5 * f.std() * rng.normal(size=len(f))
    given = conditioner(Z)
    left = given.fit(f + noise).residuals((f + noise)[:, None]).fitted[:, 0]
    assert np.mean((left - noise) ** 2) < 0.01 * f.var()


def test_weights_count_alike():
    weights = conditioner(np.random.default_rng(0).normal(size=(400, 2))).weights
    sizes = [float(np.square(weight).mean(axis=0).sum()) for weight in weights]
    # of all columns at two scales, then sums over the columns at two; without what is negligible
    np.testing.assert_allclose(sizes, [1.0, 1.0, 2.0, 2.0], rtol=2e-2)


def street(n, seed=0):
    """A --> b <-- c, b --> d, and a category e that d decides; nothing is a straight line."""
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(2, n))
    b = np.tanh(2.0 * a) + c**2 + 0.5 * rng.normal(size=n)
    d = np.sin(b) + 0.5 * rng.normal(size=n)
    return np.column_stack([a, b, c, d, rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * d))])


@pytest.fixture(scope="module")
def tester():
    return ConditionalTester(street(MANY_ROWS + 500), kernel="bkl", n_resamples=199)


def test_many_rows_find_dependence_and_independence(tester):
    assert tester.test(0, 2).pvalue > 0.05
    assert tester.test(0, 2, [1]).pvalue == 0.005  # a common effect
    assert tester.test(0, 3).pvalue == 0.005
    assert tester.test(0, 3, [1]).pvalue > 0.05
    assert tester.test(1, 4, [3]).pvalue > 0.05
    assert tester.test(0, 2, [4]).pvalue <= 0.05  # an effect of the effect's effect
    both = tester.test(0, 4, [1, 3])
    assert both.pvalue > 0.05
    assert [len(side) for side in both.regressions] == [1, 1]


def test_screening_says_what_all_rows_say(tester):
    screening = Screening(tester._table)
    for i, j, given in ((0, 1, ()), (0, 2, (1,)), (1, 3, ()), (3, 4, (0,))):
        assert screening.rejects(i, j, given)
        assert tester.pvalue(i, j, given) == tester.test(i, j, given).pvalue == 0.005
    for i, j, given in ((0, 2, ()), (0, 3, (1,)), (1, 4, (3,))):
        assert not screening.rejects(i, j, given)
        assert tester.pvalue(i, j, given) == tester.test(i, j, given).pvalue


def test_screening_leaves_weak_dependence_to_all_rows():
    rng = np.random.default_rng(0)
    n = 40_000
    x = rng.normal(size=n)
    tester = ConditionalTester(np.column_stack([x, 0.04 * x + rng.normal(size=n)]), n_resamples=199)
    assert not Screening(tester._table).rejects(0, 1, ())
    assert tester.pvalue(0, 1) == 0.005


def test_screening_never_rejects_by_chance():
    """None of 105 tests of independent columns comes near: their neg_log_p is that of an exponential."""
    rng = np.random.default_rng(0)
    columns = [Variable(rng.normal(size=(ROWS, 1)), NUMERIC) for _ in range(15)]
    screening = Screening(TableFeatures(columns, Settings(("median",))))
    pairs = [(i, j) for i in range(15) for j in range(i)]
    assert not any(screening.rejects(i, j, ()) for i, j in pairs)


def test_a_rare_event_is_regressed():
    rare = np.zeros(2_000)
    rare[7] = 1.0
    given = conditioner(np.column_stack([rare, np.random.default_rng(0).normal(size=2_000)]))
    x = 50.0 * rare + np.random.default_rng(1).normal(size=2_000)
    left = given.fit(x).residuals(x[:, None]).fitted[:, 0]
    assert abs(left[7]) < 3.0
    assert np.corrcoef(left[8:], x[8:])[0, 1] > 0.95


def test_columns_that_do_not_vary_at_first():
    """A rare event that none of the first rows has: a side without columns, which decides nothing."""
    rare = np.zeros((ROWS + 10, 1))
    rare[-1] = 1.0
    rng = np.random.default_rng(0)
    other = Variable(rng.normal(size=(ROWS + 10, 1)), NUMERIC)
    screening = Screening(TableFeatures([Variable(rare, ~NUMERIC), other, other], Settings(("median",))))
    assert not screening.rejects(0, 1, ())
    assert screening.rejects(1, 2, (0,))  # given nothing that varies


def test_the_graph_of_many_rows(tester):
    found = pc(None, test=tester, alpha=0.01, progress=False)
    edges = [
        "column 0 --> column 1",
        "column 1 --> column 3",
        "column 2 --> column 1",
        "column 3 --> column 4",
    ]
    assert sorted(map(str, found.edges)) == edges


def test_indices_are_taken_out_of_many_rows():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(5_000, 3))
    index = Z.sum(axis=1)
    F = np.sin(4.0 * index)[:, None] + 0.1 * rng.normal(size=(5_000, 1))
    given = conditioner(Z)
    left, freedom = given.centred(F.astype(np.float32), given.index_bases(index[:, None]))
    assert given.centred(F.astype(np.float32))[0].var() > 0.2
    assert left.var() < 0.02
    assert freedom > 10.0
