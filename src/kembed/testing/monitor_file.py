"""A `Monitor` as a file: options, feature maps, evidence, and the bins of its streams as whole numbers."""

from pathlib import Path
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.store import FileError, read_store, write_store
from kembed.core.text import printable
from kembed.permutation.reservoir import Binned, Stream
from kembed.testing.anytime import EvidenceProcess
from kembed.testing.direction import Training
from kembed.testing.sketch import Sketch, in_steps
from kembed.testing.specification import Specification, known
from kembed.testing.stream import Stratum

KIND = "monitor"
PLAIN = (
    *("alpha", "mean_time", "by", "unit", "kernel", "n_resamples", "nan_policy"),
    *("seed", "counter", "earlier", "notes", "specification"),
)
INTEGERS = (np.int8, np.int16, np.int32, np.int64)


def write_monitor(monitor: Any, path: str | Path) -> Path:
    """Write a monitor, whole."""
    parts = {name: getattr(monitor, name) for name in PLAIN}
    strata, wide = {}, []
    for name, stratum in monitor.state.strata.items():
        count = len(stratum.streams) - (stratum.training is not None)
        streams, learned = stratum.streams[:count], stratum.streams[count:]
        strata[name] = [stratum.reference, stratum.power, list(map(_plain, streams)), list(learned)]
        strata[name].append(stratum.training)
        wide += [table for stream in streams for table in _tables(stream)]
    packed = _packed(np.concatenate(wide), monitor.specification) if wide else []
    parts |= monitor.state._asdict() | {"strata": strata, "bins": packed}
    return write_store(path, KIND, parts, _known())


def read_monitor(kind: Any, path: str | Path) -> Any:
    """The monitor in a file."""
    parts = read_store(path, KIND, _known())
    try:
        made = kind.from_parts({**parts, "strata": _strata(parts)})
        fits = made.specification.works and made.fits
    except Exception:  # whatever forged parts lead to
        fits = False
    if not fits:
        raise FileError(f"{printable(str(path))} does not hold a monitor; make it again")
    return made


def _strata(parts: dict[str, Any]) -> dict[str, Stratum]:
    """The strata with their bins."""
    specification, found, start = parts["specification"], {}, 0
    bins = _unpacked(parts["bins"], specification) if parts["bins"] else np.empty((0, 0))
    for name, (reference, power, plain, learned, training) in parts["strata"].items():
        streams = []
        for size, counts in plain:
            past, left, block, rest, loose = np.split(
                bins[start : start + sum(counts)], np.cumsum(counts)[:-1]
            )
            streams.append(Stream(Binned(past, left[0]), Binned(block, rest[0]), loose, size))
            start += sum(counts)
        found[name] = Stratum(reference, power, (*streams, *learned), training)
    if start != len(bins):
        raise ValueError("more bins than streams have")
    return found


def _known() -> dict[str, Any]:
    """What a file may hold."""
    return known() | {each.__name__: each for each in (EvidenceProcess, Sketch, Binned, Stream, Training)}


def _tables(stream: Stream) -> list[Float[np.ndarray, "k p"]]:
    """All bins and sums of a stream."""
    past, block = stream.past, stream.block
    return [past.bins, past.rest[None], block.bins, block.rest[None], stream.loose]


def _plain(stream: Stream) -> list[Any]:
    """What a stream is besides."""
    return [stream.size, [len(table) for table in _tables(stream)]]


def _packed(table: Float[np.ndarray, "k p"], specification: Specification) -> list[Int[np.ndarray, "k q"]]:
    """A table of bins in whole steps: rows first, then every feature map, each as short as it can be held."""
    steps = [np.ones(1), *(each.steps for each in specification.fitted.ensemble.maps)]
    found = []
    for part, step in zip(
        np.split(table, np.cumsum([len(each) for each in steps])[:-1], axis=1), steps, strict=True
    ):
        whole = in_steps(part, step)
        low, high = int(whole.min(initial=0)), int(whole.max(initial=0))
        kind = next(each for each in INTEGERS if np.iinfo(each).min <= low and high <= np.iinfo(each).max)
        found.append(whole.astype(kind))
    return found


def _unpacked(parts: list[Int[np.ndarray, "k q"]], specification: Specification) -> Float[np.ndarray, "k p"]:
    """The table again."""
    steps = [np.ones(1), *(each.steps for each in specification.fitted.ensemble.maps)]
    return np.hstack([part * step for part, step in zip(parts, steps, strict=True)])
