"""What `learn_kernel` returns: the kernel with its evidence, every mode, and the density it implies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.drawing import Drawn
from kembed.learning.evidence import Evidence, typical_lengthscale
from kembed.learning.integration import log_student_t
from kembed.learning.objective import Fit, log_mixture, log_plug, row_features
from kembed.learning.problem import BACKGROUND_WIDTH

if TYPE_CHECKING:
    from jaxtyping import Float

    from kembed.kernels.stationary import Stationary

BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True, eq=False)
class Mode:
    """One local maximum of the objective."""

    kernel: Stationary
    noise: float  # τ²
    log_evidence: float
    background: float  # ε, the share of rows the background takes
    ess: float | None  # effective share of the importance weights behind Z; None where Z is a quadrature
    at_edge: bool  # of the scanned scales

    def __repr__(self) -> str:
        return f"Mode({self.kernel!r}, noise={self.noise:.4g}, log_evidence={self.log_evidence:.2f})"


class Curve(NamedTuple):
    """The objective over scales, best over the other hyperparameters, for one observation."""

    lengthscale: Float[np.ndarray, " L"]
    log_evidence: Float[np.ndarray, " L"]  # a mean over rows; of a subsample where rows are many


class State(NamedTuple):
    """The model in the frame, for densities and for sampling."""

    spec: Any
    frame: Any
    problem: Any
    thetas: tuple[Any, ...]
    fit: Fit
    kernel: Any
    epsilon: Any


@dataclass(frozen=True, eq=False, repr=False)
class LearnedKernel(Drawn):
    """A kernel learned from data, with the evidence for it.

    `kernel` and `noise` (τ²) are those of the best mode; `modes` has all that were found, the best first;
    `curve` the objective over scales. `measure` and `landmarks` are those it was learned with, `background`
    is the share of rows left to the broad background, `ess` the effective share of the draws behind Z.
    """

    kernel: Stationary
    noise: float
    log_evidence: float
    background: float
    modes: tuple[Mode, ...]
    curve: Curve
    landmarks: Float[np.ndarray, "m D"]
    measure: Any
    ess: float | None
    objective: str
    family: str
    n: int
    parameters: int
    state: State = field(repr=False)
    families: dict[str, float] | None = None  # with kernel="auto": every family's score
    median: float | None = None  # the median rule on the same rows; None beside several lengthscales

    @property
    def score(self) -> float:
        """Log evidence less ½ log n for each hyperparameter: what families are compared by."""
        return self.log_evidence - 0.5 * self.parameters * float(np.log(self.n))

    def evidence(self, unit: str = "") -> Evidence:
        """The curve and its modes in one shape with what tests learn; `unit` says what x was measured in."""
        peaks = np.array([typical_lengthscale(mode.kernel) for mode in self.modes])
        return Evidence(*self.curve, peaks, unit, self.median, self)

    def __repr__(self) -> str:
        others = f", {len(self.modes)} modes" if len(self.modes) > 1 else ""
        ess = f", ess {self.ess:.0%}" if self.ess is not None else ""
        return (
            f"LearnedKernel({self.kernel!r}, noise={self.noise:.4g}, "
            f"log_evidence={self.log_evidence:.2f}, n={self.n}, m={len(self.landmarks)}{others}{ess})"
        )

    def log_density(self, points: Any) -> Float[np.ndarray, " p"]:
        """log p(x) of the density that the normalised model implies, at new points, (p, D).

        (1-ε) N(φ_z(x); μ̄, τ²I) γ(x)/Z + ε b(x), in the units of the data: it integrates to 1.

        >>> import numpy as np
        >>> from kembed import learn_kernel
        >>> x = np.random.default_rng(0).normal(size=(300, 1))
        >>> grid = np.linspace(-6, 6, 1201)
        >>> round(float(np.exp(learn_kernel(x).log_density(grid)).sum() * 0.01), 2)
        1.0
        """
        if self.objective == "paper":
            raise ValueError(
                "the paper's objective is not a density; learn with objective='normalised' for log_density"
            )
        frame, problem = self.state.frame, self.state.problem
        points = np.asarray(checks.points(points, "points", dimension=len(frame.centre)))
        if not frame.full_rank:
            raise ValueError(
                "the data have constant or dependent columns, so they have no density; drop those columns"
            )
        y = frame.into(points)
        block = max(1, BLOCK_ENTRIES // len(problem.landmarks))
        parts = [self._in_frame(y[start : start + block]) for start in range(0, len(y), block)]
        return np.concatenate(parts) - frame.log_unit

    def _in_frame(self, y: Float[np.ndarray, "p E"]) -> Float[np.ndarray, " p"]:
        state = self.state
        rows = row_features(state.kernel, y, state.problem.landmarks)
        log_p = log_plug(rows, state.fit.mean, state.fit.noise) - state.fit.log_z
        background = log_student_t(y, BACKGROUND_WIDTH * state.problem.spread, 1.0)
        return log_mixture(log_p, background, state.epsilon)

    def _replace_families(self, scores: dict[str, float]) -> LearnedKernel:
        return replace(self, families=scores)
