"""Learning the kernel from the unlabelled sample: `learn_kernel`.

The sample is put in a frame that moves with it, landmarks and integration points are placed, the objective is
scanned over the data's own scales, every local maximum is refined, and the result goes back to the user's
units. Only the unordered sample matters: rows are sorted before anything is computed or drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import to_numpy
from kembed.core.ordering import distinct_rows, sorted_rows, sorted_to_rounding
from kembed.embeddings.heuristics import median_lengthscale
from kembed.embeddings.landmarks import DEFAULT_COUNT, PER_COLUMN, Landmarks, as_rule, place
from kembed.kernels.measures import GaussianMeasure, Lebesgue
from kembed.kernels.stationary import Gaussian, Matern32, MultiScale, RationalQuadratic, Stationary
from kembed.learning import search
from kembed.learning.families import Family, family_of
from kembed.learning.frame import Frame, spread_along
from kembed.learning.integration import Rule, integration_rule
from kembed.learning.learned_kernel import Curve, LearnedKernel, Mode, State
from kembed.learning.problem import Problem, Spec, pose

if TYPE_CHECKING:
    from jaxtyping import Float

MINIMUM_ROWS = 5
# An effective share of the integration draws below this is told: forty draws of 4,096.
LEAST_ESS = 0.01
# Scales around the landmarks at which integration points are drawn.
BANK = 4


def learn_kernel(
    x: Any,
    kernel: Stationary | str = Gaussian(),  # noqa: B008 - a frozen pattern
    *,
    noise: float | str = "learn",
    objective: str = "normalised",
    landmarks: Any = None,
    measure: str = "data",
    prior: Callable[[Any, Any], Any] | None = None,
    rng: Any = None,
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
        ν of the prior: `"data"`, a normal distribution as wide as the data, or `"learn"` to learn its
        width η.
    prior
        A function (kernel, τ²) → log density in your units, which JAX can differentiate; it is added to the
        log evidence, and the answer is the posterior mode.
    rng
        Seed of landmarks and integration points; None is a fixed seed, so that the same sample in any order
        always gives the same kernel.

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
    x = np.asarray(checks.points(x, "x", minimum=MINIMUM_ROWS))
    checks.choice(objective, "objective", ("normalised", "paper"))
    checks.choice(measure, "measure", ("data", "learn"))
    if not isinstance(noise, str):
        noise = float(checks.positive(noise, "noise"))
    else:
        checks.choice(noise, "noise", ("learn",))
        if objective == "paper":
            raise ValueError(
                "the paper's objective has no maximum when noise is learned as well (it grows without limit "
                "as the lengthscale grows and the noise falls); give noise, for example the paper's noise=1.0"
            )
    if prior is not None and not callable(prior):
        raise TypeError(f"prior must be a function of (kernel, noise), but {prior!r} was given")
    prior = None if prior is None else _Prior(prior)
    seed = checks.generator(0 if rng is None else rng)
    rows = sorted_rows(x)
    if (rows[0] == rows[-1]).all():
        raise ValueError("all rows of x are equal, so there is no scale to learn; check the data")
    if isinstance(kernel, str):
        checks.choice(kernel, "kernel", ("auto",))
        return _best_family(rows, noise, objective, landmarks, measure, prior, seed)
    family = family_of(kernel, x.shape[1])
    return _learn(rows, family, noise, objective, landmarks, measure, prior, seed)


class _Prior:
    """The user's prior under an identity of its own: what it closes over may change between calls."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, kernel: Any, noise: Any) -> Any:
        return self.function(kernel, noise)

    def check(self, kernel: Any) -> None:
        """One number, not nan, at a kernel of the family."""
        value = self.function(kernel, 1.0)
        if value is None or np.shape(value) != () or np.isnan(value):
            raise ValueError(
                f"prior must return one number, the log density, but at {kernel!r} it returned {value!r}"
            )


def _best_family(
    rows: Float[np.ndarray, "n D"],
    noise: Any,
    objective: str,
    landmarks: Any,
    measure: str,
    prior: Any,
    seed: np.random.Generator,
) -> LearnedKernel:
    """The family with the highest evidence, each charged ½ log n a parameter (Schwarz 1978)."""
    if objective == "paper":
        raise ValueError("kernel='auto' needs objective='normalised': the paper's does not compare families")
    D = rows.shape[1]
    patterns: list[Any] = [Gaussian(), RationalQuadratic(), Matern32(), MultiScale([1.0, 1.0])]
    if D > 1 and Family(Gaussian, "isotropic").frame(rows).full_rank:
        patterns.insert(1, Gaussian(np.ones(D)))
    state = seed.bit_generator.state
    learned = []
    for pattern in patterns:
        seed.bit_generator.state = state  # every family on the same landmarks
        family = family_of(pattern, D)
        learned.append(_learn(rows, family, noise, objective, landmarks, measure, prior, seed))
    scores = {one.family: one.score for one in learned}
    best = max(learned, key=lambda one: one.score)
    return best._replace_families(scores)


def _learn(
    rows: Float[np.ndarray, "n D"],
    family: Family,
    noise: Any,
    objective: str,
    landmarks: Any,
    measure: str,
    prior: Any,
    seed: np.random.Generator,
) -> LearnedKernel:
    paper = objective == "paper"
    frame = _frame(rows, family, paper)
    y = sorted_to_rounding(frame.into(rows))
    z = _landmarks(y, landmarks, frame, rows.shape[1], seed)
    learn_noise = noise == "learn"
    spec = Spec(family, learn_noise, measure == "learn" and not paper, prior, not paper, paper)
    scales = search.data_scales(y, z)
    if prior is not None:
        start = family.starts(float(np.median(scales)), y.shape[1])[0]
        prior.check(family.in_units(family.kernel(start, y.shape[1]), frame.axes, frame.scale))
    spread = spread_along(y[distinct_rows(y)])
    rule = Rule(z[:1], np.zeros(1)) if paper else integration_rule(y, z, _bank(scales), seed, spread=spread)
    problem = pose(y, z, rule, spread, frame, 0.0 if learn_noise else noise)
    scanned = search.scan(spec, search.thin(problem, len(y), seed), scales)
    found = search.refine(spec, problem, scanned, len(y), seed)
    median = median_lengthscale(rows) if family.shape == "isotropic" else None
    return _result(spec, frame, problem, scanned, found, len(y), median)


def _frame(rows: Float[np.ndarray, "n D"], family: Family, paper: bool) -> Frame:
    frame = family.frame(rows)
    if family.shape != "isotropic" and not (frame.full_rank and (frame.scale > 0.0).all()):
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0.0)
        what = f"column {constant[0]} of x is constant" if len(constant) else "columns of x are dependent"
        raise ValueError(
            f"{what}, so its lengthscales cannot all be learned; drop redundant columns, "
            "or learn one lengthscale with Gaussian()"
        )
    if not paper:
        return frame
    if not frame.full_rank:
        raise ValueError(
            "x has constant or dependent columns, where the paper's objective is -infinity; drop them"
        )
    D = rows.shape[1]
    return Frame(np.zeros(D), np.eye(D), np.ones(D))


def _landmarks(
    y: Float[np.ndarray, "n E"], landmarks: Any, frame: Frame, D: int, seed: np.random.Generator
) -> Float[np.ndarray, "m E"]:
    """Landmarks in the frame."""
    n, E = y.shape
    rule = as_rule(landmarks, "support")
    if rule is None:
        z = frame.into(np.asarray(checks.points(landmarks, "landmarks", dimension=D)))
    else:
        if rule.size is None:  # never more than half the rows: the rest must judge them
            rule = Landmarks(rule.rule, max(min(max(DEFAULT_COUNT, PER_COLUMN * E), n // 2), E + 1))
        z = place(y, rule, seed)
    if len(z) < E + 1:
        raise ValueError(
            f"there are {len(z)} landmarks for {E} columns, and at least {E + 1} are needed; "
            "give more landmarks, more (distinct) rows or fewer columns"
        )
    return z


def _bank(scales: Float[np.ndarray, " L"]) -> Float[np.ndarray, " B"]:
    return np.geomspace(scales[0], np.sqrt(scales[0] * scales[-1]), BANK)


def _result(
    spec: Spec, frame: Frame, problem: Problem, scanned: Any, found: list[Any], n: int, median: float | None
) -> LearnedKernel:
    E = problem.x.shape[1]
    unit = n * frame.log_unit
    modes = []
    for mode in found:
        kernel, _, epsilon, _ = spec.unpack(mode.theta, E)
        in_units = to_numpy(spec.family.in_units(kernel, frame.axes, frame.scale))
        modes.append(
            Mode(
                kernel=in_units,
                noise=float(mode.fit.noise),
                log_evidence=float(mode.fit.log_evidence) - unit,
                background=float(epsilon),
                ess=None if spec.paper or E == 1 else float(mode.fit.ess),
                at_edge=mode.at_edge,
            )
        )
    if modes[0].at_edge:
        warnings.warn(
            f"the best lengthscale, {modes[0].kernel!r}, is at the edge of the scanned range; the data may "
            "be discrete or hold duplicates, or the objective may have no maximum (see .plot())",
            UserWarning,
            stacklevel=4,
        )
    if modes[0].ess is not None and modes[0].ess < LEAST_ESS:
        warnings.warn(
            f"only {modes[0].ess:.1%} of the draws behind the normalisation count in {E} dimensions, so "
            "evidence, density and lengthscale are rough; learn on fewer columns or principal components",
            UserWarning,
            stacklevel=4,
        )
    best = found[0]
    kernel, _, epsilon, eta = spec.unpack(best.theta, E)
    width = frame.axes * (frame.scale * problem.spread * eta)
    nu = Lebesgue() if spec.paper else GaussianMeasure(frame.centre, width @ width.T)
    size = float(np.exp(np.log(frame.scale).mean()))
    rows = min(n, search.SCAN_ROWS)
    return LearnedKernel(
        kernel=modes[0].kernel,
        noise=modes[0].noise,
        log_evidence=modes[0].log_evidence,
        background=modes[0].background,
        modes=tuple(modes),
        curve=Curve(scanned.scales * size, scanned.values / rows - frame.log_unit),
        landmarks=frame.back(problem.landmarks),
        measure=nu,
        ess=modes[0].ess,
        objective="paper" if spec.paper else "normalised",
        family=spec.family.name,
        n=n,
        parameters=spec.size(E),
        state=State(spec, frame, problem, tuple(mode.theta for mode in found), best.fit, kernel, epsilon),
        median=median,
    )
