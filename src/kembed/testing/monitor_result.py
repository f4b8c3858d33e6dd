"""What a `Monitor` says after a batch."""

from dataclasses import dataclass
from typing import Any

from kembed.core.text import plain
from kembed.core.writing import jsonable


@dataclass(frozen=True, eq=False, repr=False)
class MonitorResult:
    """What a monitor says after a batch.

    Attributes
    ----------
    label : str
        The batch.
    batches : int
        How many there have been since the reference.
    alarm : bool
        Whether the evidence has reached the threshold, at this batch or before.
    evidence, threshold : float
        Evidence for a change after this batch, and where the alarm is.
    since : str or None
        The batch at which the evidence first reached the threshold.
    began : str or None
        The batch at which the change began, as far as the p-values say.
    columns : tuple of str
        Columns that changed, each at the level of the monitor for all of them.
    pairs : tuple of (str, str)
        Pairs of other columns whose dependence changed, at the level for all pairs.
    pvalue : float
        The p-value of this batch alone, against all before it.
    by_column : dict of str to float
        The largest evidence for each column so far.
    notes : tuple of str
        What to know of the batch.

    """

    label: str
    batches: int
    alarm: bool
    evidence: float
    threshold: float
    since: str | None
    began: str | None
    columns: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    pvalue: float
    by_column: dict[str, float]
    alpha: float | None
    mean_time: float | None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The result in words."""
        limit = f"alarm at {self.threshold:,.0f}"
        if not self.alarm:
            many = "batch" if self.batches == 1 else "batches"
            return f"No alarm after {self.batches:,} {many}: evidence {_short(self.evidence)}, {limit}."
        at = f"ALARM at {self.label}" if self.since == self.label else f"ALARM since {self.since}"
        changed = [f'column "{name}"' for name in self.columns]
        changed += [f'columns "{a}" and "{b}" together' for a, b in self.pairs]
        where = f"; {', '.join(changed)}" if changed else ""
        chance = f"at most {100 * (self.alpha or 0.0):g}% of such monitors would ever alarm"
        if self.mean_time is not None:
            chance = f"such monitors would alarm once in {self.mean_time:,g} batches or more, on average"
        return (
            f"{at}: evidence {_short(self.evidence)} ({limit}). The change began about {self.began}{where}. "
            f"If nothing had changed, {chance}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        columns = [
            {"name": name, "evidence": value, "changed": name in self.columns}
            for name, value in self.by_column.items()
        ]
        found = {name: value for name, value in vars(self).items() if name not in ("columns", "pairs")}
        changed = {"changed_columns": self.columns, "changed_pairs": self.pairs}
        return jsonable({"verdict": self.verdict, **found, **changed, "by_column": columns})

    def __repr__(self) -> str:
        return "\n".join([self.verdict, *(f"note: {note}" for note in self.notes)])


def _short(evidence: float) -> str:
    return plain(evidence, 3 if evidence >= 1.0 else 2)
