"""Sketches: a reference sample as sums of features without its rows, and tests against it.

"Compare next week's table with last year's, without last year's rows." Features are fitted on held-out rows;
of the others only sums over bins of 1, 2, 4, ... rows are stored. A later sample is put into bins of as many
rows, and labels of whole bins are exchanged. Totals of every column and some rows are stored beside them, so
that a difference can be explained (`testing/reference.py`).
"""

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.progress import showing_progress
from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import counted, listing, printable
from kembed.core.text import rows as rows_of
from kembed.core.writing import jsonable
from kembed.kernels.base import Kernel
from kembed.permutation.bins import MOST, Bins
from kembed.permutation.designs import TwoSamples
from kembed.permutation.dyadic import DyadicBins, common_power, merge_bins, union_indicators
from kembed.permutation.fusion import refuse_non_finite
from kembed.permutation.sums import Sums, stored
from kembed.tables.reader import MissingValuesError, read
from kembed.tables.schema import LEVELS
from kembed.tables.source import Block, Source, Stacked
from kembed.tables.table import Table
from kembed.testing import outcome
from kembed.testing.engine import fitted_test
from kembed.testing.outcome import TestOutcome
from kembed.testing.procedure import QUIETLY, Procedure
from kembed.testing.reference import KEPT, ColumnTotal, KeptRows, Totals, take_kept
from kembed.testing.specification import (
    Recoding,
    Specification,
    digest,
    fit_specification,
    known,
    left_out,
    recoding,
    stored_again,
    sum_recoded,
)

HELD_OUT = 4_096  # rows that features are fitted on, about
SHARE = 4  # one row in so many is held out at most
KIND, DETECTOR = "sketch", "detector"  # kinds of files that hold a reference
LEAST_ROWS = 16  # of a reference: a few to fit features on, and a few to compare
LONGEST = 2.0**63  # sums of steps are whole numbers below it
LARGEST_POWER = 62  # log₂ of the rows of a bin: more rows no table has


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """A sample as sums of features, which later samples are tested against: `mmd_test(sketch, new)`.

    The test is exact. Features are functions of held-out rows, which are not summed; given these, the rows
    that were summed and the rows that come later are exchangeable if nothing has changed. Both are put into
    bins of r rows by their numbers alone, r is a function of the numbers of rows alone, and the p-value is
    the rank of the statistic among those with labels of whole bins exchanged. Rows of the reference in no
    such bin keep their label. Levels of a category that no held-out row has are one level in both samples.

    A sketch explains a difference too: `compare(sketch, new)`. Columns, their effects and categories come
    from all rows, regions and pictures from those that the sketch keeps (`keep_rows`). It is small, not
    anonymous: even with `keep_rows=0` a few hundred rows are in it as landmarks, with values of every column.

    Sums are of whole steps (`testing/specification.py`), so nothing is lost by saving, loading and merging.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Sketch, mmd_test
    >>> rng = np.random.default_rng(0)
    >>> sketch = Sketch.of(rng.normal(size=(3_000, 2)))
    >>> sketch
    Sketch of 2,250 rows, 2 columns: 'column 0', 'column 1' (750 rows held out to fit features)
    >>> new = rng.normal(size=(200, 2)) * [1.0, 1.6]
    >>> mmd_test(sketch, new, rng=0).pvalue, mmd_test(sketch, rng.normal(size=(200, 2)), rng=0).pvalue > 0.05
    (0.001, True)

    """

    specification: Specification
    powers: Int[np.ndarray, " A"]  # log₂ of the rows of every bin
    weight: Float[np.ndarray, " A+1"]  # rows of every bin, and of what fills none
    sums: tuple[Int[np.ndarray, "A+1 p"], ...]  # of every feature map, in steps
    totals: Totals
    kept: KeptRows

    @classmethod
    def of(
        cls,
        reference: Any,
        *,
        kernel: Any = "fused",
        like: Self | None = None,
        rng: Any = 0,
        nan_policy: str = "raise",
        keep_rows: int = KEPT,
        progress: bool | None = None,
    ) -> Self:
        """Summarise a reference sample.

        Parameters
        ----------
        reference : array_like, data frame, path, pattern or Dask collection
            One row an observation, in memory or larger (see `mmd_test`). Its rows may be in any order: a
            keyed shuffle of their numbers decides where each goes.
        kernel : str, Kernel, callable or list
            As in `mmd_test`; what is chosen here is what later tests use.
        like : Sketch, optional
            Another sketch, whose features this one shall have, so that the two can be merged; then no row is
            held out.
        rng : int or numpy.random.Generator
            Seed of the order of the rows and of random features.
        nan_policy : {"raise", "omit"}
            With `"omit"` rows with missing values count for nothing.
        keep_rows : int
            How many rows to keep, drawn at random, for `compare` and `witness`: regions, pictures and
            relationships of columns need rows. With 0 these are not available; no test looks at them.
        progress : bool, optional
            Whether to show a progress bar; None: on a terminal only.

        Returns
        -------
        Sketch
            The sums.

        Raises
        ------
        ValueError
            If there are fewer than 16 rows, or values are missing.

        """
        checks.choice(nan_policy, "nan_policy", ("raise", "omit"))
        given = None if like is None else _sketch(like, "like")
        source = as_rows(reference, "reference", nan_policy, () if given is None else given.columns)
        keep_rows, generator = checks.count(keep_rows, "keep_rows", 0), checks.generator(rng)
        checks.size(source.size, 1 if given is not None else LEAST_ROWS, source.label)
        held_out = 0 if given is not None else min(HELD_OUT, source.size // SHARE)
        bins = DyadicBins(source.size, held_out, int(generator.integers(2**62)))
        with showing_progress(progress), np.errstate(**QUIETLY):
            if given is not None:
                specification = given.specification
            else:  # as a file would return it, to the last bit
                specification = stored_again(fit_specification(source, bins, kernel, generator))
            maps, coding = specification.maps, recoding(specification.schema, source)
            drawn = source.size, keep_rows, int(generator.integers(2**62))
            found = source.fold(sum_reference, coding, bins, specification, *drawn)
        steps = zip(found["sums"].features, maps, strict=True)
        sums = tuple(in_steps(table[:-1], each.steps) for table, each in steps)  # without held-out rows
        missing = np.array(getattr(source, "missing", None) or [0] * len(source.schema.names))
        totals = replace(found["totals"], given=source.given, missing=missing[list(coding.places)])
        levels = tuple(source.schema.levels[place] for place in coding.places)
        kept = KeptRows.of(keep_rows, found["kept"].table, levels)
        return cls(specification, bins.powers, found["sums"].weight[:-1], sums, totals, kept)

    @property
    def rows(self) -> int:
        """The number of rows that were summed."""
        return int(self.weight.sum())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.specification.schema.names

    @cached_property
    def features(self) -> str:
        """A hash that sketches with the same features share."""
        return digest(self.specification)

    def refuse_different(self, other: "Sketch") -> None:
        """Refuse a sketch with other features, whose sums can be neither added nor compared."""
        same = self.specification is other.specification
        with suppress(TypeError):  # a kernel that is a function of the user's: nobody can tell
            same = same or self.features == other.features
        if not same:
            both = f"columns {listing(self.columns)} and {listing(other.columns)}"
            remedy = "make one with those of the other: Sketch.of(table, like=sketch), --like"
            raise ValueError(f"the sketches have different features ({both}); {remedy}")

    def merge(self, other: "Sketch") -> "Sketch":
        """Merge with the sketch of other rows (other sites, other days), which must have the same features.

        >>> import numpy as np
        >>> from kembed import Sketch
        >>> monday = Sketch.of(np.random.default_rng(0).normal(size=400))
        >>> tuesday = Sketch.of(np.random.default_rng(1).normal(size=300), like=monday)
        >>> (monday + tuesday).rows
        600
        """
        other = _sketch(other, "other")
        self.refuse_different(other)
        widths = [1, *(part.shape[1] for part in self.sums)]
        tables = [np.hstack([each.weight[:, None], *each.sums]).astype(float) for each in (self, other)]
        powers = np.concatenate([self.powers, other.powers])
        order = np.argsort(powers, kind="stable")
        powers, kept, left = merge_bins(
            powers[order], np.concatenate([table[:-1] for table in tables])[order]
        )
        whole = np.vstack([kept, left + tables[0][-1] + tables[1][-1]])
        weight, *sums = np.split(whole, np.cumsum(widths)[:-1], axis=1)
        steps = tuple(in_steps(part, 1.0) for part in sums)
        totals, rows = self.totals.plus(other.totals), self.kept.plus(other.kept)
        return Sketch(self.specification, powers, weight[:, 0], steps, totals, rows)

    __add__ = merge

    def save(self, path: str | Path) -> Path:
        """Write it to a file, atomically: arrays and JSON, no code."""
        return write_store(path, KIND, self.parts, known())

    @property
    def parts(self) -> dict[str, Any]:
        """What a file holds."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the sketch in a file that `save` has written; nothing in a file is run.

        Raises
        ------
        FileError
            If the file is missing or damaged, or holds something else.

        """
        return cls.from_parts(read_store(path, KIND, known()), path)

    @classmethod
    def from_parts(cls, parts: dict[str, Any], path: str | Path) -> Self:
        """Make it from what was read, if the parts agree."""
        try:
            made = cls(**{each.name: parts[each.name] for each in fields(cls)})
            schema, powers, maps = made.specification.schema, made.powers, made.specification.maps
            fits = (
                [part.shape for part in made.sums] == [(len(powers) + 1, len(each.steps)) for each in maps]
                and {part.dtype.kind for part in (powers, *made.sums)} == {"i"}
                and np.isin(powers, range(LARGEST_POWER)).all()
                and (np.diff(powers) >= 0).all()
                and np.array_equal(made.weight[:-1], 2.0**powers)  # bins are full
                and 0.0 <= made.weight[-1] < 2.0**LARGEST_POWER
                and made.totals.fits(len(schema.names))
                and made.kept.fits(schema)
                and max(map(len, schema.levels)) <= LEVELS
                and made.specification.works
            )
        except Exception:  # whatever forged parts lead to
            fits = False
        if not fits:
            raise FileError(f"{printable(str(path))} does not hold a sketch; make it again")
        return made

    def sums_of(self, power: int) -> Sums:
        """Sums over bins of 2^power rows, and over all other rows."""
        indicators = union_indicators(self.powers, power)
        parts = zip(self.sums, self.specification.maps, strict=True)
        features = [indicators @ (sums * each.steps) for sums, each in parts]
        return Sums(self.rows, indicators @ self.weight, features)

    def column(self, c: int) -> ColumnTotal:
        """One column of all rows that were summed."""
        totals, scales, n = self.totals, self.specification.scales[:, c], self.rows
        first, second = float(totals.first[c]), float(totals.second[c])
        variance = max(second - first**2 / n, 0.0) / max(n - 1, 1)
        ends = float(totals.low[c]), float(totals.high[c])
        mean, sd = scales[0] + scales[1] * first / n, scales[1] * np.sqrt(variance)
        points = self.specification.histograms[c].points
        counts = self.sums[c - len(self.columns)].sum(axis=0)
        return ColumnTotal(n, points, counts, float(np.clip(mean, *ends)), float(sd), *ends)

    def kept_rows(self, label: str) -> Table:
        """The rows that are kept, as a table."""
        kept, schema = self.kept, self.specification.schema
        places, D = np.arange(len(kept.values)), len(schema.names)
        shape = places, len(places), kept.levels, label, schema.units
        about: Any = {"gaps": (0,) * D, "missing_of": ("",) * D}
        return Table(kept.values, schema.names, schema.discrete, *shape, **about)

    def to_dict(self) -> dict[str, Any]:
        """Describe it in the words of docs/json.md."""
        schema, kernel = self.specification.schema, self.specification.kernel
        columns = [
            {"name": name, "kind": ("numbers", "categories")[kind], "levels": list(levels) if kind else None}
            for name, kind, levels in zip(schema.names, schema.categorical, schema.levels, strict=True)
        ]
        return jsonable(
            {
                "rows": self.rows,
                "held_out": self.specification.rows,
                "kept": len(self.kept.values),
                "kernel": kernel if isinstance(kernel, str) else repr(kernel),
                "features": sum(part.shape[1] for part in self.sums),
                "bins": len(self.powers),
                "largest_bin": 2 ** int(self.powers.max(initial=0)),
                "by_column": columns,
                "fingerprint": self.features[:16],
            }
        )

    def __repr__(self) -> str:
        names = f"{counted(len(self.columns), 'column')}: {listing(self.columns)}"
        held_out = f"{rows_of(self.specification.rows)} held out to fit features"
        return f"Sketch of {rows_of(self.rows)}, {names} ({held_out})"


def sum_reference(
    block: Block, coding: Recoding, bins: Any, specification: Specification, size: int, most: int, key: int
) -> dict[str, Any]:
    """Sums by bin, totals of the same rows, and the rows that are kept."""
    coded = coding(block)
    summed = bins.of(block.first, len(block.values))[1] >= 0
    return {
        "sums": sum_recoded(block, coding, bins, specification.basis, specification.maps),
        "totals": Totals.of(coded.values[summed], specification.scales),
        "kept": Stacked((take_kept(block, coding.places, size, most, key),)),
    }


def load_reference(path: str | Path) -> Any:
    """The reference in a file of a sketch or of a drift detector: a sketch, or rows.

    Raises
    ------
    FileError
        If the file is missing or damaged, or holds something else.

    """
    parts = read_store(path, (KIND, DETECTOR), known())
    if parts.get("sketched", True):
        return Sketch.from_parts(parts, path)
    try:
        return parts["rows"]
    except (KeyError, TypeError):
        raise FileError(f"{printable(str(path))} does not hold a detector; make it again") from None


def as_rows(
    value: Any, argument: str, nan_policy: str, keep: tuple[str, ...] = (), minimum: int = 2
) -> Source:
    """Read a sample as a source of its complete rows; columns in `keep` are never left out."""
    if isinstance(value, Source):
        return value
    checks.choice(nan_policy, "nan_policy", ("raise", "omit", "propagate"))
    (source,) = read({argument: value}, nan_policy=nan_policy, minimum=minimum, keep=keep)
    return source


def in_steps(sums: Float[np.ndarray, "A+1 p"], steps: Any) -> Int[np.ndarray, "A+1 p"]:
    """Whole numbers of steps, as short as they can be held."""
    found = sums / steps
    refuse_non_finite(found)
    size = np.abs(found).max(initial=0.0)
    if size >= LONGEST:
        seen = "rows lie so far from those that features were chosen on that their sums are no whole numbers"
        raise ValueError(f"{seen}; look for absurd values, or sketch these rows without like=")
    return found.astype(np.int32 if size < 2.0**31 else np.int64)


def _sketch(value: Any, name: str) -> Any:
    if not isinstance(value, Sketch):
        raise TypeError(f"{name} must be a Sketch, but {type(value).__name__} was given; use Sketch.of")
    return value


def sketch_test(
    x: Any, y: Any, kernel: Any, procedure: Procedure, *, by_column: bool, nan_policy: str
) -> TestOutcome:
    """Test two samples of which one, or both, are sketches, by exchanging bins."""
    sketches = [each for each in (x, y) if isinstance(each, Sketch)]
    sketches[0].refuse_different(sketches[-1])
    specification, names = sketches[0].specification, sketches[0].columns
    _refuse_others(specification, kernel, procedure)
    samples: list[Sketch | Source] = []
    notes: tuple[str, ...] = ()
    for value, argument in ((x, "x"), (y, "y")):
        if isinstance(value, Sketch):
            samples.append(value)
            continue
        try:
            source = as_rows(value, argument, nan_policy, names)
        except MissingValuesError as error:
            rows = (each.rows if isinstance(each, Sketch) else error.sizes[0] for each in (x, y))
            return outcome.nothing("MMD²", "permutation", tuple(rows))
        samples.append(source)
        notes += (*source.notes, *left_out(source, names, "sketch"))
    power = common_power([each.powers if isinstance(each, Sketch) else each.size for each in samples])
    key = int(procedure.rng.integers(2**62))
    parts = [
        each.sums_of(power)
        if isinstance(each, Sketch)
        else specification.sums(each, Bins(each.size, 2**power, min(each.size >> power, MOST), key))
        for each in samples
    ]
    counts = [len(part.weight) for part in parts]  # the last bin of either sample keeps its label
    classes = np.concatenate([np.append(np.zeros(count - 1, dtype=int), -1) for count in counts])
    design = TwoSamples(np.repeat([1.0, 0.0], counts), classes, np.zeros(sum(counts), dtype=int))
    sums, sizes = stored(parts, specification.maps), tuple(part.rows for part in parts)
    columns = specification.columns if by_column else None
    if by_column:
        specification.add_columns(sums)
    result = fitted_test(specification.fitted, columns, names, sums, design, procedure, sizes)
    return replace(result, bins=tuple(count - 1 for count in counts), notes=notes)


def _refuse_others(specification: Specification, kernel: Any, procedure: Procedure) -> None:
    """Refuse what a sketch cannot do."""
    own = specification.kernel
    same = kernel is own or (
        isinstance(kernel, str | Kernel) and isinstance(own, type(kernel)) and kernel == own
    )
    if not (same or (isinstance(kernel, str) and kernel == "fused")):  # the default: whatever the sketch has
        seen = f"kernel={kernel!r} was given, but the sketch was made with kernel={own!r}"
        raise ValueError(f"{seen}; leave kernel (--kernel) out, or make another sketch")
    if procedure.null != "permutation":
        raise ValueError(f"a sketch is tested with null='permutation', but {procedure.null!r} was given")
    if procedure.statistic not in ("auto", "features"):
        seen = f"statistic={procedure.statistic!r} needs the rows of both samples, and a sketch has none"
        raise ValueError(f"{seen}; leave statistic out")
