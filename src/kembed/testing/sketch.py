"""A reference kept as a file: sums of its features, without its rows. `Sketch`.

"Compare next week's table with last year's, without last year's rows." Features are chosen on rows that are
set aside; of the others only sums by bin are kept, in bins of 1, 2, 4, ... rows. A later sample is put into
bins of as many rows, and whole bins change sides.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.progress import showing_progress
from kembed.core.store import FileError
from kembed.core.text import counted, listing, printable
from kembed.core.text import rows as rows_of
from kembed.core.writing import jsonable
from kembed.permutation.atoms import Atoms, bins_of, joined
from kembed.permutation.bins import bin_indicators, dense
from kembed.permutation.fusion import refuse_non_finite
from kembed.tables.reader import read
from kembed.tables.schema import LEVELS
from kembed.tables.source import Source
from kembed.testing.lens import ASIDE, SHARE, Lens, make_lens, recoding, sum_atoms
from kembed.testing.passes import Sums
from kembed.testing.procedure import QUIETLY
from kembed.testing.sketch_file import digest, read_sketch, settled, write_sketch

LEAST_ROWS = 16  # of a reference: a few to choose features on, and a few to compare
LONGEST = 2.0**63  # sums of steps are whole numbers below it
LARGEST_POWER = 62  # log₂ of the rows of an atom: more rows no table has


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """A sample as sums of features, which later samples are tested against: `mmd_test(sketch, new)`.

    The test is exact. Features are functions of the rows set aside, which are not counted; given these, the
    rows that were counted and the rows that come later are exchangeable if nothing has changed. Both are put
    into bins of r rows by their numbers alone, r is a function of the numbers of rows alone, and the p-value
    is the rank of the statistic among those with whole bins exchanged. Rows of the reference in no such bin
    keep their side. Levels of a category that no row set aside has count as one level, on either side.

    Sums are of whole steps (`testing/rounded.py`), so that nothing is lost by saving, loading and merging.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Sketch, mmd_test
    >>> rng = np.random.default_rng(0)
    >>> sketch = Sketch.of(rng.normal(size=(3_000, 2)))
    >>> sketch
    Sketch of 2,250 rows, 2 columns: 'column 0', 'column 1' (750 rows set aside to choose features)
    >>> new = rng.normal(size=(200, 2)) * [1.0, 1.6]
    >>> mmd_test(sketch, new, rng=0).pvalue, mmd_test(sketch, rng.normal(size=(200, 2)), rng=0).pvalue > 0.05
    (0.001, True)

    """

    lens: Lens
    powers: Int[np.ndarray, " A"]  # log₂ of the rows of every atom
    weight: Float[np.ndarray, " A+1"]  # rows of every atom, and of all else
    sums: tuple[Int[np.ndarray, "A+1 p"], ...]  # of every map of the lens, in steps

    @classmethod
    def of(
        cls,
        reference: Any,
        *,
        kernel: Any = "fused",
        like: Self | None = None,
        rng: Any = 0,
        nan_policy: str = "raise",
        progress: bool | None = None,
    ) -> Self:
        """The sketch of a reference.

        Parameters
        ----------
        reference
            One row an observation: an array, a data frame, or what is larger than memory (see `mmd_test`).
            Its rows may be in any order: they are numbered, and a keyed shuffle of the numbers decides
            where each goes.
        kernel
            As in `mmd_test`; what is chosen here is what later tests use.
        like
            Another sketch, whose features this one shall have, so that the two can be merged; then no row is
            set aside.
        rng
            Seed of the order of the rows and of random features.
        nan_policy
            `"raise"`, or `"omit"`: rows with missing values count nothing.
        progress
            Whether to show a progress bar; None: on a terminal only.

        """
        checks.choice(nan_policy, "nan_policy", ("raise", "omit"))
        source = as_rows(
            reference, "reference", nan_policy, () if like is None else _sketch(like, "like").columns
        )
        generator = checks.generator(rng)
        checks.size(source.size, 1 if like is not None else LEAST_ROWS, source.label)
        aside = 0 if like is not None else min(ASIDE, source.size // SHARE)
        atoms = Atoms(source.size, aside, int(generator.integers(2**62)))
        with showing_progress(progress), np.errstate(**QUIETLY):
            if like is None:
                lens = settled(make_lens(source, atoms, kernel, generator))
            else:
                lens = _sketch(like, "like").lens
            coding, fitted = recoding(lens.schema, source), lens.streams.fitted
            found = source.fold(sum_atoms, coding, atoms, fitted, lens.maps)
        whole = (_in_steps(sums, steps) for sums, steps in zip(found.features, lens.steps, strict=True))
        return cls(lens, atoms.powers, found.weight, tuple(whole))

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return int(self.weight.sum())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.lens.schema.names

    @cached_property
    def features(self) -> str:
        """A number that sketches with the same features share."""
        return digest(self.lens)

    def alike(self, other: "Sketch") -> bool:
        """Whether the two have the same features."""
        if self.lens is other.lens:
            return True
        try:
            return self.features == other.features
        except TypeError:  # a kernel that is a function of the user's: nobody can tell
            return False

    def merge(self, other: "Sketch") -> "Sketch":
        """The sketch of the rows of both (other sites, other days), which must have the same features.

        >>> import numpy as np
        >>> from kembed import Sketch
        >>> monday = Sketch.of(np.random.default_rng(0).normal(size=400))
        >>> tuesday = Sketch.of(np.random.default_rng(1).normal(size=300), like=monday)
        >>> (monday + tuesday).rows
        600
        """
        other = _sketch(other, "other")
        if not self.alike(other):
            raise ValueError(
                f"the sketches have different features (columns {listing(self.columns)} and "
                f"{listing(other.columns)}), so that their sums cannot be added; "
                "make one with those of the other: Sketch.of(table, like=sketch), --like"
            )
        widths = [1, *(part.shape[1] for part in self.sums)]
        tables = [np.hstack([each.weight[:, None], *each.sums]).astype(float) for each in (self, other)]
        powers = np.concatenate([self.powers, other.powers])
        order = np.argsort(powers, kind="stable")
        atoms = np.concatenate([table[:-1] for table in tables])[order]
        powers, kept, left = joined(powers[order], atoms)
        whole = np.vstack([kept, left + tables[0][-1] + tables[1][-1]])
        weight, *sums = np.split(whole, np.cumsum(widths)[:-1], axis=1)
        ones = (np.ones(width) for width in widths[1:])
        return Sketch(self.lens, powers, weight[:, 0], tuple(map(_in_steps, sums, ones)))

    __add__ = merge

    def save(self, path: str | Path) -> Path:
        """Write it to a file, atomically: arrays and JSON, no code."""
        return write_sketch(path, self.parts)

    @property
    def parts(self) -> dict[str, Any]:
        """What a file holds."""
        return {name: getattr(self, name) for name in ("lens", "powers", "weight", "sums")}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The sketch in a file that `save` has written; nothing in a file is run."""
        return cls.from_parts(read_sketch(path), path)

    @classmethod
    def from_parts(cls, parts: dict[str, Any], path: str | Path) -> Self:
        """From what was read, if it fits together."""
        try:
            made = cls(parts["lens"], parts["powers"], parts["weight"], tuple(parts["sums"]))
            schema, powers = made.lens.schema, made.powers
            height, widths = len(powers) + 1, [len(steps) for steps in made.lens.steps]
            of_columns = (schema.names, schema.categorical, schema.levels, made.lens.margins.T)
            fits = (
                [part.shape for part in made.sums] == [(height, width) for width in widths]
                and {part.dtype.kind for part in (powers, *made.sums)} == {"i"}
                and np.isin(powers, range(LARGEST_POWER)).all()
                and (np.diff(powers) >= 0).all()
                and np.array_equal(made.weight[:-1], 2.0**powers)  # bins of complete rows
                and 0.0 <= made.weight[-1] < 2.0**LARGEST_POWER
                and {len(column) for column in of_columns} == {len(made.lens.cells.points)}
                and max(map(len, schema.levels)) <= LEVELS
            )
        except (KeyError, AttributeError, TypeError, ValueError, IndexError):
            fits = False
        if not fits:
            raise FileError(f"{printable(str(path))} does not hold a sketch; make it again")
        return made

    def bins(self, power: int) -> Sums:
        """Sums of bins of 2^power rows, all else last."""
        where = bins_of(self.powers, power)
        count = int(where.max(initial=-1)) + 1
        where = np.append(np.where(where < 0, count, where), count)
        weight = np.bincount(where, self.weight, count + 1)
        parts = zip(self.sums, self.lens.steps, strict=True)
        indicators = bin_indicators(where, count)
        return Sums(self.rows, weight, weight, [dense(indicators @ (sums * steps)) for sums, steps in parts])

    def to_dict(self) -> dict[str, Any]:
        """What it is, in the words of docs/json.md."""
        schema, largest = self.lens.schema, int(self.powers.max(initial=0))
        kinds = zip(schema.names, schema.categorical, schema.levels, strict=True)
        told = {
            "rows": self.rows,
            "set_aside": self.lens.aside,
            "kernel": self.lens.kernel if isinstance(self.lens.kernel, str) else repr(self.lens.kernel),
            "features": int(sum(part.shape[1] for part in self.sums)),
            "bins": len(self.powers),
            "largest_bin": 2**largest,
            "by_column": [
                {
                    "name": name,
                    "kind": "categories" if kind else "numbers",
                    "levels": list(levels) if kind else None,
                }
                for name, kind, levels in kinds
            ],
            "fingerprint": self.features[:16],
        }
        return jsonable(told)

    def __repr__(self) -> str:
        names = f"{counted(len(self.columns), 'column')}: {listing(self.columns)}"
        aside = f"{rows_of(self.lens.aside)} set aside to choose features"
        return f"Sketch of {rows_of(self.rows)}, {names} ({aside})"


def as_rows(value: Any, argument: str, nan_policy: str, keep: tuple[str, ...] = ()) -> Source:
    """A sample as a source of its complete rows; columns in `keep` are never left out."""
    if isinstance(value, Source):
        return value
    checks.choice(nan_policy, "nan_policy", ("raise", "omit", "propagate"))
    (source,) = read({argument: value}, nan_policy=nan_policy, minimum=2, keep=keep)
    return source


def _in_steps(sums: Float[np.ndarray, "A+1 p"], steps: Float[np.ndarray, " p"]) -> Int[np.ndarray, "A+1 p"]:
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
