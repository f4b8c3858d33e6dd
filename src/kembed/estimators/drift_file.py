"""A fitted `DriftDetector` as a file: its parameters, and its reference as a sketch or as rows."""

from pathlib import Path
from typing import Any

import numpy as np

from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import printable
from kembed.tables.reader import read_tables
from kembed.tables.times import DAY, DAYS, HOURS, SECONDS, ZONED
from kembed.testing.sketch import Sketch
from kembed.testing.specification import known

KIND = "detector"
PARAMETERS = ("kernel", "alpha", "n_resamples", "margin", "nan_policy", "random_state")
NAMES = ("n_features_in_", "feature_names_in_")  # what scikit-learn asks of later tables


def write_detector(detector: Any, path: str | Path) -> Path:
    """Write a fitted detector, whole."""
    params = {name: getattr(detector, name) for name in PARAMETERS}
    if not isinstance(params["random_state"], int | None):
        seen = f"random_state={params['random_state']!r} cannot be written to a file"
        raise TypeError(f"{seen}; give a number, or None for fresh entropy")
    names = {name: _listed(getattr(detector, name)) for name in NAMES if hasattr(detector, name)}
    sketch = detector.sketch_
    reference = _rows(detector) if sketch is None else sketch.parts
    parts = {"params": params, "names": names, "sketched": sketch is not None, **reference}
    return write_store(path, KIND, parts, known())


def read_detector(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and what `fit` has learned."""
    parts = read_store(path, KIND, known())
    try:
        params = {name: parts["params"][name] for name in PARAMETERS}
        named = {
            name: np.array(value, object) if isinstance(value, list) else value
            for name, value in parts["names"].items()
        }
        if parts["sketched"]:
            return params, {**named, "reference_": None, "sketch_": Sketch.from_parts(parts, path)}
        return params, {**named, "reference_": _table(parts), "sketch_": None}
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        raise FileError(f"{printable(str(path))} does not hold a detector; make it again") from None


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _rows(detector: Any) -> dict[str, Any]:
    """The reference as numbers and levels."""
    reference = detector.reference_
    (table,), _ = read_tables({"reference": reference}, detector.nan_policy, minimum=1)
    levels = [list(own) if kind else None for own, kind in zip(table.levels, table.categorical, strict=True)]
    framed = list(table.names) if hasattr(reference, "columns") or isinstance(reference, dict) else None
    return {"values": table.values, "levels": levels, "framed": framed, "units": list(table.units)}


def _column(entries: Any, levels: Any, unit: str) -> Any:
    """A column of the type it had: categories, moments, times of day, durations or numbers."""
    import polars as pl

    if levels is not None:
        if all(isinstance(level, str) for level in levels):
            return pl.Series(entries, dtype=pl.String)
        import pandas as pd  # polars has no categories but text

        return pd.Categorical(entries, categories=levels)
    ticks: dict[str, tuple[float, Any]] = {  # per unit, and the type that counts them
        DAYS: (1e6 * DAY, pl.Datetime("us")),
        DAYS + ZONED: (1e6 * DAY, pl.Datetime("us", "UTC")),
        HOURS: (3.6e12, pl.Time),
        SECONDS: (1e6, pl.Duration("us")),
    }
    if unit not in ticks:
        return pl.Series(entries)
    per_unit, kind = ticks[unit]
    return pl.Series(np.round(entries * per_unit).astype(np.int64)).cast(kind)


def _table(parts: dict[str, Any]) -> Any:
    """The reference again: columns by name where it had names, else an array."""
    columns = [
        [levels[int(code)] for code in column] if levels is not None else column
        for column, levels in zip(parts["values"].T, parts["levels"], strict=True)
    ]
    if parts["framed"] is not None:
        import polars as pl

        kinds = zip(columns, parts["levels"], parts["units"], strict=True)
        named = dict(zip(parts["framed"], (_column(*each) for each in kinds), strict=True))
        return pl.DataFrame(named) if all(isinstance(one, pl.Series) for one in named.values()) else named
    if all(levels is None for levels in parts["levels"]):
        return parts["values"]
    return np.array([list(row) for row in zip(*columns, strict=True)], dtype=object)
