"""What kind of shift there is: of the inputs, of the target, or of the target given the inputs; and where.

A target has not changed given other columns, x, if it is independent of the sample label given x, which
`conditional_test` tests. It is asked of rows whose x occur in both samples. Where the target changed is seen
in residuals of the target, e, and of the label, r, given x, both predicted by the other rows (Robinson 1988;
Chernozhukov et al. 2018). In a group of rows the difference of the target at equal x is

    τ = Σ r e / Σ r²,    with standard error √(Σ (r e - τ r²)²) / Σ r².
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.comparing.column_effects import NORMAL
from kembed.conditional.regression import ROWS_PER_RANK, ColumnFit, Conditioner
from kembed.conditional.residuals import as_variable, content_order
from kembed.conditional.result import ConditionalOutcome
from kembed.conditional.tester import ConditionalTester, WholeTables
from kembed.core.backend import Bool, Float, Int
from kembed.core.drawing import Drawn
from kembed.core.ordering import row_order
from kembed.core.text import counted, listing, plain, rows
from kembed.core.writing import jsonable
from kembed.kernels.space import make_space
from kembed.permutation.exchange import Exchange
from kembed.permutation.nulls import holm
from kembed.permutation.pool import make_pool
from kembed.tables.table import Table, Tables
from kembed.tables.times import DAYS, shown
from kembed.testing.effect import EffectSize, effect_size, of_pool
from kembed.testing.outcome import TestOutcome
from kembed.testing.procedure import Procedure
from kembed.testing.two_sample import exchange_test

Vector = Float[np.ndarray, " n"]
Some = Bool[np.ndarray, " n"]
# Rows of a sample in conditional tests. Beyond 20,000 in all their regressions have no trees, and thresholds
# would be taken for a change. More than ten times the rows of the other sample add next to nothing.
MOST_ROWS, MOST_TIMES = 10_000, 10
# A row is overlap if, of rows like it, samples of equal size would have at least this share each.
OVERLAP = 0.05
# Overlap below which nothing is said: rows of either sample (fewer are too few for trees), and the share of
# at least one sample.
LEAST_ROWS, LEAST_SHARE = 50, 0.1
# Of an input along which the target is compared: bins, rows of the smaller sample for each, rows of either
# sample in a group. With more bins of fewer rows simultaneous bands missed in .09 of draws in place of .05.
BINS, ROWS_A_BIN, LEAST_IN_GROUP = 8, 50, 15
MOST_LEVELS = 6  # of a target: the most frequent ones
SHOWN = 3  # regions in the printed text
WHOLE = 0.95  # a share of rows with overlap that needs no word
GLOSSES = {
    "covariate shift": "the inputs changed, and no change in how {target} depends on them was found",
    "concept shift": "how {target} depends on the inputs changed",
    "label shift": "{target} changed, and no change of the inputs at equal {target} was found",
}


@dataclass(frozen=True)
class Overlap:
    """Rows of either sample where both have rows, and which shares of the samples these are."""

    rows: tuple[int, int]
    shares: tuple[float, float]

    @property
    def refusal(self) -> str:
        """Why nothing can be said of so few rows; empty where it can."""
        if min(self.rows) >= LEAST_ROWS and max(self.shares) >= LEAST_SHARE:
            return ""
        n, m = self.rows
        shares = " and ".join(f"{share:.0%}" for share in self.shares)
        few = f"at least {LEAST_ROWS} of each and {LEAST_SHARE:.0%} of one are needed"
        return f"only {n:,} and {m:,} rows ({shares}) lie where both samples have rows; {few}"


@dataclass(frozen=True, eq=False)
class ConditionalShift:
    """Whether some columns changed given the others; `test` is None where that is refused, and why."""

    overlap: Overlap | None
    refusal: str = ""
    test: ConditionalOutcome | None = None

    @property
    def pvalue(self) -> float:
        """The p-value; nan where the test is refused."""
        return float("nan") if self.test is None else self.test.pvalue

    def to_dict(self) -> dict[str, Any]:
        """The p-value, or the refusal, and the overlap it rests on."""
        return {"pvalue": self.pvalue, "refusal": self.refusal or None, "overlap": self.overlap}


@dataclass(frozen=True)
class TargetDifference:
    """The target of the second sample less that of the first at equal inputs, in a group of rows.

    `level` is the category whose share is meant, None for a target of numbers. `box` is the range (or the
    level) of the input `column`, and `interval` a simultaneous band over all groups of all inputs. For all
    rows both are None, and the interval is a 95% interval.
    """

    column: str | None
    box: tuple[Any, ...] | None
    level: str | None
    value: float
    interval: tuple[float, float]
    shares: tuple[float, float]  # of the rows with overlap of either sample
    unit: str = ""  # of the input

    @property
    def sure(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval[0] > 0.0 or self.interval[1] < 0.0

    @property
    def numeric(self) -> bool:
        """Whether the group is a range of numbers."""
        return self.box is not None and isinstance(self.box[0], float)

    @property
    def place(self) -> str:
        """The group in words."""
        if self.box is None:
            return "at equal inputs"
        if not self.numeric:
            return f"where {self.column} is {self.box[0]!r}"
        low, high = (shown(end, self.unit) for end in self.box)
        return f"where {self.column} is {low if low == high else f'{low} to {high}'}"

    def size(self, target: str, label: str, unit: str = "", kind: str = "") -> str:
        """The difference in words; `unit` is that of the target, `kind` what the interval is called."""
        low, high = self.interval
        if self.level is None:
            days = " days" if unit == DAYS else ""
            size = f"{target} is {plain(abs(self.value), 3)}{days} {'higher' if self.value > 0 else 'lower'}"
            ends = f"{plain(low, 3)} to {plain(high, 3)}"
        else:
            more = "more" if self.value > 0 else "less"
            size = f"{target} is {self.level!r} {100 * abs(self.value):.2g} percentage points {more} often"
            ends = f"{100 * low:.2g} to {100 * high:.2g}"
        return f"{size} in {label} ({kind}{ends})"

    def describe(self, target: str, label: str, unit: str = "", kind: str = "") -> str:
        """Place and size in words."""
        return f"{self.place} {self.size(target, label, unit, kind)}"


@dataclass(frozen=True)
class Profile:
    """The differences of the target along an input, and whether they vary there.

    `pvalue` is that of equal differences in all groups (Cochran's Q), adjusted for all inputs (Holm).
    """

    column: str
    level: str | None
    pvalue: float
    groups: tuple[TargetDifference, ...]

    @property
    def regions(self) -> list[TargetDifference]:
        """Groups whose band excludes 0, the largest difference first; neighbours of one sign as one.

        The band of joined groups is their mean band, which holds where theirs do.
        """
        found: list[TargetDifference] = []
        last = None
        for group in self.groups:
            if group.sure and last is not None and group.numeric and last.value * group.value > 0.0:
                found[-1] = _joined(found[-1], group)
            elif group.sure:
                found.append(group)
            last = group if group.sure else None
        return sorted(found, key=lambda one: -abs(one.value))


def _joined(one: TargetDifference, other: TargetDifference) -> TargetDifference:
    """Two neighbouring groups as one, weighted by their rows."""
    assert one.box is not None
    assert other.box is not None
    a, b = sum(one.shares), sum(other.shares)
    value, low, high = (
        (a * first + b * second) / (a + b)
        for first, second in zip((one.value, *one.interval), (other.value, *other.interval), strict=True)
    )
    shares = one.shares[0] + other.shares[0], one.shares[1] + other.shares[1]
    return replace(one, box=(one.box[0], other.box[1]), value=value, interval=(low, high), shares=shares)


class Compared(NamedTuple):
    """Rows of both samples in an order that says nothing of the samples, and the label regressed on x."""

    target: Table
    given: Table
    second: Some  # which rows are of the second sample
    conditioner: Conditioner
    label: Vector  # residual of `second` given x


def conditional_shift(
    target: Tables, given: Tables, n_resamples: int, seed: int
) -> tuple[ConditionalShift, Compared | None]:
    """Test whether the target given other columns changed; and the rows that this is about."""
    each = [np.column_stack([a.values, b.values]) for a, b in zip(target, given, strict=True)]
    most = min(MOST_ROWS, MOST_TIMES * min(map(len, each)))
    # At most so many rows, which their values alone decide, not their order.
    places = [np.sort(np.random.default_rng(0).permutation(len(values))[:most]) for values in each]
    drawn = [row_order(values)[some] for values, some in zip(each, places, strict=True)]
    second = np.repeat([False, True], list(map(len, drawn)))
    pooled = []
    for part in (target, given):
        values = np.concatenate([table.values[some] for table, some in zip(part, drawn, strict=True)])
        pooled.append(replace(part[0], values=values, rows=np.arange(len(values))))
    y, x = pooled
    order = content_order([as_variable(part.values, part.categorical) for part in (y, x)])[0]
    compared = _regressed(y, x, second, order)
    if compared is None:
        return ConditionalShift(None, _too_wide(x, len(order))), None
    inside = _inside(compared.second - compared.label, float(second.mean()))
    first_rows, second_rows = inside[~compared.second], inside[compared.second]
    counts = int(first_rows.sum()), int(second_rows.sum())
    overlap = Overlap(counts, (float(first_rows.mean()), float(second_rows.mean())))
    if overlap.refusal:
        return ConditionalShift(overlap, overlap.refusal), None
    if not inside.all():
        compared = _regressed(y, x, second, order[inside])
        if compared is None:
            return ConditionalShift(overlap, _too_wide(x, sum(counts))), None
    n = len(compared.second)
    sample = Table(compared.second[:, None].astype(float), ("sample",), np.zeros(1, bool), np.arange(n), n)
    variables = WholeTables([compared.target, sample, compared.given])
    test = ConditionalTester(variables, n_resamples=n_resamples, rng=seed).test(0, 1, (2,))
    return ConditionalShift(overlap, test=test), compared


def _regressed(target: Table, given: Table, second: Some, some: Int[np.ndarray, " k"]) -> Compared | None:
    """Some of the rows, the label regressed on x; None where x has too many columns for them."""
    target, given = (
        replace(part, values=part.values[some], rows=np.arange(len(some))) for part in (target, given)
    )
    conditioner = Conditioner(as_variable(given.values, given.categorical).columns)
    if conditioner.rank * ROWS_PER_RANK > len(some):
        return None
    label = second[some].astype(float)
    return Compared(target, given, second[some], conditioner, _left_out(conditioner, label, label))


def _too_wide(given: Table, n: int) -> str:
    count = counted(as_variable(given.values, given.categorical).columns.shape[1], "column")
    seen = f"{listing(given.names)} make {count} (every category is one), too many for {rows(n)}"
    return f"{seen}; give {ROWS_PER_RANK} rows a column, or leave columns out"


def _left_out(conditioner: Conditioner, column: Vector, shape: Vector) -> Vector:
    """A column less its prediction by the other rows; the regression is fitted to `shape`."""
    centred = column - column.mean()
    fit = _fit(conditioner, shape)
    return centred if fit is None else np.asarray(fit.residuals(centred[:, None]).left_out[:, 0])


def _fit(conditioner: Conditioner, shape: Vector) -> ColumnFit | None:
    """The regression of a column; None where it is constant, or nothing explains it."""
    size = float(shape.std())
    if not size > 0.0 or not conditioner.Z.shape[1]:
        return None
    return conditioner.fit((shape - shape.mean()) / size)


def _inside(chance: Vector, share: float) -> Some:
    """Rows whose probability to be of the second sample is not extreme, for samples of equal size."""
    chance = np.clip(chance, 0.0, 1.0)
    second, first = chance / share, (1.0 - chance) / (1.0 - share)
    return np.asarray(np.minimum(first, second) >= OVERLAP * (first + second))


def differences(
    compared: Compared, alpha: float
) -> tuple[TargetDifference, tuple[float, float, float] | None, tuple[Profile, ...]]:
    """How much the target differs at equal x: on average, in spread, and along every column of x."""
    table, observed = compared.target, compared.target.observed(0)  # a value that was filled in says nothing
    column = table.values[:, 0]
    levels: list[str | None] = [None]
    ratio = None
    if table.categorical[0]:
        counts = np.bincount(column.astype(int), minlength=len(table.levels[0]))
        codes = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
        codes = codes[counts[codes] > 0]
        codes = codes[-1:] if len(codes) == 2 else codes
        levels = [str(table.levels[0][code]) for code in codes]
        E = [_left_out(compared.conditioner, one, one) for one in (column == codes[:, None]).astype(float)]
    else:
        spread = float(make_space(table.values[:, :1], table.categorical[:1]).spread[0])
        scaled = (column - np.median(column)) / spread
        shape = as_variable(table.values[:, :1], table.categorical[:1]).columns
        shape = shape[:, 0] if shape.shape[1] else scaled
        E = [spread * _left_out(compared.conditioner, scaled, shape)]
        ratio = _spread_ratio(compared, scaled, shape, observed)
    whole = [_estimate(compared.label, e, observed) for e in E]
    k = max(range(len(E)), key=lambda k: abs(whole[k][0]) / max(whole[k][1], 1e-300))
    value, error = whole[k]
    ends = value - NORMAL * error, value + NORMAL * error
    average = TargetDifference(None, None, levels[k], value, ends, (1.0, 1.0))
    return average, ratio, _profiles(compared, E, levels, observed, alpha)


def _estimate(r: Vector, e: Vector, some: Some) -> tuple[float, float]:
    """τ of some rows, and its standard error."""
    r, e = r[some], e[some]
    total, n = float(r @ r), len(r)
    if not total > 0.0 or n < 2:
        return 0.0, float("inf")
    value = float(r @ e) / total
    return value, float(np.sqrt(np.square(r * (e - value * r)).sum() * n / (n - 1)) / total)


def _spread_ratio(
    compared: Compared, column: Vector, shape: Vector, observed: Some
) -> tuple[float, float, float] | None:
    """The ratio of residual standard deviations with a 95% interval, each sample regressed by itself.

    Rows are weighted by the probability of the other sample, so that both samples have the same inputs.
    """
    chance = np.clip(compared.second - compared.label, 0.0, 1.0)
    logs, errors = [], []
    for own, weight in ((~compared.second, chance), (compared.second, 1.0 - chance)):
        fit = _fit(Conditioner(compared.conditioner.Z[own]), shape[own])
        left = column[own] - column[own].mean()
        if fit is not None:
            both = fit.residuals(left[:, None])
            left = both.fitted[:, 0] / np.sqrt(max(1.0 - both.freedom / len(left), 1e-2))
        w, left = weight[own][observed[own]], left[observed[own]]
        total = max(float(w.sum()), 1e-300)
        squares = np.square(left - w @ left / total)
        variance = float(w @ squares) / total
        if not variance > 0.0:
            return None
        logs.append(0.5 * np.log(variance))
        errors.append(np.square(w * (squares / variance - 1.0)).sum() / (2.0 * total) ** 2)
    middle, half = logs[1] - logs[0], NORMAL * np.sqrt(sum(errors))
    value, low, high = np.exp([middle, middle - half, middle + half]).tolist()
    return value, low, high


def _profiles(
    compared: Compared, E: list[Vector], levels: list[str | None], observed: Some, alpha: float
) -> tuple[Profile, ...]:
    """Differences in groups along every column, with bands that hold for all of them (Bonferroni)."""
    from scipy.special import chdtrc, stdtrit

    given, second = compared.given, compared.second
    sizes = int((~second).sum()), int(second.sum())
    bins = int(np.clip(min(sizes) // ROWS_A_BIN, 2, BINS))
    cells: list[list[tuple[Any, Some, tuple[int, int]]]] = []
    for d in range(len(given.names)):
        cells.append([])
        for box, inside in _groups(given, d, np.square(compared.label), bins):
            some = inside & observed & given.observed(d)
            counts = int((some & ~second).sum()), int((some & second).sum())
            if min(counts) >= LEAST_IN_GROUP:
                cells[d].append((box, some, counts))
    tail = 0.5 * alpha / max(sum(map(len, cells)) * len(E), 1)
    found, pvalues = [], []
    for d, own in enumerate(cells):
        for e, level in zip(E if len(own) > 1 else [], levels, strict=False):
            name, groups = given.names[d], []
            table = np.array([_estimate(compared.label, e, some) for _, some, _ in own])
            for (box, _, counts), (value, error) in zip(own, table.tolist(), strict=True):
                reach = error * float(stdtrit(sum(counts) - 1, 1.0 - tail))
                shares = counts[0] / sizes[0], counts[1] / sizes[1]
                ends = value - reach, value + reach
                groups.append(TargetDifference(name, box, level, value, ends, shares, given.unit(d)))
            weights = 1.0 / np.maximum(np.square(table[:, 1]), 1e-300)
            q = weights @ np.square(table[:, 0] - weights @ table[:, 0] / weights.sum())
            pvalues.append(float(chdtrc(len(groups) - 1, q)))
            found.append(Profile(name, level, 1.0, tuple(groups)))
    order = sorted(range(len(found)), key=lambda k: pvalues[k])
    adjusted = holm(np.array(pvalues)) if found else ()
    return tuple(replace(found[k], pvalue=float(adjusted[k])) for k in order)


def _groups(given: Table, d: int, weights: Vector, bins: int) -> list[tuple[tuple[Any, ...], Some]]:
    """The groups of rows along a column: its levels or few values, else bins of equal weight."""
    column = given.values[:, d]
    values = np.unique(column)
    if given.categorical[d]:
        return [((str(given.levels[d][int(code)]),), column == code) for code in values]
    if len(values) <= bins:
        return [((float(value), float(value)), column == value) for value in values]
    order = np.argsort(column, kind="stable")
    before = np.cumsum(weights[order]) / weights.sum()
    inner = column[order][np.searchsorted(before, np.arange(1, bins) / bins)]
    places = np.searchsorted(np.unique(inner), column, side="left")
    parts = [places == place for place in np.unique(places)]
    return [((float(column[own].min()), float(column[own].max())), own) for own in parts]


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Drawn):
    """What kind of shift there is between two samples: `Comparison.shift` of `compare(..., target=...)`.

    `target` is the column whose dependence on all others, the inputs, is looked at; `alpha` the level of each
    test. p-values are not corrected for the number of questions. `inputs` and `target_alone` are tests of
    P(inputs) and of P(target), with effect sizes; `relation` and `reverse` test P(target | inputs) and
    P(inputs | target), with the overlap they rest on.

    `average` is the mean difference of the target at equal inputs, None where the relation test is refused;
    `spread` the residual standard deviation of the target in the second sample over that in the first, with a
    95% interval, None for categories; `profiles` are the differences along every input, with simultaneous
    bands, those that vary most first.
    """

    target: str
    labels: tuple[str, str]
    alpha: float
    inputs: TestOutcome
    target_alone: TestOutcome
    inputs_effect: EffectSize
    target_effect: EffectSize
    relation: ConditionalShift
    reverse: ConditionalShift
    average: TargetDifference | None = None
    spread: tuple[float, float, float] | None = None
    profiles: tuple[Profile, ...] = ()
    unit: str = field(default="", kw_only=True)  # of the target

    @property
    def changed(self) -> bool:
        """Whether P(target | inputs) changed, at the level alpha."""
        return bool(self.relation.pvalue <= self.alpha)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of shift found, in the field's words; empty where none is, or where that is refused."""
        inputs, alone = (one.pvalue <= self.alpha for one in (self.inputs, self.target_alone))
        if self.changed and inputs and alone and self.reverse.pvalue > self.alpha:
            return ("label shift",)
        if self.changed:
            return ("concept shift", "covariate shift") if inputs else ("concept shift",)
        return ("covariate shift",) if inputs and not self.relation.refusal else ()

    @property
    def regions(self) -> tuple[TargetDifference, ...]:
        """Where the relation changed: regions of the inputs along which the difference varies.

        Those of the input with the clearest variation come first; none where no change was found.
        """
        varying = [one for one in self.profiles if one.pvalue <= self.alpha] if self.changed else []
        return tuple(region for profile in varying for region in profile.regions)

    @property
    def answers(self) -> tuple[tuple[str, str, float], ...]:
        """Every distribution, whether it changed, and the p-value (nan where that is refused)."""
        y = self.target
        tests = (
            ("P(inputs)", self.inputs, ""),
            (f"P({y} | inputs)", self.relation, self.relation.refusal),
            (f"P({y})", self.target_alone, ""),
            (f"P(inputs | {y})", self.reverse, self.reverse.refusal),
        )
        found = []
        for name, test, refusal in tests:
            answer = "changed" if test.pvalue <= self.alpha else "no change found"
            found.append((name, f"not tested: {refusal}" if refusal else answer, test.pvalue))
        return tuple(found)

    @property
    def verdict(self) -> str:
        """The answers in words."""
        y, refusal = self.target, self.relation.refusal
        parts = [
            self._answer("the inputs", self.inputs.pvalue),
            f"whether {y} changed at equal inputs cannot be said: {refusal}"
            if refusal
            else self._answer(f"{y} at equal inputs", self.relation.pvalue),
            self._answer(f"{y} by itself", self.target_alone.pvalue),
        ]
        text = _sentence("; ".join(parts))
        if self.kinds:
            gloss = GLOSSES[self.kinds[0]].format(target=self.target)
            text += f" This is {' and '.join(self.kinds)}: {gloss}."
        return text + self._of_relation + self._of_overlap

    def _answer(self, what: str, pvalue: float) -> str:
        changed = f"{what} changed" if pvalue <= self.alpha else f"no change of {what} was found"
        return f"{changed} (p = {pvalue:.2g})"

    @property
    def _of_relation(self) -> str:
        """How much the target changed at equal inputs, and where."""
        if self.average is None or not self.changed:
            return ""
        average = self.average.describe(self.target, self.labels[1], self.unit, "95% interval ")
        found = " " + _sentence(average)
        if self.spread is not None and (self.spread[1] > 1.0 or self.spread[2] < 1.0):
            ratio, low, high = self.spread
            found += f" Its spread there is {ratio:.2g} times as wide (95% interval {low:.2g} to {high:.2g})."
        if not self.regions:
            return f"{found} The difference does not vary clearly along any single input."
        first = self.regions[0].describe(self.target, self.labels[1], self.unit, "simultaneous band ")
        return f"{found} The difference varies along {self.regions[0].column}: {first}."

    @property
    def _of_overlap(self) -> str:
        overlap = self.relation.overlap
        if self.relation.refusal or overlap is None or min(overlap.shares) > WHOLE:
            return ""
        each = (f"{share:.0%} of {label}" for share, label in zip(overlap.shares, self.labels, strict=True))
        return f" Equal inputs are compared where both samples have rows: {' and '.join(each)}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types, with the keys of docs/json.md."""
        own = "relation", "reverse", "average", "spread", "regions", "profiles"
        found = {
            "target": self.target,
            "kinds": self.kinds,
            "verdict": self.verdict,
            "inputs": {"pvalue": self.inputs.pvalue, "effect_size": self.inputs_effect},
            "target_alone": {"pvalue": self.target_alone.pvalue, "effect_size": self.target_effect},
            **{name: getattr(self, name) for name in own},
        }
        return dict(jsonable(found))

    def _table(self) -> Any:
        rows = [(name, words, "" if np.isnan(p) else f"{p:.3g}") for name, words, p in self.answers]
        return ("", "answer", "p"), rows

    def __repr__(self) -> str:
        lines = [self.verdict]
        lines += [f"  {one.describe(self.target, self.labels[1], self.unit)}" for one in self.regions[:SHOWN]]
        return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def find_shift(
    tables: Tables, target: str, labels: tuple[str, str], alpha: float, kernel: Any, procedure: Procedure
) -> Shift:
    """Test which parts of the distribution changed; `target` is one of the columns of the tables.

    The indicator of missing values of the target belongs to the target: a change of what is missing at equal
    inputs is a change of the relation too.
    """
    owners = tables[0].missing_of or ("",) * len(tables[0].names)
    own = [d for d, name in enumerate(tables[0].names) if target in (name, owners[d])]
    rest = [d for d in range(len(tables[0].names)) if d not in own]
    y, x = ((tables[0].columns(places), tables[1].columns(places)) for places in (own, rest))
    inputs, alone = (
        exchange_test(Exchange(list(part), None, None, {}), None, kernel, procedure, by_column=False)
        for part in (x, y)
    )
    of_x, of_y = (effect_size(of_pool(make_pool(list(part), None, "none"))) for part in (x, y))
    seed = int(procedure.rng.integers(2**31))
    relation, compared = conditional_shift(y, x, procedure.n_resamples, seed)
    reverse, _ = conditional_shift(x, y, procedure.n_resamples, seed)
    tests = inputs, alone, of_x, of_y, relation, reverse
    found = Shift(target, labels, alpha, *tests, unit=y[0].unit(0))
    if compared is None:
        return found
    average, spread, profiles = differences(compared, alpha)
    return replace(found, average=average, spread=spread, profiles=profiles)
