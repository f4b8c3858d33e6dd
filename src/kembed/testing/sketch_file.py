"""A sketch as a file: which classes and functions may stand in one, and what else is in it."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from kembed.core.store import decode, encode, read_store, write_store
from kembed.kernels import composite, discrete, stationary
from kembed.kernels.base import Kernel
from kembed.learning.evidence import Evidence
from kembed.permutation.fourier import Fourier
from kembed.permutation.fusion import Plan
from kembed.tables.schema import Schema
from kembed.testing import cells, lens, rounded, streams
from kembed.testing.members import (
    axes,
    columns,
    density,
    embeddings,
    forests,
    fresh,
    gaussians,
    group,
    means,
    neighbours,
    pairs,
    polynomials,
    second_order,
    trees,
    triples,
)
from kembed.testing.procedure import Choice

KIND = "sketch"
CLASSES = (
    *(Schema, Evidence, Fourier, Plan, Choice, cells.Cells, rounded.Rounded, lens.Lens, lens.KeptStreams),
    *(streams.OfKernel, streams.Constant, streams.Norm, fresh.Fitted, fresh.Streamed, group.Named),
    *(
        gaussians.AtLandmarks,
        pairs.Products,
        triples.Triples,
        second_order.Covariance,
        forests.Forest,
        trees.Leaves,
    ),
    *(polynomials.RankScale, polynomials.LevelScale, embeddings.WhitenedEmbedding),
)
FUNCTIONS = (
    means.first_degrees,
    columns.all_degrees,
    axes.along_axes,
    neighbours.nearest_landmark,
    density.nearness,
)


@cache
def known() -> dict[str, Any]:
    """Return, by name, the classes and functions that a file may hold."""
    kernels = [
        item
        for room in (stationary, discrete, composite)
        for item in vars(room).values()
        if isinstance(item, type) and issubclass(item, Kernel)
    ]
    items: tuple[Any, ...] = (*CLASSES, *FUNCTIONS, *kernels)
    return {item.__name__: item for item in items}


def digest(value: Any) -> str:
    """A hash that equal values share: sketches with equal features can be added."""
    structure, arrays = encode(value, known())
    made = hashlib.sha256(json.dumps([structure, [(a.dtype.str, a.shape) for a in arrays.values()]]).encode())
    for array in arrays.values():
        made.update(array.tobytes())
    return made.hexdigest()


def settled(value: Any) -> Any:
    """A value as a file would give it back, to the last bit; one that no file can hold as it is."""
    try:
        return decode(*encode(value, known()), known())
    except TypeError:  # a kernel that is a function of the user's
        return value


def write_sketch(path: str | Path, parts: dict[str, Any], kind: str = KIND) -> Path:
    """Write the parts of a sketch, or of a detector, atomically."""
    return write_store(path, kind, parts, known())


def read_sketch(path: str | Path, kind: str = KIND) -> dict[str, Any]:
    """Read the parts of a sketch, or of a detector."""
    return dict(read_store(path, kind, known()))
