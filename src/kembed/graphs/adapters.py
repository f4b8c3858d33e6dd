"""Our conditional test inside other libraries' searches: PC and FCI of causal-learn, PC of pgmpy.

Either adapter finds its `ConditionalTester` by the content of the data and of all options, so that searches
of the same table share their regressions, and a table that was changed in place is another table. `clear`
forgets them all.
"""

import importlib
import inspect
import pickle
import threading
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np

from kembed.conditional.cache import Cache, digest
from kembed.conditional.result import ConditionalOutcome
from kembed.conditional.tester import ConditionalTester
from kembed.core import checks

Columns = tuple[int, int, tuple[int, ...]]
PARAMETERS = inspect.signature(ConditionalTester).parameters.values()
OPTIONS = {one.name: one.default for one in PARAMETERS if one.kind is one.KEYWORD_ONLY}
MOST_KEPT = 2  # testers of this process: the last, and one that it is compared with
TESTERS = Cache(MOST_KEPT)
_LOCK = threading.RLock()  # pgmpy asks from as many threads as there are cores


def causal_learn(name: str = "kembed", **options: Any) -> str:
    """Register our conditional test with causal-learn, and return the name it goes by there.

    Then `pc(data, 0.05, indep_test="kembed")` and `fci(data, "kembed")` search with it. Keywords that these
    do not know are options of the test: `pc(data, 0.05, indep_test="kembed", kernel="median")`.

    Parameters
    ----------
    name
        What to call it; a name given before gets the new options.
    options
        Those of `ConditionalTester`, for all searches under this name.

    Examples
    --------
    >>> import numpy as np
    >>> from causallearn.search.ConstraintBased.PC import pc
    >>> from kembed import adapters
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 200))
    >>> data = np.column_stack([a, b, a + b + 0.5 * rng.normal(size=200)])
    >>> test = adapters.causal_learn(n_resamples=199)
    >>> test
    'kembed'
    >>> graph = pc(data, 0.05, test, show_progress=False)
    >>> [tuple(map(int, edge)) for edge in graph.find_fully_directed()]  # the first two cause the third
    [(0, 2), (1, 2)]

    """
    cit = _causal_learn_tests()
    if not isinstance(name, str):
        raise TypeError(f"name must be text, but {name!r} was given; options go by keyword")
    if vars(cit).get(name) == name:
        raise ValueError(f"name {name!r} is a test of causal-learn itself; choose another")
    _check(options)
    cit.register_ci_test(name, _test_class(name, options))
    return name


def pgmpy(data: Any, **options: Any) -> "PgmpyTest":
    """Our conditional test on a table, as the `ci_test` of pgmpy's PC.

    Parameters
    ----------
    data
        The table that PC is fitted on; pgmpy does not pass it on. Columns go by their labels; those of an
        array are "x0", "x1", ..., as in pgmpy.
    options
        Those of `ConditionalTester`.

    Examples
    --------
    >>> import numpy as np
    >>> from pgmpy.causal_discovery import PC
    >>> from kembed import adapters
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 200))
    >>> data = np.column_stack([a, b, a + b + 0.5 * rng.normal(size=200)])
    >>> test = adapters.pgmpy(data, n_resamples=199)
    >>> search = PC(ci_test=test, significance_level=0.05, show_progress=False).fit(data)
    >>> sorted(search.causal_graph_.directed_edges)  # the first two cause the third
    [('x0', 'x2'), ('x1', 'x2')]
    >>> test("x0", "x1"), test("x0", "x1", ["x2"])
    (True, False)
    >>> print(test.p_value_)
    0.005

    """
    return PgmpyTest(data, _all_options(options))


def clear() -> None:
    """Forget the testers of earlier searches, and all that they keep in memory."""
    with _LOCK:
        TESTERS.results.clear()


def _tester(data: Any, options: dict[str, Any]) -> ConditionalTester:
    """The tester of this data under these options; the one made before, where there is one."""
    try:
        # A pickle holds every digit, where a printed array or kernel leaves some out.
        key = digest(pickle.dumps((data, sorted(options.items())), protocol=5))
    except Exception:  # what cannot be pickled is for the tester to refuse, in its own words
        return ConditionalTester(data, **options)
    with _LOCK:
        tester: ConditionalTester = TESTERS.result((key,), lambda: ConditionalTester(data, **options))
        return tester


class PgmpyTest:
    """What `adapters.pgmpy` returns: it says whether two columns are independent given others.

    As with pgmpy's own tests, the last call leaves `p_value_`, `statistic_` and `effect_size_`. The latter is
    how far the statistic lies above the mean of its null distribution, in standard deviations of that, so
    that conditioning sets can be compared.
    """

    def __init__(self, data: Any, options: dict[str, Any]) -> None:
        self.data, self.options = data, options
        _tester(data, options)  # mistakes show here, not in the middle of a search

    def __call__(
        self,
        X: Hashable,
        Y: Hashable,
        Z: Sequence[Hashable] = (),
        data: Any = None,
        independencies: Any = None,
        significance_level: float = 0.05,
    ) -> bool:
        """Whether p > `significance_level`; `data`, which older searches of pgmpy pass, goes before ours."""
        level = checks.level(significance_level, "significance_level")
        checks.reachable(level, self.options["n_resamples"], "significance_level")
        asked = X, Y, Z, self.data if data is None else data
        with _LOCK:
            tester, columns = self._asked(*asked)
            pvalue = tester.pvalue(*columns)
            self.p_value_, self._last = pvalue, asked
        return pvalue > level  # not the attribute, which another thread may have set by now

    def run_test(self, X: Hashable, Y: Hashable, Z: Sequence[Hashable] = ()) -> tuple[float, float]:
        """The statistic and the p-value."""
        with _LOCK:
            self(X, Y, Z)
            return self.statistic_, self.p_value_

    @property
    def statistic_(self) -> float:
        """The statistic of the last call."""
        return self._outcome().statistic

    @property
    def effect_size_(self) -> float:
        """How far out the statistic of the last call lies, in standard deviations under independence."""
        outcome = self._outcome()
        spread = float(np.std(outcome.null_distribution))
        return float((outcome.statistic - np.mean(outcome.null_distribution)) / spread) if spread else 0.0

    def _outcome(self) -> ConditionalOutcome:
        """That of the last call, on request: most searches need p-values alone, which may come from disk."""
        with _LOCK:
            tester, columns = self._asked(*self._last)
            return tester.test(*columns)

    def _asked(self, X: Any, Y: Any, Z: Any, data: Any) -> tuple[ConditionalTester, Columns]:
        """The tester of the data, and where it has the columns."""
        import narwhals.stable.v2 as nw

        tester = _tester(data, self.options)
        labels: list[Any] = [f"x{place}" for place in range(len(tester.names))]
        frame = nw.from_native(data, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):  # a column of times is no variable
            times = self.options["prewhiten"]
            labels = [label for label in frame.columns if not isinstance(times, str) or label != times]

        def place(label: Any, argument: str) -> int:
            if label in labels:
                return labels.index(label)
            known = ", ".join(map(repr, labels[:12]))
            seen = f"{argument} is {label!r}, but the variables are {known}"
            raise ValueError(f"{seen}; fit PC on the table that adapters.pgmpy was given, without its times")

        given = [place(one, "Z") for one in ((Z,) if isinstance(Z, str) else Z)]
        return tester, tester.places(place(X, "X"), place(Y, "Y"), given, ("X", "Y", "Z"))

    def __repr__(self) -> str:
        size = " x ".join(str(length) for length in np.shape(self.data))
        return f"PgmpyTest({size} table, kernel={self.options['kernel']!r}, rng={self.options['rng']})"


class _CausalLearnTest:
    """A test in causal-learn's register: made by it for one table, then asked by column number."""

    method: str
    defaults: dict[str, Any]

    def __init__(self, data: Any, **options: Any) -> None:
        if "cache_path" in options:
            seen = "cache_path, of causal-learn, takes tables that print alike for one"
            raise ValueError(f"{seen}; name a folder as cache")
        if not isinstance(data, np.ndarray):
            remedy = "for a data frame give data.to_numpy() and node_names=list(data.columns)"
            raise TypeError(f"causal-learn searches arrays, but data is a {type(data).__name__}; {remedy}")
        super().__init__(data)  # type: ignore[call-arg]  # of causal-learn's CIT_Base, the next in line
        self.options = _all_options(self.defaults | options)
        self._tester = _tester(data, self.options)

    def __call__(self, X: Any, Y: Any, condition_set: Any = None) -> float:
        """The p-value of two columns given others."""
        given = () if condition_set is None else tuple(condition_set)
        with _LOCK:
            asked = self._tester.places(X, Y, given, ("X", "Y", "condition_set"))
            return self._tester.pvalue(*asked)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # causal-learn copies a graph at every step, test and all; regressions stay shared

    def __reduce__(self) -> tuple[Any, ...]:
        return _revived, (self.method, self.data, self.options)  # type: ignore[attr-defined]


def _causal_learn_tests() -> Any:
    """The module of causal-learn that keeps its tests."""
    try:
        cit = importlib.import_module("causallearn.utils.cit")
    except ImportError as error:
        raise ImportError(
            f"adapters.causal_learn needs causal-learn: pip install causal-learn ({error})"
        ) from None
    if not hasattr(cit, "register_ci_test"):
        raise ImportError(
            "this causal-learn takes no tests from outside yet: pip install --upgrade causal-learn"
        )
    return cit


def _test_class(name: str, options: dict[str, Any]) -> Any:
    bases = (_CausalLearnTest, _causal_learn_tests().CIT_Base)
    return type("KembedTest", bases, {"method": name, "defaults": options})


def _revived(name: str, data: Any, options: dict[str, Any]) -> Any:
    """A test of causal-learn from its pickle; its class is made anew, for there is none to import."""
    return _test_class(name, {})(data, **options)


def _all_options(options: dict[str, Any]) -> dict[str, Any]:
    """All options of a tester, with a whole number for rng."""
    _check(options)
    every = OPTIONS | options
    # A cache and None for rng, which no cache can serve, are for the tester to refuse.
    if not isinstance(every["rng"], int | np.integer) and not (every["rng"] is None and every["cache"]):
        every["rng"] = int(checks.generator(every["rng"]).integers(2**62))
    return every


def _check(options: dict[str, Any]) -> None:
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"the test has no option {name!r}; its options are {', '.join(OPTIONS)}")
