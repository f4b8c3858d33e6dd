"""Conditional testers by the content of their table and of all options, for several searches and threads."""

import pickle
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from kembed.conditional.cache import digest
from kembed.conditional.tester import ConditionalTester

BUDGET = 600_000_000  # bytes that testers of earlier searches may hold: what one alone may grow to


class SharedTester(NamedTuple):
    """A tester for one thread at a time: by default pgmpy asks from as many as there are cores."""

    tester: ConditionalTester
    lock: Any

    def pvalue(self, i: int, j: int, given: tuple[int, ...]) -> float:
        """As of the tester."""
        with self.lock:
            return self.tester.pvalue(i, j, given)

    def test(self, i: int, j: int, given: tuple[int, ...]) -> Any:
        """As of the tester."""
        with self.lock:
            return self.tester.test(i, j, given)


class KeptTesters:
    """Testers by data and options; the longest unused go when all together hold more than `budget` bytes."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._testers: OrderedDict[str, SharedTester] = OrderedDict()
        self._door = threading.Lock()

    def get(self, data: Any, options: dict[str, Any]) -> SharedTester:
        """The tester of this data under these options; the one made before, where there is one."""
        try:
            # A pickle holds every digit, where a printed array or kernel leaves some out.
            key = digest(pickle.dumps((data, sorted(options.items())), protocol=5))
        except Exception:  # what cannot be pickled is for the tester to refuse, in its own words
            return SharedTester(ConditionalTester(data, **options), threading.Lock())
        with self._door:
            if key not in self._testers:
                self._testers[key] = SharedTester(ConditionalTester(data, **options), threading.Lock())
            self._testers.move_to_end(key)
            while len(self._testers) > 1 and self.nbytes > self.budget:
                self._testers.popitem(last=False)
            return self._testers[key]

    @property
    def nbytes(self) -> int:
        """About how much memory they hold."""
        return sum(shared.tester.nbytes for shared in self._testers.values())

    @property
    def n_regressed(self) -> int:
        """How many regressions they keep."""
        return sum(shared.tester.n_regressed for shared in self._testers.values())

    def clear(self) -> None:
        """Forget them all."""
        with self._door:
            self._testers.clear()

    def __len__(self) -> int:
        return len(self._testers)
