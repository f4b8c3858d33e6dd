"""Hostile values, drawn with a seed: numbers, words, tables, and among them all that once broke something."""

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

# Sizes at which something broke once, and ordinary ones.
SIZES = (
    1.0,
    1e-3,
    1e6,
    1e12,
    1e-12,
    1e100,
    1e150,
    1e154,
    1e160,
    1e-160,
    1e200,
    1e300,
    1e-300,
    1.7e308,
    5e-324,
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 19, 100, 10**8, 10**30, 2**53 + 1, 0.0, -0.0, 0.5, 1.9, 0.05, 1.5, -2.5, 1e-320),
    *(1e154, 1e-154, 1e160, 1e-160, 1e300, 1.7e308, float("nan"), float("inf"), -float("inf"), True, False),
    *(np.float32(0.1), np.int8(3), np.float64(1e154), np.bool_(True), decimal.Decimal("0.1"), 1 + 2j),
)
WORDS: tuple[Any, ...] = (
    *(
        "",
        "x",
        "median",
        "fused",
        "bkl",
        "ard",
        "paper",
        "auto",
        "median-raw",
        "omit",
        "raise",
        "propagate",
        "wild",
    ),
    *(
        "gamma",
        "spectral",
        "permutation",
        "biased",
        "unbiased",
        "features",
        "^b.*$",
        "*",
        "column 0",
        "\x1b[31m",
    ),
    *("a b", "Ü", "\0", "/nowhere/at/all.csv", "*.nothing", "subset", "support", "normal", "full"),
)
OTHERS: tuple[Any, ...] = (
    *(
        None,
        [],
        (),
        {},
        [[]],
        [[], []],
        [[1, 2], [3]],
        {"a": 1},
        {"a": [1, 2], "b": [1]},
        object(),
        b"bytes",
        len,
    ),
    *(
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros((2, 2, 2)),
        np.array(3.0),
        np.ma.zeros(30, dtype=[("a", "f8"), ("b", "f8")]),
        [10**400, 1.0] * 15,
        [None] * 5,
        ["a", 1],
    ),
    *(pd.DataFrame(), pl.DataFrame(), pd.Series([], dtype=float), np.array(["a"] * 30), slice(3), range(30)),
)
TEXTS = (
    "12,345",
    "$12.34",
    "173.4 cm",
    "1.234,5",
    "12%",
    "007",
    "2020-01-31",
    "06:30",
    "P1DT2H",
    "yes",
    "Yes",
    "nan",
    "",
    "1e5",
    "=1+1",
    "\x1b[31mred",
)


def any_value(rng: np.random.Generator) -> Any:
    """Something that hardly any argument expects."""
    pools = (NUMBERS, NUMBERS, WORDS, OTHERS)
    pool = pools[rng.integers(len(pools))]
    return pool[rng.integers(len(pool))]


def column(rng: np.random.Generator, n: int) -> Any:
    """One column of numbers: ordinary, constant, tied, huge, tiny, far away, with gaps."""
    kind = rng.integers(12)
    values = rng.normal(size=n)
    if kind == 0:
        return np.full(n, float(rng.choice([0.0, 1.0, 1e300, -3.5])))
    if kind == 1:
        return rng.integers(0, int(rng.choice([2, 3, 10])), n)
    if kind == 2:
        return (
            np.clip(values, -1, 1) * SIZES[rng.integers(len(SIZES))] if rng.random() < 0.5 else values + 1e12
        )
    if kind == 3:
        values[rng.integers(n) if n else slice(0)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 1e12])
        return values
    if kind == 4:
        return np.arange(n) + float(rng.integers(3))
    if kind == 5:
        return (rng.random(n) < 0.05).astype(float)
    if kind == 6:
        return rng.standard_cauchy(n) ** 3
    if kind == 7:
        return values.astype(rng.choice(["f4", "f2", "f8", "i8"]))
    if kind == 8:
        return values > 0
    return values


# Numbers and times as people write them, and what only looks so.
WRITTEN = (
    *(
        "({0},5{1:02d})",
        "${0}.5",
        "US${0}",
        "CHF {0}.-",
        "–{0}.5",
        "{0}-",
        "<{0}",
        "{0}*",
        "{0}½",
        "{0}+",
        "0x{0:X}",
    ),
    *(
        "{0}/{1}",
        "{0}-{1}",
        "{0}.{1}.3",
        "{0} ± {1}",
        "{0}h {1}m",
        "5'{0}\"",
        "{0}.5k",
        "{0}M",
        "{0}%",
        "{0} kg/m^2",
    ),
    *(
        "2020-01-{0:02d}",
        "{0}.12.2020",
        "{0}/{1}/20",
        "{0}:30",
        "{0}:30 PM",
        "24:00",
        "P{0}Y",
        "PT{0}.{1}.1S",
    ),
    *(
        "P{0}99999999999999999999D",
        "{0} Jan 2020",
        "{0}.12.2020 24:00",
        "2020-01-{0:02d} 12:00+{1:02d}",
        "1e{0}99",
    ),
    *("\u200b{0}", "#DIV/0!", "-", "?", "{0},5", "{0}.5", "{0},5{1:02d}", "{0},{1:02d},123", "{0}\u00a0000"),
)


def words_column(rng: np.random.Generator, n: int) -> list[Any]:
    """A column of text, categories, dates or a mixture."""
    kind = rng.integers(11)
    if kind == 0:
        return [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 400, n)]
    if kind == 1:
        return [str(k) for k in rng.integers(0, 50, n)]
    if kind == 2:
        return rng.choice(["a", "b", None], n).tolist()
    if kind == 3:
        return [f"{v:.1f} cm" for v in rng.normal(170, 10, n)]
    if kind == 4:
        return [f"name {k}" for k in range(n)]
    if kind == 5:
        return rng.choice(list(TEXTS), n).tolist()
    if kind == 8:
        zone = datetime.UTC if rng.random() < 0.5 else None
        return [datetime.datetime(2020, 1, 1, int(hour), tzinfo=zone) for hour in rng.integers(0, 24, n)]
    if kind == 6:
        return [f"{v:,.0f}" for v in rng.lognormal(10, 1, n)]
    if kind == 7:
        return rng.choice(["red", "green", "Green", "blue"], n).tolist()
    written = WRITTEN[int(rng.integers(len(WRITTEN)))]
    other = WRITTEN[int(rng.integers(len(WRITTEN)))] if kind == 10 else written
    return [(written if rng.random() < 0.9 else other).format(k, k + 1) for k in rng.integers(1, 30, n)]


def table(rng: np.random.Generator, n: int, width: int, names: list[str] | None = None) -> Any:
    """A sample of some rows: an array, nested lists, a data frame of some library, a mapping, or masked."""
    kind = rng.integers(10)
    if kind < 4:
        array = np.column_stack([column(rng, n) for _ in range(width)])
        if kind == 3:
            array = array[:, 0] if width == 1 else np.asfortranarray(array)
        return array
    if kind == 4:
        masked = np.ma.masked_array(rng.normal(size=(n, width)), mask=rng.random((n, width)) < 0.1)
        return list(masked) if rng.random() < 0.3 else masked
    if kind == 5:
        return [list(map(float, row)) for row in rng.normal(size=(n, width))]
    named = names or [str(name) for name in rng.choice(["a", "b", "^b.*$", "*", "c d", "é"], width, False)]
    columns = {name: words_column(rng, n) if rng.random() < 0.3 else column(rng, n) for name in named}
    if kind == 6:
        return columns
    if kind == 7:
        # Polars reads some names as patterns, and then makes no column of times.
        return pl.DataFrame([pl.Series("", one, strict=False).alias(name) for name, one in columns.items()])
    index = rng.permutation(n) if rng.random() < 0.2 else None
    return pd.DataFrame(columns, index=index)


def plain(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Numbers as everybody has them."""
    return np.round(rng.normal(size=(n, width)), int(rng.integers(0, 6)))


def sample(rng: np.random.Generator, n: int, width: int, names: list[str] | None = None) -> Any:
    """Mostly a table; now and then nothing of the kind."""
    if rng.random() < 0.04:
        return any_value(rng)
    if rng.random() < 0.08:
        n = int(rng.integers(0, 6))
    return table(rng, n, width, names)
