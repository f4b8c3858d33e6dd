"""Labels of rows: the index of a pandas object, which says what row by row belongs together."""

from collections import Counter
from collections.abc import Mapping
from typing import Any


def index_of(value: Any) -> Any:
    """The labels of the rows of a pandas object, or of the columns of a dictionary; None if it has none."""
    if isinstance(value, Mapping):
        return next((found for found in map(index_of, value.values()) if found is not None), None)
    return value.index if hasattr(value, "index") and hasattr(value, "iloc") else None


def refuse_orders(indexes: list[tuple[str, Any]]) -> None:
    """Refuse pandas objects that are paired by place where their labels say otherwise; None has no labels."""
    labelled = [(argument, index) for argument, index in indexes if index is not None]
    for argument, index in labelled[1:]:
        first, other = labelled[0]
        if len(index) != len(other) or index.equals(other):
            continue
        unique = index.is_unique and other.is_unique
        common = len(index.intersection(other)) if unique else len(index) * (Counter(index) == Counter(other))
        # Rows that are counted from 0 may have no labels: a few that others share are chance.
        counted = any(type(one).__name__ == "RangeIndex" and one[0] == 0 for one in (index, other))
        if common > (len(index) // 2 if counted else 0):
            seen = f"{first} and {argument} have rows of the same labels in different places of their indexes"
            if common < len(index):
                shared = f"{common:,} of {len(index):,}"
                seen = f"{first} and {argument} have indexes with {shared} labels in common"
            align = f"align them ({argument}.loc[{first}.index])" if unique else "bring them into one order"
            raise ValueError(f"{seen}; {align}, or pair rows by place with reset_index(drop=True)")
