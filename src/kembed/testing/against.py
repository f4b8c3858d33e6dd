"""The two-sample test against a reference that is kept: `mmd_test(sketch, new)`, either way round."""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.kernels.base import Kernel
from kembed.permutation.atoms import FEW, bins_of, largest_power, most_bins
from kembed.permutation.bins import Bins
from kembed.permutation.labelings import draw_labelings
from kembed.tables.reader import MissingValuesError
from kembed.testing import outcome
from kembed.testing.binned import Sides, column_evidence, statistics_of
from kembed.testing.lens import Lens, recoding, sum_later
from kembed.testing.outcome import TestOutcome, resampled_outcome
from kembed.testing.passes import Sums
from kembed.testing.procedure import Procedure
from kembed.testing.sketch import Sketch, as_rows


def sketch_test(
    x: Any, y: Any, kernel: Any, procedure: Procedure, *, by_column: bool, nan_policy: str
) -> TestOutcome:
    """The permutation test of two samples of which one, or both, are sketches."""
    lens = _lens(x, y)
    _check(lens, kernel, procedure)
    sides: list[Any] = []
    notes: tuple[str, ...] = ()
    for value, argument in ((x, "x"), (y, "y")):
        if isinstance(value, Sketch):
            sides.append(value)
            continue
        try:
            source = as_rows(value, argument, nan_policy, lens.schema.names)
        except MissingValuesError as error:
            rows = (each.rows if isinstance(each, Sketch) else error.sizes[0] for each in (x, y))
            return outcome.nothing("MMD²", "permutation", tuple(rows))
        sides.append((source, recoding(lens.schema, source)))
        notes += source.notes
        notes += tuple(
            f"column {name!r} is left out: the sketch does not have it"
            for name in source.schema.names
            if name not in lens.schema.names and name != f"column {source.schema.names.index(name)}"
        )
    power = _power(sides)
    key = int(procedure.rng.integers(2**62))
    first, second = (_sums(side, lens, power, key) for side in sides)
    counts = tuple(len(each.weight) - 1 for each in (first, second))
    labels = np.concatenate([np.ones(counts[0]), np.zeros(counts[1])])
    labelings, enumerated = draw_labelings(labels, procedure.n_resamples, procedure.rng)
    both, streams, space = Sides((first, second), labelings.written_out), lens.streams, lens.space
    values = statistics_of(both, streams.members, streams.features, streams.entries(space))
    sizes = (first.rows, second.rows)
    names, levels = lens.schema.names, lens.levels
    columns = None
    if by_column:
        columns = column_evidence(both, lens.cells, space, names, levels, lens.kernel, procedure.rng)
    result = resampled_outcome("MMD²", sizes, streams.choice, values, "permutation", enumerated, columns)
    return replace(result, bins=counts, notes=notes)


def _lens(x: Any, y: Any) -> Lens:
    """That of the sketch; of two, if they are the same."""
    found = [each for each in (x, y) if isinstance(each, Sketch)]
    if len(found) == 2 and not found[0].alike(found[1]):
        seen = "x and y are sketches with different features"
        raise ValueError(f"{seen}; make one with those of the other: Sketch.of(table, like=sketch), --like")
    return found[0].lens


def _check(lens: Lens, kernel: Any, procedure: Procedure) -> None:
    """Refuse what a sketch cannot do."""
    own = lens.kernel
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


def _power(sides: list[Any]) -> int:
    """log₂ of the rows of a bin: by numbers of rows alone."""
    sketches = [side for side in sides if isinstance(side, Sketch)]
    if len(sketches) == 1:
        (source,) = (side[0] for side in sides if not isinstance(side, Sketch))
        return largest_power(source.size, sketches[0].powers)
    power = 0
    while all(bins_of(each.powers, power + 1).max(initial=-1) + 1 >= FEW for each in sketches):
        power += 1
    return power


def _sums(side: Any, lens: Lens, power: int, key: int) -> Sums:
    """Sums of bins of 2^power rows."""
    if isinstance(side, Sketch):
        return side.bins(power)
    source, coding = side
    bins = Bins(source.size, 2**power, most_bins(source.size, power), key)
    return source.fold(sum_later, coding, bins, lens.streams.fitted, lens.maps)
