"""What `learn_kernel` returns: the kernel with its evidence, every mode, and the density of new rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, to_numpy
from kembed.core.drawing import Drawn
from kembed.core.writing import jsonable
from kembed.kernels.stationary import Stationary
from kembed.learning.evidence import Evidence, typical_lengthscale
from kembed.learning.frame import Frame
from kembed.learning.objective import Predictive
from kembed.learning.problem import Prepared, Spec
from kembed.learning.quadrature import MOST_PARAMETERS, KernelPosterior, quadrature

CENTRES = 5_000  # rows that predict new ones, at most
CLOSE = 3.0  # nats: a mode not further below the best is as good as it, and reported


@dataclass(frozen=True, eq=False)
class Mode:
    """One local maximum of the objective."""

    kernel: Any  # of the family that was learned
    log_evidence: float  # log pseudolikelihood of the data
    at_edge: bool  # of the scanned scales

    def __repr__(self) -> str:
        return f"Mode({self.kernel!r}, log_evidence={self.log_evidence:.2f})"


class Curve(NamedTuple):
    """The objective over scales, best over shapes, for one observation."""

    lengthscale: Float[np.ndarray, " L"]
    log_evidence: Float[np.ndarray, " L"]


class State(NamedTuple):
    """The model in the frame: what samplers need."""

    spec: Spec
    frame: Frame
    thetas: tuple[Float[np.ndarray, " P"], ...]  # of every mode
    carried: float  # scale at all rows over that of the rows that were looked at

    def kernel(self, theta: Float[np.ndarray, " P"]) -> Stationary:
        """The kernel of a vector θ, in the user's units."""
        kernel = self.spec.family.kernel(theta, len(self.frame.scale))
        return to_numpy(self.spec.family.in_units(kernel, self.frame.axes, self.carried * self.frame.scale))

    def predictive(self, prepared: Prepared) -> Predictive | None:
        """The predictive density at the best mode; none of the published objective, nor in a flat."""
        rows, width = prepared.rows, prepared.width
        if rows is None or width is None or not self.frame.full_rank:
            return None
        if len(rows) > CENTRES:
            rows = rows[np.sort(np.random.default_rng(0).choice(len(rows), CENTRES, replace=False))]
        E, family = len(width), self.spec.family
        kernel = family.in_units(family.kernel(self.thetas[0], E), np.eye(E), np.full(E, self.carried))
        return Predictive(to_numpy(kernel), rows, width)


@dataclass(frozen=True, eq=False, repr=False)
class LearnedKernel(Mode, Drawn):
    """A kernel learned from data, with the evidence for it.

    It is the best mode; `modes` has all that were found, the best first; `curve` the objective over scales;
    `measure` is a normal distribution as wide as the data, for priors of embeddings. With the published
    objective `landmarks`, `noise` and `measure` are those it was learned with.
    """

    modes: tuple[Mode, ...]
    curve: Curve
    measure: Any
    objective: str
    family: str
    n: int
    parameters: int
    compared: float  # log evidence with hardly any background
    state: State = field(repr=False)
    predictive: Predictive | None = field(repr=False)  # of new rows
    prepared: Any = field(repr=False)  # the problem that was solved, until the posterior is computed
    landmarks: Float[np.ndarray, "m D"] | None = None
    noise: float | None = None
    families: dict[str, float] | None = None  # with kernel="auto": every family's score
    median: float | None = None  # the median rule on the same rows; None beside several lengthscales
    range: float | None = None  # of the one column there is

    @property
    def score(self) -> float:
        """What families are compared by: log evidence, less ½ log n for each hyperparameter.

        In this evidence the background has a share of 1e-4 (.02 in learning), so that heavy tails are left
        for the kernel to explain.
        """
        return self.compared - 0.5 * self.parameters * float(np.log(self.n))

    def evidence(self, unit: str = "") -> Evidence:
        """The curve and its modes in one shape with what tests learn; `unit` says what x was measured in."""
        peaks = np.array([typical_lengthscale(mode.kernel) for mode in self.modes])
        return Evidence(*self.curve, peaks, unit, self.median, self, self.range)

    def to_dict(self) -> dict[str, Any]:
        """What was learned, in the words of docs/json.md; lengthscales in the units of the data."""
        modes = [{"kernel": repr(mode.kernel), "log_evidence": mode.log_evidence} for mode in self.modes]
        payload = {
            "family": self.family,
            "lengthscale": typical_lengthscale(self.kernel),
            "median": self.median,
        }
        payload |= {"kernel_used": repr(self.kernel), "log_evidence": self.log_evidence, "rows": self.n}
        return jsonable({**payload, "modes": modes, "families": self.families})

    def __repr__(self) -> str:
        others = f", {len(self.modes)} modes" if len(self.modes) > 1 else ""
        return f"LearnedKernel({self.kernel!r}, log_evidence={self.log_evidence:.2f}, n={self.n}{others})"

    @cached_property
    def posterior(self) -> KernelPosterior:
        """The posterior of a kernel with one or two hyperparameters, by quadrature; in milliseconds.

        >>> import numpy as np
        >>> from kembed import learn_kernel
        >>> x = np.random.default_rng(3).normal(size=(200, 1))
        >>> learn_kernel(x).posterior
        KernelPosterior(Gaussian, lengthscale 0.8633 [0.5936, 1.176], 90 nodes)
        """
        return quadrature(self, self.prepared)

    def log_density(self, points: Any) -> Float[np.ndarray, " p"]:
        """Log of the model's predictive density at new points, (p, D), in the units of the data.

        It is the posterior mean of the embedding, by which the objective predicts every row from the others;
        it integrates to 1. Of many rows a random 5,000 predict.

        >>> import numpy as np
        >>> from kembed import learn_kernel
        >>> x = np.random.default_rng(0).normal(size=(300, 1))
        >>> grid = np.linspace(-1e3, 1e3, 200_001)  # the background has wide tails
        >>> round(float(np.exp(learn_kernel(x).log_density(grid)).sum() * 0.01), 2)
        1.0
        """
        frame = self.state.frame
        points = np.asarray(checks.points(points, "points", dimension=len(frame.centre)))
        if self.objective == "paper":
            seen = "the paper's objective comes with no density"
            raise ValueError(f"{seen}; learn with objective='leave-one-out'")
        if self.predictive is None:
            seen = "the data have constant or dependent columns, so they have no density"
            raise ValueError(f"{seen}; drop those columns")
        return self.predictive.log_density(frame.into(points)) - frame.log_unit

    def __getstate__(self) -> dict[str, Any]:
        # A pickled result keeps the rows that predict and the posterior, not the problem that was solved.
        if self.prepared is not None and len(self.state.thetas[0]) <= MOST_PARAMETERS:
            _ = self.posterior
        return {**vars(self), "prepared": None}

    def warn(self, *, edge: bool = True, stacklevel: int = 4) -> None:
        """Say what a reader of the result must know: an optimum at the edge, or two as good as each other."""
        if edge and self.at_edge:
            message = (
                f"the best lengthscale, {self.kernel!r}, is at the edge of the scanned range; the data may "
                "be discrete or hold duplicates, or the objective may have no maximum (see .plot(), -o FILE)"
            )
            warnings.warn(message, UserWarning, stacklevel=stacklevel)

    @property
    def rivals(self) -> str:
        """One sentence on modes that are nearly as good as the best, "" if there is none."""
        near = [mode for mode in self.modes[1:] if self.log_evidence - mode.log_evidence < CLOSE]
        if not near:
            return ""
        scales = ", ".join(f"{typical_lengthscale(mode.kernel):.3g}" for mode in near)
        return f"The data fit nearly as well with a lengthscale of {scales} (within {CLOSE:g} nats)."
