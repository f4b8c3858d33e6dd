"""What `learn_kernel` returns: the kernel with its evidence, every mode, and the density it implies."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, to_numpy
from kembed.core.drawing import Drawn
from kembed.kernels.stationary import Stationary
from kembed.learning.evidence import Evidence, typical_lengthscale
from kembed.learning.frame import Frame
from kembed.learning.integration import log_student_t
from kembed.learning.objective import Fit, log_mixture, log_plug, row_features
from kembed.learning.problem import BACKGROUND_WIDTH, Spec

BLOCK_ENTRIES = 1_000_000  # densities at many points are computed in blocks of so many features: 8 MB
LEAST_ESS = 0.01  # an effective share of the integration draws below this is told: forty draws of 4,096


@dataclass(frozen=True, eq=False)
class Mode:
    """One local maximum of the objective."""

    kernel: Any  # of the family that was learned
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
    """The model in the frame: what densities and samplers need, but no data."""

    spec: Spec
    frame: Frame
    landmarks: Float[np.ndarray, "m E"]
    spread: Float[np.ndarray, " E"]
    thetas: tuple[Float[np.ndarray, " P"], ...]  # of every mode
    fit: Fit  # of the best

    def kernel(self, theta: Float[np.ndarray, " P"]) -> Stationary:
        """The kernel of a vector θ, in the user's units."""
        kernel = self.spec.family.kernel(theta, len(self.spread))
        return to_numpy(self.spec.family.in_units(kernel, self.frame.axes, self.frame.scale))


@dataclass(frozen=True, eq=False, repr=False)
class LearnedKernel(Mode, Drawn):
    """A kernel learned from data, with the evidence for it.

    It is the best mode, with its `kernel` and `noise` (τ²); `modes` has all that were found, the best first;
    `curve` the objective over scales. `measure` and `landmarks` are those it was learned with, `background`
    is the share of rows left to the broad background, `ess` the effective share of the draws behind Z.
    """

    modes: tuple[Mode, ...]
    curve: Curve
    landmarks: Float[np.ndarray, "m D"]
    measure: Any
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
        frame, z = self.state.frame, self.state.landmarks
        points = np.asarray(checks.points(points, "points", dimension=len(frame.centre)))
        if not frame.full_rank:
            raise ValueError(
                "the data have constant or dependent columns, so they have no density; drop those columns"
            )
        y = frame.into(points)
        block = max(1, BLOCK_ENTRIES // len(z))
        parts = [self._in_frame(y[start : start + block]) for start in range(0, len(y), block)]
        return np.concatenate(parts) - frame.log_unit

    def _in_frame(self, y: Float[np.ndarray, "p E"]) -> Float[np.ndarray, " p"]:
        spec, _, z, spread, thetas, fit = self.state
        kernel, _, epsilon, _ = spec.unpack(thetas[0], len(spread))
        log_p = log_plug(row_features(kernel, y, z), fit.mean, fit.noise) - fit.log_z
        return log_mixture(log_p, log_student_t(y, BACKGROUND_WIDTH * spread, 1.0), epsilon)

    def warn(self, *, edge: bool = True, stacklevel: int = 3) -> None:
        """Say what a reader of the result must know: an optimum at the edge, an integral by few draws."""
        if edge and self.at_edge:
            message = (
                f"the best lengthscale, {self.kernel!r}, is at the edge of the scanned range; the data may "
                "be discrete or hold duplicates, or the objective may have no maximum (see .plot())"
            )
            warnings.warn(message, UserWarning, stacklevel=stacklevel)
        if self.ess is not None and self.ess < LEAST_ESS:
            message = (
                f"only {self.ess:.1%} of the draws behind the normalisation count in "
                f"{len(self.state.spread)} dimensions, so evidence, density and lengthscale are rough; "
                "learn on fewer columns or principal components"
            )
            warnings.warn(message, UserWarning, stacklevel=stacklevel)
