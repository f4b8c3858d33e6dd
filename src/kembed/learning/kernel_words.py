"""What a word for a kernel means: one kernel on the user's own columns, the same in every function.

Words work in the coordinates of `Space`: numeric columns over their robust spreads, categories as equal or
not, so that no unit and no coding decides. Every choice is a function of the unordered rows; nothing here
sees a label.

- "median": a Gaussian at the median distance;
- "bkl": a Gaussian learned from the rows, one lengthscale; "ard": one for every numeric column;
- "paper": a Gaussian whose lengthscale maximises the published marginal pseudolikelihood;
- "median-raw": the median rule on columns as they are, undivided, which is what most packages compute;
- "fused" is many kernels, and means something to tests alone (`choice`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from kembed.core.backend import Float, to_numpy
from kembed.embeddings.landmarks import Landmarks, median_lengthscale
from kembed.kernels.base import Kernel, refuse_size
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns, columns_by_kind, space_kernel
from kembed.kernels.space import Space
from kembed.kernels.stationary import Gaussian
from kembed.learning.evidence import SPREADS, Evidence, scan_evidence
from kembed.learning.problem import Effort

WORDS = ("fused", "bkl", "ard", "paper", "median", "median-raw")
LEAST_ROWS = 8  # fewer say nothing about scales
STAND_IN = 0.7  # of the median distance, where there is no evidence: what it chooses for normal data


@dataclass(frozen=True)
class PublishedRule:
    """The Gaussian that maximises the published objective with τ² = 1, on columns over their spreads.

    Landmarks are a random subset of the rows: 100 (or ten a column) by default, half of the rows at most.
    The word "paper" is this rule.
    """

    landmarks: int | None = None


def choose_kernel(kernel: Any, space: Space, *, effort: Effort | None = None) -> tuple[Any, Evidence | None]:
    """The one kernel that a word, a kernel object, a `LearnedKernel` or a function stands for on these rows.

    With an `effort` the word "bkl" is the best scale of a scan of the evidence: the objective of
    `learn_kernel`, looked at on fewer rows, for hundreds of kernels in a row.
    """
    if isinstance(kernel, list | tuple) and len(kernel) == 1:
        (kernel,) = kernel
    given, kernel = kernel, unwrapped(kernel)
    if isinstance(kernel, Kernel):
        chosen = on_mixed_columns(to_numpy(kernel), space)
        refuse_size(chosen, space.values)
        return chosen, None if given is kernel else given.evidence()
    if isinstance(kernel, PublishedRule) or (isinstance(kernel, str) and kernel in ("bkl", "ard", "paper")):
        if effort is not None and kernel in ("bkl", "ard"):
            return _scanned(space, effort)
        scale, evidence = learned_scales(space, kernel)
        return space_kernel(space, scale), evidence
    if isinstance(kernel, str) and kernel == "median":
        return space_kernel(space, space.median()), None
    if isinstance(kernel, str) and kernel == "median-raw":
        if space.categorical.any():
            seen = (
                "kernel='median-raw' takes distances of columns as they are, but some hold text or categories"
            )
            raise ValueError(f"{seen}; use 'median', or drop those columns")
        equal = (space.values == space.values[0]).all()  # rows that never differ: any would do
        return Gaussian(1.0 if equal else median_lengthscale(space.values)), None
    words = ", ".join(map(repr, WORDS))
    if isinstance(kernel, str):
        wanted = f"kernel must be one of {words}, a kernel object, a function or a list"
        raise ValueError(f"{wanted}, but {kernel!r} was given")
    if callable(kernel) and not isinstance(kernel, type):
        return kernel, None
    number = isinstance(kernel, Real) and not isinstance(kernel, bool)
    hint = f"; write kembed.Gaussian({kernel})" if number else ""
    wanted = f"kernel must be a word ({words}), a kernel object, a function or a list of these"
    raise TypeError(f"{wanted}, but {kernel!r} was given{hint}")


def unwrapped(kernel: Any) -> Any:
    """The kernel of a `LearnedKernel`; anything else as it is."""
    if isinstance(kernel, str | Kernel) or callable(kernel):
        return kernel
    from kembed.learning.learned_kernel import LearnedKernel

    return kernel.kernel if isinstance(kernel, LearnedKernel) else kernel


def on_mixed_columns(kernel: Kernel, space: Space) -> Kernel:
    """A kernel for numeric columns, times the delta kernel of the discrete ones.

    Unless the user said which columns it sees, or meant a discrete kernel for them.
    """
    if not space.categorical.any() or any(isinstance(part, OnColumns | Delta) for part in parts_of(kernel)):
        return kernel
    numeric, discrete = columns_by_kind(space)
    delta = OnColumns(Delta(), discrete)
    return Product(OnColumns(kernel, numeric), delta) if numeric else delta


def parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and all that it is made of."""
    yield kernel
    for part in (*getattr(kernel, "kernels", ()), *([kernel.kernel] if hasattr(kernel, "kernel") else [])):
        yield from parts_of(part)


def learned_scales(space: Space, rule: str | PublishedRule = "bkl") -> tuple[Any, Evidence | None]:
    """The lengthscale learned on the numeric columns in units of their spreads, and what was learned.

    With "ard" one for each of them; columns that never differ then get 1: any would do.
    """
    from kembed.learning.learn import fit_kernel, learn_kernel

    varies = (space.numeric != space.numeric[0]).any(axis=0)
    rows = space.numeric[:, varies]
    if not varies.any():
        return space.median(), None
    if rule in ("bkl", "ard"):
        one = rule == "bkl" or rows.shape[1] == 1
        learned = learn_kernel(rows, Gaussian() if one else Gaussian(np.ones(rows.shape[1])))
    else:
        marks = Landmarks("subset", rule.landmarks if isinstance(rule, PublishedRule) else None)
        try:
            learned, _ = fit_kernel(rows, Gaussian(), objective="paper", noise=1.0, landmarks=marks)
        except ValueError as error:
            raise ValueError(f"kernel='paper': {error}; or give kernel='bkl'") from None
    evidence = in_units(learned.evidence(SPREADS), space)
    if rule != "ard":
        return float(learned.kernel.lengthscale), evidence
    lengthscale = np.ones(len(varies))
    lengthscale[varies] = learned.kernel.lengthscale
    return lengthscale, evidence


def posterior_kernels(space: Space, size: int) -> tuple[Any, Evidence | None]:
    """Kernels drawn evenly from the posterior of that lengthscale, and what was learned."""
    scale, evidence = learned_scales(space)
    if evidence is None:
        return space_kernel(space, scale), None
    kernels = evidence.model.posterior.kernels(size)
    return [space_kernel(space, float(kernel.lengthscale)) for kernel in kernels], evidence


def in_units(evidence: Evidence, space: Space) -> Evidence:
    """What was learned on one column in that column's units; on several there is none but their spreads."""
    return evidence.times(float(space.spread[0])) if space.values.shape[1] == 1 else evidence


def _scanned(space: Space, effort: Effort) -> tuple[Kernel, Evidence | None]:
    rows = space.numeric
    if says_nothing_of_scales(rows):
        return space_kernel(space, STAND_IN * space.median()), None
    scan = scan_evidence(rows, effort)
    return space_kernel(space, float(scan.peaks[0])), scan


def says_nothing_of_scales(rows: Float[np.ndarray, "n E"]) -> bool:
    """Whether there are too few rows to learn scales, or rows that never differ."""
    return len(rows) < LEAST_ROWS or bool((rows == rows[0]).all())


def for_one_column(kernel: Any, name: str) -> Any:
    """The kernel for a single column: words and kernels with one lengthscale carry over."""
    if isinstance(kernel, list | tuple):
        return [for_one_column(one, name) for one in kernel]
    kernel = unwrapped(kernel)
    if isinstance(kernel, Kernel) and any(
        hasattr(part, "columns") or np.ndim(getattr(part, name, 1.0))
        for part in parts_of(kernel)
        for name in ("lengthscale", "penalty")
    ):
        seen = f"by_column=True tests {name!r} by itself, and {kernel!r} is made for all columns at once"
        raise ValueError(f"{seen}; give a word, or a kernel with one lengthscale")
    return kernel
