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
from kembed.core.ordering import sorted_rows
from kembed.embeddings.landmarks import median_lengthscale
from kembed.kernels.measures import GaussianMeasure, Lebesgue, Measure
from kembed.kernels.stationary import Gaussian, Matern32, MultiScale, RationalQuadratic, Stationary
from kembed.learning import search
from kembed.learning.families import Family, family_of
from kembed.learning.learned_kernel import Curve, LearnedKernel, Mode, State
from kembed.learning.prepare import Effort, Setting, prepare
from kembed.learning.problem import Problem, Spec

# With fewer rows half of them are no landmarks any more.
MINIMUM_ROWS = 5
FULL = Effort()


def learn_kernel(
    x: Any,
    kernel: Stationary | str = Gaussian(),  # noqa: B008 - a frozen pattern
    *,
    noise: float | str = "learn",
    objective: str = "normalised",
    landmarks: Any = None,
    measure: Measure | str = "data",
    prior: Callable[[Any, Any], Any] | None = None,
    rng: Any = 0,
) -> LearnedKernel:
    """Learn a kernel's hyperparameters from data, without labels.

    Parameters
    ----------
    x
        Observations, (n, D), of continuous variables.
    kernel
        A pattern: its class and the shape of its lengthscale say what is learned, its numbers do not matter.
        `Gaussian()` is isotropic, `Gaussian(np.ones(D))` has a lengthscale for each column (ARD),
        `Gaussian(covariance=np.eye(D))` a full matrix; `MultiScale([1, 1])` has two scales;
        `RationalQuadratic()` and the Matérn kernels likewise. `"auto"` compares families by evidence.
    noise
        `"learn"`, or τ² itself.
    objective
        `"normalised"`, or `"paper"` for the objective as published (it needs `noise`; see the theory page).
    landmarks
        How many, a rule (`"support"`, the default, `"subset"`, `"kmeans"`, `"quantiles"`,
        `Landmarks(rule, size)`), or the points.
    measure
        ν of the prior: `"data"`, a normal distribution as wide as the data, `"learn"` to learn its width η,
        or a `GaussianMeasure`. The paper's objective takes Lebesgue measure for `"data"`, or any object.
    prior
        A function (kernel, τ²) → log density in your units, which JAX can differentiate; it is added to the
        log evidence, and the answer is the posterior mode.
    rng
        Seed or generator of landmarks and integration points; None is fresh entropy. The default makes the
        kernel a function of the sample, in whatever order.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import learn_kernel
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> learned = learn_kernel(x)
    >>> print(1.0 < learned.kernel.lengthscale < 2.5)
    True
    >>> in_millimetres = learn_kernel(1000.0 * x)
    >>> round(float(in_millimetres.kernel.lengthscale / learned.kernel.lengthscale), 3)
    1000.0

    """
    learned = fit_kernel(x, kernel, noise, objective, landmarks, measure, prior, rng)[0]
    learned.warn()
    return learned


def fit_kernel(
    x: Any,
    kernel: Stationary | str,
    noise: float | str = "learn",
    objective: str = "normalised",
    landmarks: Any = None,
    measure: Measure | str = "data",
    prior: Callable[[Any, Any], Any] | None = None,
    rng: Any = 0,
    effort: Effort = FULL,
) -> tuple[LearnedKernel, Problem]:
    """What `learn_kernel` does, without a word of warning; and the problem that was solved."""
    x = np.asarray(checks.points(x, "x", minimum=MINIMUM_ROWS))
    paper = checks.choice(objective, "objective", ("normalised", "paper")) == "paper"
    if not isinstance(measure, Measure):
        checks.choice(measure, "measure", ("data", "learn"))
    if not isinstance(noise, str):
        noise = float(checks.positive(noise, "noise"))
    elif checks.choice(noise, "noise", ("learn",)) and paper:
        raise ValueError(
            "the paper's objective has no maximum when noise is learned as well (it grows without limit "
            "as the lengthscale grows and the noise falls); give noise, for example the paper's noise=1.0"
        )
    if prior is not None and not callable(prior):
        raise TypeError(f"prior must be a function of (kernel, noise), but {prior!r} was given")
    # The user's prior under an identity of its own: what it closes over may change between calls.
    prior = None if prior is None else functools.partial(prior)
    generator = checks.generator(rng)
    rows = sorted_rows(x)
    if (rows[0] == rows[-1]).all():
        raise ValueError("all rows of x are equal, so there is no scale to learn; check the data")
    given = to_numpy(measure) if isinstance(measure, Measure) else None
    setting = Setting(None if isinstance(noise, str) else noise, landmarks, given, paper)

    def learn(family: Family) -> tuple[LearnedKernel, Problem]:
        spec = Spec(family, setting.noise is None, measure == "learn" and not paper, prior, not paper, paper)
        return _learned(rows, spec, setting, effort, generator)

    if not isinstance(kernel, str):
        return learn(family_of(kernel, x.shape[1]))
    checks.choice(kernel, "kernel", ("auto",))
    if paper:
        raise ValueError("kernel='auto' needs objective='normalised': the paper's does not compare families")
    state = generator.bit_generator.state
    found = []
    for family in _families(rows):
        generator.bit_generator.state = state  # every family on the same landmarks
        found.append(learn(family))
    best, problem = max(found, key=lambda one: one[0].score)
    return replace(best, families={one.family: one.score for one, _ in found}), problem


def _families(rows: Float[np.ndarray, "n D"]) -> list[Family]:
    """Those that "auto" compares by evidence, each charged ½ log n a parameter (Schwarz 1978)."""
    D = rows.shape[1]
    patterns: list[Any] = [Gaussian(), RationalQuadratic(), Matern32(), MultiScale([1.0, 1.0])]
    if D > 1 and Family(Gaussian, "isotropic").frame(rows).full_rank:
        patterns.insert(1, Gaussian(np.ones(D)))
    return [family_of(pattern, D) for pattern in patterns]


def _learned(
    rows: Float[np.ndarray, "n D"], spec: Spec, setting: Setting, effort: Effort, rng: np.random.Generator
) -> tuple[LearnedKernel, Problem]:
    prepared = prepare(rows, spec.family, effort, rng, setting)
    problem, n, frame = prepared.problem, prepared.n, prepared.frame
    E = problem.x.shape[1]
    if spec.prior is not None:  # one number, not nan, at a kernel of the family
        start = spec.family.starts(float(np.median(prepared.scales)), E)[0]
        kernel = spec.family.in_units(spec.family.kernel(start, E), frame.axes, frame.scale)
        value = spec.prior(kernel, 1.0)
        if value is None or np.shape(value) != () or np.isnan(value):
            raise ValueError(
                f"prior must return one number, the log density, but at {kernel!r} it returned {value!r}"
            )
    scanned = search.scan(spec, prepared, effort, rng)
    found = search.refine(spec, prepared, scanned, effort, rng)
    thetas = tuple(mode.theta for mode in found)
    state = State(spec, frame, problem.landmarks, problem.spread, thetas, found[0].fit)
    modes = tuple(
        Mode(
            kernel=state.kernel(mode.theta),
            noise=float(mode.fit.noise),
            log_evidence=float(mode.fit.log_evidence) - n * frame.log_unit,
            background=float(spec.unpack(mode.theta, E)[2]),
            ess=None if spec.paper or E == 1 else float(mode.fit.ess),
            at_edge=mode.at_edge,
        )
        for mode in found
    )
    measure: Any = setting.measure or Lebesgue()
    if setting.measure is None and not spec.paper:
        width = frame.axes * (frame.scale * problem.spread * spec.unpack(found[0].theta, E)[3])
        measure = GaussianMeasure(frame.centre, width @ width.T)
    size = float(np.exp(np.log(frame.scale).mean()))
    learned = LearnedKernel(
        **vars(modes[0]),
        modes=modes,
        curve=Curve(scanned.scales * size, scanned.values / min(n, effort.scan_rows) - frame.log_unit),
        landmarks=frame.back(problem.landmarks),
        measure=measure,
        objective="paper" if spec.paper else "normalised",
        family=spec.family.name,
        n=n,
        parameters=spec.size(E),
        state=state,
        median=median_lengthscale(rows) if spec.family.shape == "isotropic" else None,
    )
    return learned, problem
