"""What kind of shift there is: of the inputs, of the target, or of the target given the inputs."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kembed.comparing.conditional_shift import (
    ConditionalShift,
    Profile,
    TargetDifference,
    conditional_shift,
    differences,
)
from kembed.core.drawing import Drawn
from kembed.core.writing import jsonable
from kembed.permutation.exchange import Exchange
from kembed.permutation.pool import make_pool
from kembed.tables.table import Tables
from kembed.testing.effect import EffectSize, effect_size, of_pool
from kembed.testing.outcome import TestOutcome
from kembed.testing.procedure import Procedure
from kembed.testing.two_sample import exchange_test

SHOWN = 3  # regions in the printed text
WHOLE = 0.95  # a share of rows with overlap that needs no word
GLOSSES = {
    "covariate shift": "the inputs changed, and no change in how {target} depends on them was found",
    "concept shift": "how {target} depends on the inputs changed",
    "label shift": "{target} changed, and no change of the inputs at equal {target} was found",
}


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
