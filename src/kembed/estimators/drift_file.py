"""A fitted `DriftDetector` as a file: its parameters, and its reference as a sketch or as rows."""

from pathlib import Path
from typing import Any

import numpy as np

from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import printable
from kembed.tables.reader import read_tables
from kembed.tables.stored import rows_from_parts, table_parts
from kembed.testing.sketch import DETECTOR, Sketch
from kembed.testing.specification import known

PARAMETERS = ("kernel", "alpha", "n_resamples", "strata", "margin", "nan_policy", "random_state")
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
    return write_store(path, DETECTOR, parts, known())


def read_detector(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and what `fit` has learned."""
    parts = read_store(path, DETECTOR, known())
    try:
        params = {name: parts["params"][name] for name in PARAMETERS}
        named = {
            name: np.array(value, object) if isinstance(value, list) else value
            for name, value in parts["names"].items()
        }
        if parts["sketched"]:
            return params, {**named, "reference_": None, "sketch_": Sketch.from_parts(parts, path)}
        return params, {**named, "reference_": rows_from_parts(parts), "sketch_": None}
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        raise FileError(f"{printable(str(path))} does not hold a detector; make it again") from None


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _rows(detector: Any) -> dict[str, Any]:
    """The reference as numbers and levels."""
    reference = detector.reference_
    (table,), _ = read_tables({"reference": reference}, detector.nan_policy, minimum=1)
    return table_parts(table, hasattr(reference, "columns") or isinstance(reference, dict))
