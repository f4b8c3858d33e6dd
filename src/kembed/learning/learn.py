"""Learning the kernel from the unlabelled sample: `learn_kernel`.

The problem is prepared, the objective is scanned over the data's own scales, every local maximum is refined,
and the result goes back to the user's units.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, to_numpy
from kembed.core.linalg import robust_spread
from kembed.core.ordering import sorted_rows
from kembed.core.text import listing
from kembed.core.threads import few_rows_one_thread
from kembed.embeddings.landmarks import Landmarks, as_rule, place
from kembed.kernels.measures import GaussianMeasure, Lebesgue, Measure
from kembed.kernels.stationary import Gaussian, Matern32, MultiScale, RationalQuadratic, Stationary
from kembed.learning import search
from kembed.learning.families import Family, family_of
from kembed.learning.learned_kernel import Curve, LearnedKernel, Mode, State
from kembed.learning.objective import COMPARED
from kembed.learning.problem import Effort, Prepared, Spec, prepare, prepare_paper
from kembed.tables.reader import is_stored, read
from kembed.tables.source import SAMPLE

MOST_COLUMNS = 2_000  # their covariance has 32 MB and its eigenvalues take two seconds
SQUARED = 1e140  # scales up to this, and down to its inverse, can be squared and added up
MINIMUM_ROWS = 5  # fewer say nothing of a scale
PAPER_LANDMARKS, PER_COLUMN = 100, 10  # of the published objective, by default
OBJECTIVES = ("leave-one-out", "paper")


@few_rows_one_thread
def learn_kernel(
    x: Any,
    kernel: Stationary | str = Gaussian(),  # noqa: B008 - a frozen pattern
    *,
    prior: Callable[[Any], Any] | str | None = "gamma",
    objective: str = "leave-one-out",
    noise: float | None = None,
    landmarks: Any = None,
    measure: Measure | None = None,
    rng: Any = 0,
) -> LearnedKernel:
    """Learn a kernel's hyperparameters from data, without labels.

    The kernel maximises the leave-one-out predictive pseudolikelihood of the Bayesian kernel embedding. Under
    the Gaussian process prior with the moments of a Dirichlet process the posterior mean embedding is flat
    shrinkage, (n μ̂ + α μ_ν)/(n + α), which is a density for a kernel that integrates to 1: every row is
    predicted by that of the other rows. The published marginal pseudolikelihood (`objective="paper"`) is the
    other estimator of the same model; the theory page has the theorem.

    Parameters
    ----------
    x
        Observations, (n, D), of continuous variables; or what is larger than memory (see `mmd_test`), of
        which 50,000 rows are looked at and the scale found there is carried to all.
    kernel
        A pattern: its class and the shape of its lengthscale say what is learned, its numbers do not matter.
        `Gaussian()` is isotropic, `Gaussian(np.ones(D))` has a lengthscale for each column (ARD),
        `Gaussian.from_covariance(np.eye(D))` a full matrix; `MultiScale([1, 1])` has two scales;
        `RationalQuadratic()` and the Matérn kernels likewise. `"auto"` compares families by predictive score.
    prior
        `"gamma"`: every lengthscale, in units of the median distance (of the column's spread where every
        column has its own), is Gamma(4, 4); None is flat; or a function of the kernel in your units, the log
        density of the logarithms of its lengthscales (where there are several, one that JAX can
        differentiate). The answer is the mode of their posterior.
    objective
        `"leave-one-out"`, or `"paper"` for the objective as published, which needs `noise`.
    noise, landmarks, measure
        Of the published objective alone, which has no prior unless you give one: τ²; how many landmarks, a
        rule (`"support"`, the default, `"subset"`, `"quantiles"`, `Landmarks(rule, size)`) or
        the points; ν, Lebesgue measure unless given.
    rng
        Seed or generator of the rows that are looked at where there are many, and of landmarks; None is fresh
        entropy. The default makes the kernel a function of the sample, in whatever order.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import learn_kernel
    >>> x = np.random.default_rng(1).normal(size=(200, 1))
    >>> learned = learn_kernel(x)
    >>> print(0.5 < learned.kernel.lengthscale < 1.0)
    True
    >>> in_millimetres = learn_kernel(1000.0 * x)
    >>> round(float(in_millimetres.kernel.lengthscale / learned.kernel.lengthscale), 3)
    1000.0

    """
    learned = fit_kernel(x, kernel, prior, objective, noise, landmarks, measure, rng)[0]
    learned.warn()
    return learned


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is refused
def fit_kernel(
    x: Any,
    kernel: Stationary | str,
    prior: Callable[[Any], Any] | str | None = "gamma",
    objective: str = "leave-one-out",
    noise: float | None = None,
    landmarks: Any = None,
    measure: Measure | None = None,
    rng: Any = 0,
    effort: Effort = Effort(),  # noqa: B008 - frozen
) -> tuple[LearnedKernel, Prepared]:
    """What `learn_kernel` does, without a word of warning; and the problem that was solved."""
    rows_in_all = None
    if is_stored(x):
        (source,) = read({"x": x}, minimum=MINIMUM_ROWS)
        kinds = zip(source.schema.names, source.schema.categorical, strict=True)
        if words := [name for name, kind in kinds if kind]:
            raise TypeError(f"x must hold numbers, but {listing(words)} hold text; leave those columns out")
        x, rows_in_all = source.sample()[0].values, source.size
    x = np.asarray(checks.points(x, "x", minimum=MINIMUM_ROWS))
    if x.shape[1] > MOST_COLUMNS:
        seen = f"x has {x.shape[1]:,} columns, and what is learned keeps a covariance of all of them"
        remedy = f"leave columns out, or learn on principal components ({MOST_COLUMNS:,} columns at most)"
        raise ValueError(f"{seen}; {remedy}")
    paper = checks.choice(objective, "objective", OBJECTIVES) == "paper"
    _check_paper(paper, noise, landmarks, measure)
    if isinstance(prior, str):
        checks.choice(prior, "prior", ("gamma",))
    elif prior is not None and not callable(prior):
        raise TypeError(f"prior must be 'gamma', None or a function of the kernel, but {prior!r} was given")
    # The user's prior under an identity of its own: what it closes over may change between calls.
    prior = functools.partial(prior) if callable(prior) else prior
    if paper and isinstance(prior, str):
        prior = None  # published without one on kernels; the user's own is heeded
    generator = checks.generator(rng)
    if len(x) > SAMPLE and not paper:  # as of a file
        x, rows_in_all = drawn_rows(x, SAMPLE, generator), len(x)
    rows = sorted_rows(x)
    if (rows[0] == rows[-1]).all():
        raise ValueError("all rows of x are equal, so there is no scale to learn; check the data")
    _refuse_sizes(rows)

    def learn(family: Family, effort: Effort = effort) -> tuple[LearnedKernel, Prepared]:
        spec = Spec(family, prior, paper)
        if not paper:
            prepared = prepare(rows, family, effort, generator, rows_in_all)
            return _learned(rows, spec, prepared), prepared
        z = _landmarks(rows, landmarks, generator)
        ground = Lebesgue() if measure is None else to_numpy(measure)
        prepared = prepare_paper(rows, family, effort, z, float(noise or 0.0), ground)
        learned = _learned(rows, spec, prepared)
        return replace(learned, landmarks=z, noise=noise, measure=ground), prepared

    if not isinstance(kernel, str):
        return learn(family_of(kernel, x.shape[1]))
    checks.choice(kernel, "kernel", ("auto",))
    if paper:
        raise ValueError("kernel='auto' compares no families by the paper's objective; leave that out")
    state = generator.bit_generator.state
    scores, patterns = {}, {}
    for family in _families(rows):
        generator.bit_generator.state = state  # every family on the same rows
        learned = learn(family, replace(effort, grid=False))[0]
        scores[learned.family], patterns[learned.family] = learned.score, family
    generator.bit_generator.state = state
    best, prepared = learn(patterns[max(scores, key=lambda name: scores[name])])
    return replace(best, families=scores), prepared


def drawn_rows(x: Float[np.ndarray, "n D"], count: int, rng: np.random.Generator) -> Float[np.ndarray, "c D"]:
    """So many of the rows, the same for any order they came in: by their places along one direction.

    Only equal rows have one place there, so that nothing else needs to be sorted by.
    """
    direction = np.random.default_rng(0).normal(size=x.shape[1])
    spreads = np.ptp(x, axis=0)
    along = np.einsum("nd,d->n", x, direction / np.where(spreads > 0.0, spreads, 1.0))
    return x[np.argsort(along, kind="stable")[np.sort(rng.choice(len(x), count, replace=False))]]


def _check_paper(paper: bool, noise: Any, landmarks: Any, measure: Any) -> None:
    """Noise, landmarks and measure belong to the published objective, which cannot do without noise."""
    for name, value in {"noise": noise, "landmarks": landmarks, "measure": measure}.items():
        if value is not None and not paper:
            raise ValueError(
                f"{name} is of the published objective alone; leave it out, or give objective='paper'"
            )
    if paper and noise is None:
        raise ValueError(
            "the paper's objective has no maximum when noise is learned as well and there is no prior (it "
            "grows without limit as the lengthscale grows and the noise falls); give noise, for example the "
            "paper's noise=1.0"
        )
    if paper:
        checks.positive(noise, "noise")
    if measure is not None and not isinstance(measure, Measure):
        raise TypeError(f"measure must be a measure such as Lebesgue(), but {measure!r} was given")


def _families(rows: Float[np.ndarray, "n D"]) -> list[Family]:
    """Those that "auto" compares by predictive score, each charged ½ log n a parameter (theory page)."""
    D = rows.shape[1]
    patterns: list[Any] = [Gaussian(), RationalQuadratic(), Matern32(), MultiScale([1.0, 1.0])]
    if D > 1 and Family(Gaussian, "isotropic").frame(rows).full_rank:
        patterns.insert(1, Gaussian(np.ones(D)))
    return [family_of(pattern, D) for pattern in patterns]


def _landmarks(
    rows: Float[np.ndarray, "n D"], landmarks: Any, rng: np.random.Generator
) -> Float[np.ndarray, "m D"]:
    """Landmarks of the published objective; never more than half the rows: the rest must judge them."""
    n, D = rows.shape
    rule = as_rule(landmarks, "support")
    if rule is None:
        z = np.asarray(checks.points(landmarks, "landmarks", dimension=D))
    else:
        usual = max(min(max(PAPER_LANDMARKS, PER_COLUMN * D), n // 2), D + 1)
        z = place(rows, rule if rule.size is not None else Landmarks(rule.rule, usual), rng)
    if len(z) < D + 1:
        raise ValueError(
            f"there are {len(z)} landmarks for {D} columns, and at least {D + 1} are needed; "
            "give more landmarks, more (distinct) rows or fewer columns"
        )
    return z


def _refuse_sizes(rows: Float[np.ndarray, "n D"]) -> None:
    """Refuse rows whose distances cannot be squared, in their own units or in units of their spread."""
    away = np.abs(rows - np.median(rows, axis=0))
    farthest = float(away.max())
    usual = float(np.median(away, axis=0).max()) or farthest
    if not (usual > 1.0 / SQUARED and farthest < SQUARED and farthest / usual < SQUARED):
        seen = "x has rows so far apart, or so near, that squares of their distances are no numbers"
        raise ValueError(f"{seen}; divide the columns by a constant, and look for absurd values")


def _learned(rows: Float[np.ndarray, "n D"], spec: Spec, prepared: Prepared) -> LearnedKernel:
    n, frame = prepared.n, prepared.frame
    E, isotropic = len(frame.scale), spec.family.shape == "isotropic"
    if callable(spec.prior):  # one number, not nan, at a kernel of the family
        start = spec.family.starts(float(np.median(prepared.scales)), E)[0]
        kernel = spec.family.in_units(spec.family.kernel(start, E), frame.axes, frame.scale)
        value = spec.prior(kernel)
        if value is None or np.shape(value) != () or np.isnan(value):
            raise ValueError(
                f"prior must return one number, the log density, but at {kernel!r} it returned {value!r}"
            )
    scanned = search.scan(spec, prepared)
    found = search.refine(spec, prepared, scanned)
    state = State(spec, frame, tuple(mode.theta for mode in found), prepared.carried)
    modes = tuple(
        Mode(state.kernel(mode.theta), mode.log_evidence - n * frame.log_unit, mode.at_edge) for mode in found
    )
    compared = search.value_at(spec, found[0].theta, prepared.problem, COMPARED)[1]
    scales, values = scanned.scales, scanned.values
    if isotropic:  # the maxima are points of the curve
        scales = np.append(scales, [np.exp(mode.theta[0]) for mode in found])
        values = np.append(values, [mode.value for mode in found])[order := np.argsort(scales)]
        scales = scales[order]
    width = frame.axes * (frame.scale * robust_spread(frame.into(rows)))
    size = prepared.carried * float(np.exp(np.log(frame.scale).mean()))
    return LearnedKernel(
        **vars(modes[0]),
        modes=modes,
        curve=Curve(scales * size, values / n - frame.log_unit),
        measure=GaussianMeasure(frame.centre, width @ width.T),
        objective="paper" if spec.paper else "leave-one-out",
        family=spec.family.name,
        n=n,
        parameters=spec.family.size(E),
        compared=compared - n * frame.log_unit,
        state=state,
        predictive=state.predictive(prepared),
        prepared=prepared,
        median=float(prepared.problem.unit * frame.scale[0]) if isotropic else None,
        range=float(np.ptp(rows)) if rows.shape[1] == 1 else None,
    )
