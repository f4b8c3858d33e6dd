"""Is a difference larger than a margin? Different beyond it, equivalent within it, or undecided."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.core.writing import jsonable
from kembed.testing.effect import HALVINGS, LARGEST, LEVEL, EffectData, EffectSize, Moments, rounded

# By how a margin ends: what its number counts, what that is below, and how many of it are one.
KINDS = {"sd": ("sd", np.inf, 1.0), "%": ("share", 100.0, 100.0), "": ("MMD/√2", 1.0, 1.0)}
POWER = 0.8  # with which so many rows would decide
VERDICTS = {"different": "Different beyond", "equivalent": "Equivalent within", "undecided": "Undecided at"}
MOST = 1e9  # rows: more need not be counted


@dataclass(frozen=True)
class Margin:
    """The largest difference that does not matter.

    `kind` says what `amount` counts: standard deviations (`"sd"`) by which every numeric column is shifted, a
    `"share"` of rows that are replaced by copies of one row far from all others, or `"MMD/√2"`.
    """

    text: str
    kind: str
    amount: float

    def effect(self, data: EffectData) -> float:
        """The MMD/√2 that it would cause in the pooled sample."""
        if self.kind == "MMD/√2":
            return self.amount
        pooled = data.shares @ data.means
        if self.kind == "sd":
            by = self.amount * data.deviations
            if data.space.categorical.all() or not by.any():
                seen = f"margin={self.text!r} shifts numeric columns, and there is none that varies"
                raise ValueError(f"{seen}; give a share of rows such as margin='2%'")
            features = data.features
            moved = data.shares @ data.means_of(replace(features, landmarks=features.landmarks - by))
            return float(np.linalg.norm(pooled - moved)) / LARGEST
        # k of a row with one that is far away in every column: 0, unless all columns hold categories.
        cross = 0.0
        if data.space.categorical.all():
            cross = np.exp(-0.5 * np.square(data.space.penalty / data.space.median()).sum())
        return self.amount * float(np.sqrt(pooled @ pooled + 1.0 - 2.0 * cross)) / LARGEST

    @property
    def of_columns(self) -> tuple[float, float | None]:
        """The same for one column: of the distribution functions (or shares), and of the mean in sd.

        A shift by d standard deviations moves a share 2Φ(d/2) - 1 of a normal column's rows past a threshold.
        """
        from scipy.special import ndtr

        if self.kind == "sd":
            return 2.0 * float(ndtr(0.5 * self.amount)) - 1.0, self.amount
        return self.amount, None

    def auc(self, numeric: int) -> float:
        """The AUC of single rows that it would allow: of so many independent normal columns that are shifted.

        Of a share t of rows, the largest that a total variation distance of t allows, ½ + t - t²/2.
        """
        from scipy.special import ndtr

        if self.kind == "sd":
            return float(ndtr(self.amount * np.sqrt(0.5 * max(numeric, 1))))
        return 0.5 + self.amount - 0.5 * self.amount**2

    @property
    def meaning(self) -> str:
        """What would cause so large a difference."""
        return {
            "sd": f"a shift of every numeric column by {self.amount:g} sd",
            "share": f"replacing {100 * self.amount:g}% of the rows",
            "MMD/√2": f"an MMD/√2 of {self.amount:g}",
        }[self.kind]

    def __str__(self) -> str:
        return self.text


def read_margin(value: Any) -> Margin:
    """A margin as it is given: "0.1 sd", "2%", or a number between 0 and 1.

    >>> read_margin("0.1 sd"), read_margin("2 %").amount, read_margin(0.05).kind
    (Margin(text='0.1 sd', kind='sd', amount=0.1), 0.02, 'MMD/√2')
    """
    if isinstance(value, Margin):
        return value
    wanted = "margin must be standard deviations such as '0.1 sd', a share of rows such as '2%', or a number"
    if isinstance(value, bool) or not isinstance(value, str | int | float | np.integer | np.floating):
        raise TypeError(f"{wanted}, but {value!r} was given")
    number = r"(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
    found = re.fullmatch(rf"\s*\+?({number})\s*(sd|%|)\s*", str(value), re.IGNORECASE)
    amount, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
    text = f"{amount:g}{' sd' if unit == 'sd' else unit}"
    kind, most, per = KINDS[unit]
    if 0.0 < amount < most:
        return Margin(text, kind, amount / per)
    raise ValueError(f"{wanted} between 0 and 1 (MMD/√2), but {value!r} was given")


@dataclass(frozen=True)
class MarginResult:
    """Whether the MMD of two samples is beyond a margin.

    Attributes
    ----------
    margin : Margin
        As it was given.
    effect : float
        The MMD/√2 that the margin stands for.
    verdict : {"different", "equivalent", "undecided"}
        Beyond the margin, within it, or neither is sure. Either claim is wrong with probability at most
        `level`, in large samples.
    interval : tuple of float
        Of the MMD/√2; each end is a confidence limit at 1 - `level`.
    level : float
        Of either claim.
    rows_needed : tuple of int, optional
        Rows of either sample with which the verdict would be decided with probability .8 if the difference is
        what was estimated; None where it is decided.

    """

    margin: Margin
    effect: float
    verdict: str
    interval: tuple[float, float]
    level: float
    rows_needed: tuple[int, ...] | None = None

    @property
    def title(self) -> str:
        """The verdict in a few words."""
        return f"{VERDICTS[self.verdict]} the margin of {self.margin}"

    @property
    def confidence(self) -> str:
        """Of either claim."""
        return f"{100.0 * (1.0 - self.level):g}% confidence"

    @property
    def words(self) -> str:
        """The verdict and what it rests on, in a sentence."""
        low, high = map(rounded, self.interval)
        sure, limit = f"with {self.confidence}", rounded(self.effect)
        if self.verdict == "different":
            return f"{self.title}: {sure} the effect size is above {low} (margin {limit})"
        if self.verdict == "equivalent":
            return f"{self.title}: {sure} the effect size is below {high} (margin {limit})"
        needed = f"; about {self.rows_in_words} needed" if self.rows_needed else ""
        return f"{self.title}: the effect size is between {low} and {high} (margin {limit}){needed}"

    @property
    def rows_in_words(self) -> str:
        """How many rows would decide, to two digits."""
        sizes = [float(f"{size:.2g}") for size in self.rows_needed or ()]
        if max(sizes) >= MOST:
            return f"more than {MOST:,.0f} rows per sample are"
        if max(sizes) <= 1.1 * min(sizes):
            return f"{max(sizes):,.0f} rows per sample are"
        return f"{' and '.join(f'{size:,.0f}' for size in sizes)} rows are"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        names = "effect", "verdict", "interval", "level", "rows_needed"
        return jsonable({"margin": str(self.margin), **{name: getattr(self, name) for name in names}})

    def __repr__(self) -> str:
        return f"{self.words}."


def decide(
    margin: Margin, data: EffectData, effect: EffectSize, pvalue: float, level: float = LEVEL
) -> MarginResult:
    """The verdict at a margin; "different" also asks for a p-value of at most `level`."""
    from scipy.special import ndtri

    limit, moments = margin.effect(data), effect.moments
    assert moments is not None
    low, high = (end / LARGEST for end in moments.interval(level))
    verdict = (
        "different" if low > limit and pvalue <= level else "equivalent" if high < limit else "undecided"
    )
    needed = None
    if verdict == "undecided":
        factor = _factor(moments, limit * LARGEST, float(ndtri(1.0 - level)), float(ndtri(POWER)))
        needed = tuple(max(int(min(np.ceil(size / factor), MOST)), size) for size in effect.rows)
    return MarginResult(margin, limit, verdict, (low, min(high, 1.0)), level, needed)


def _factor(moments: Moments, limit: float, quantile: float, power: float) -> float:
    """The factor of the noise S with which the estimate would decide with this power, were it the truth."""
    true = max(moments.square, 0.0)

    def reach(factor: float) -> float:
        at_limit, at_truth = (
            np.sqrt(4.0 * square * moments.largest * factor + 2.0 * moments.squares * factor**2)
            for square in (limit**2, true)
        )
        return float(quantile * at_limit + power * at_truth)

    low, high = 1.0 / MOST, 1.0
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if reach(middle) < abs(true - limit**2) else (low, middle)
    return low
