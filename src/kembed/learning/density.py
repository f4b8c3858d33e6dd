"""A Bayesian density of rows: p(x | f) = q₀(x) exp{f(x)}/Z(f), f a Gaussian process.

f = s ψ(u(x))·w with stationary Fourier features ψ of the warped x (`density_base.py`) and w ~ N(0, I). Of
the rows only Σψ is needed: F(w) = Σ{log q₀(xᵢ) + f(xᵢ)} - n log Z - ½|w|² is concave, its curvature is H =
n s² Cov_p[ψ] + I, and Laplace's evidence is F(w*) - ½ log |H|. The density is the mixture of p(x | w*) over
bases, smoothnesses, lengthscales and amplitudes, each with the share its evidence gives it, beside a kernel
density of the rows and, beyond the line, a mixture of normals (`density_mixture.py`).

The first two live in v = (x - m) A. A is I, or whitens by the scatter of the fitted t, whichever the kernel
density's leave-one-out likelihood prefers; with many axes it takes the few widest alone and p(x) = p(v) t(x
| v), so that Z is an integral in few dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import chdtri, ndtri, stdtrit

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp, median_of_pairs, robust_spread, squared_distances
from kembed.learning.density_base import Base, Student, Warp, bases, fit_student
from kembed.learning.density_kde import Kde, fit_kde
from kembed.learning.density_mixture import Mixture, fit_mixture
from kembed.learning.density_rule import Rule, integration_rule, quasi_random

Array = np.ndarray
SMOOTHNESS = (1.5,)  # of f, Matérn's ν; Gaussian and 1/2 beside it gain nothing
FREQUENCIES = 64, 128  # half the features, on the line and beyond
WIDER = 4.0  # times the scatter of the fitted t is the base: with less, f must build up what the t lacks
AMPLITUDES = (0.3, 0.6, 1.1, 2.0, 3.5, 6.0, 10.0, 18.0)
FALLEN = 3.0  # nats below the best amplitude, where larger ones are not tried
SCALES = 9  # lengthscales
NARROWEST, WIDEST = 0.02, 5.0  # of them, in median distances of the rows
BAND = 2.5  # times 1/lengthscale: frequencies that f needs
KEPT = 1e-2  # features whose variance adds less to log |H| are dropped
TOLERANCE = 1e-4  # Newton's decrement, in nats
STEPS = 30
COUNTS = 1e-3  # settings with a smaller share of the evidence are left out
MEDIAN_ROWS = 500  # rows of the median distance
SUBSAMPLE = 2_000  # rows that choose the settings
FEW_AXES, LEADING = 6, 3  # f depends on all axes up to so many, beyond on so many
KDE_SHARE = 1.0 / 3.0
KDE_ROWS = 1_000
BLOCK = 4_096  # rows whose features are computed at a time


class Setting(NamedTuple):
    """One setting of the prior with the mode of w."""

    base: int
    smoothness: float
    lengthscale: float
    amplitude: float
    log_evidence: float
    frequencies: Float[Array, "F d"]  # Ω/ℓ
    weights: Float[Array, " 2F"]  # s w
    log_z: float
    ess: float


class Mode(NamedTuple):
    """Where F is largest, log Z there, Laplace's evidence (less Σ log q₀), and the nodes' shares under p."""

    w: Float[Array, " r"]
    log_z: float
    log_evidence: float
    share: Float[Array, " S"]


class Axes(NamedTuple):
    """v = (x - m) A, in which f is stationary: all axes or the widest."""

    student: Student
    axes: Float[Array, "E d"]  # A

    def into(self, x: Float[Array, "k E"]) -> Float[Array, "k d"]:
        """Points in these coordinates."""
        return (x - self.student.centre) @ self.axes

    def log_rest(self, x: Float[Array, "k E"]) -> Float[Array, " k"]:
        """log of p(x)/p(v): |A| where A is square, t(x | v) where it is not."""
        if self.axes.shape[0] == self.axes.shape[1]:
            return np.full(len(x), np.linalg.slogdet(self.axes)[1])
        return self.student.log_density(x) - self.student.marginal(self.axes).log_density(self.into(x))

    @property
    def scale(self) -> float:
        """The size of a unit of v in x, on average over its axes."""
        return float(np.exp(-0.5 * np.linalg.slogdet(self.axes.T @ self.axes)[1] / self.axes.shape[1]))


@dataclass(frozen=True, eq=False)
class Density:
    """p(x), as a mixture of settings, a kernel density and normals; `log_density` is what it is for."""

    log_evidence: float  # of the mixture of settings, all equally likely before
    lengthscale: float  # of the best setting, in the units of the rows (at their centre)
    amplitude: float  # s of it
    ess: float  # effective share of the integration nodes under p, 1 on the line
    settings: tuple[Setting, ...] = field(repr=False)
    log_shares: Float[Array, " M"] = field(repr=False)
    bases: tuple[Base, ...] = field(repr=False)
    warp: Warp = field(repr=False)
    kde: Kde = field(repr=False)
    frame: Axes = field(repr=False)
    normals: tuple[Mixture, float] | None = field(repr=False)  # and their share

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """log p(x) at points in the coordinates of the rows."""
        parts = [self._block(points[start : start + BLOCK]) for start in range(0, len(points), BLOCK)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _block(self, x: Float[Array, "k E"]) -> Float[Array, " k"]:
        rest, given = self.frame.log_rest(x), x
        x = self.frame.into(x)
        u = self.warp(x)
        log_base = np.stack([base.log_density(x) for base in self.bases])
        each, psi, before = [], np.zeros((0, 0)), None
        for one, log_share in zip(self.settings, self.log_shares, strict=True):
            if one.frequencies is not before:  # settings of one lengthscale stand together and share them
                psi, before = features(u, one.frequencies), one.frequencies
            each.append(log_share + log_base[one.base] + psi @ one.weights - one.log_z)
        smooth = log_sum_exp(np.stack(each), axis=0)
        mixed = np.logaddexp(np.log1p(-KDE_SHARE) + smooth, np.log(KDE_SHARE) + self.kde.log_density(x))
        if self.normals is None:
            return np.asarray(mixed + rest)
        normals, share = self.normals
        return np.logaddexp(np.log1p(-share) + mixed + rest, np.log(share) + normals.log_density(given))


def fit_density(y: Float[Array, "n E"], rng: np.random.Generator) -> Density:
    """The density of rows in canonical order, in coordinates in which one isotropic scale makes sense.

    >>> y = np.sort(np.random.default_rng(0).normal(size=(300, 1)), axis=0)
    >>> grid = np.linspace(-9.0, 9.0, 3_001)[:, None]
    >>> density = fit_density(y, np.random.default_rng(0))
    >>> round(float(np.exp(density.log_density(grid)).sum() * 0.006), 2)
    1.0
    """
    student = fit_student(_subsample(y, SUBSAMPLE, rng))[0]
    few = _subsample(y, KDE_ROWS, rng)
    frame, kde, left_out = _choose_axes(few, student)
    normals = fit_mixture(few, left_out)
    log_rest = float(frame.log_rest(y).sum())
    y = frame.into(y)
    rows = _subsample(y, SUBSAMPLE, rng)
    inner = fit_student(rows)[0]
    few = _subsample(rows, MEDIAN_ROWS, rng)
    warp = Warp(inner.centre, float(np.median(robust_spread(few - inner.centre))))
    typical = median_of_pairs(np.sqrt(squared_distances(warp(few), warp(few))))
    starts = bases(rows, inner.wider(WIDER))
    rule = integration_rule(rows, starts, warp, typical, rng)
    fresh = integration_rule(rows, starts, warp, typical, rng, fresh=True)
    scan = Scan(rule, fresh, warp, starts, rng)
    settings = scan.settings(rows, typical)
    if len(y) > len(rows):
        settings = [scan.again(y, one) for one in settings]
    evidence = np.array([one.log_evidence for one in settings])
    total = float(log_sum_exp(evidence))
    best = settings[int(np.argmax(evidence))]
    return Density(
        log_evidence=total - float(np.log(scan.tried)) + log_rest,
        lengthscale=best.lengthscale * frame.scale,
        amplitude=best.amplitude,
        ess=best.ess,
        settings=tuple(settings),
        log_shares=evidence - total,
        bases=starts,
        warp=warp,
        kde=kde,
        frame=frame,
        normals=normals,
    )


class Scan:
    """Laplace's evidence over the settings of the prior; features and their reduction serve all bases.

    f can be large where no node is. So Z is computed once more, with fresh nodes, and the
    evidence is that of the Z they give: a setting that hid something loses n nats a nat.
    """

    def __init__(
        self, rule: Rule, fresh: Rule, warp: Warp, starts: tuple[Base, ...], rng: np.random.Generator
    ) -> None:
        self.rule, self.warp, self.bases = rule, warp, starts
        self.u = warp(rule.points)
        self.fresh_u = warp(fresh.points)
        self.fresh_logs = [base.log_density(fresh.points) + fresh.log_weights for base in starts]
        self.logs = [base.log_density(rule.points) + rule.log_weights for base in starts]
        d = rule.points.shape[1]
        self.frequencies = {nu: spectrum(nu, FREQUENCIES[d > 1], d, rng) for nu in SMOOTHNESS}
        self.tried = 0

    def settings(self, y: Float[Array, "n d"], typical: float) -> list[Setting]:
        """Those that count, of all smoothnesses, lengthscales, bases and amplitudes."""
        d = y.shape[1]
        shortest = max(NARROWEST * typical, BAND * np.sqrt(d) / self.rule.frequency)
        found: list[Setting] = []
        for nu in SMOOTHNESS:
            for lengthscale in np.geomspace(shortest, WIDEST * typical, SCALES):
                found += self._amplitudes(y, nu, float(lengthscale), AMPLITUDES, range(len(self.bases)))
        self.tried = len(SMOOTHNESS) * SCALES * len(AMPLITUDES) * len(self.bases)
        evidence = np.array([one.log_evidence for one in found])
        least = float(log_sum_exp(evidence)) + np.log(COUNTS)
        return [one for one in found if one.log_evidence > least]

    def again(self, y: Float[Array, "n d"], one: Setting) -> Setting:
        """The same setting with the mode and the evidence of other rows."""
        return self._amplitudes(y, one.smoothness, one.lengthscale, (one.amplitude,), [one.base])[0]

    def _amplitudes(
        self,
        y: Float[Array, "n d"],
        nu: float,
        lengthscale: float,
        amplitudes: Sequence[float],
        which: Sequence[int],
    ) -> list[Setting]:
        """The settings of one lengthscale, for each base from small amplitudes up while they gain."""
        n = len(y)
        frequencies = self.frequencies[nu] / lengthscale
        resolved = np.sqrt((frequencies**2).sum(axis=1)) <= self.rule.frequency
        frequencies = frequencies[resolved]
        lost = np.sqrt(np.mean(resolved))  # keeps every feature's variance what it is among all
        psi = lost * features(self.u, frequencies)
        mean = self.rule.share @ psi
        root = psi * np.sqrt(self.rule.share)[:, None]
        values, vectors = np.linalg.eigh(root.T @ root - np.outer(mean, mean))
        kept = max(1, int((n * max(amplitudes) ** 2 * values > KEPT).sum()))
        turn = vectors[:, ::-1][:, :kept]
        psi = psi @ turn
        total = lost * feature_sum(self.warp, y, frequencies) @ turn
        fresh_psi = features(self.fresh_u, frequencies)
        found = []
        for b in which:
            prior = float(self.bases[b].log_density(y).sum()) - 0.5 * len(self.bases[b].edges) * np.log(n)
            w, best = np.zeros(kept), -np.inf
            for s in amplitudes:
                mode = find_mode(s * psi, self.logs[b], s * total, n, w / s)
                w, evidence = s * mode.w, mode.log_evidence + prior  # s w changes less than w
                ess = 1.0 if y.shape[1] == 1 else float(1.0 / (len(mode.share) * (mode.share**2).sum()))
                weights = lost * (turn @ w)
                log_z = float(log_sum_exp(self.fresh_logs[b] + fresh_psi @ weights))
                evidence -= n * (log_z - mode.log_z)
                found.append(Setting(b, nu, lengthscale, s, evidence, frequencies, weights, log_z, ess))
                best = max(best, evidence)
                if evidence < best - FALLEN:
                    break
        return found


def find_mode(
    psi: Float[Array, "S r"],
    log_base: Float[Array, " S"],
    total: Float[Array, " r"],
    n: int,
    w: Float[Array, " r"],
) -> Mode:
    """argmax_w of Σf(xᵢ) - n log Z - ½|w|² by Newton with halved steps; psi and `total` contain s."""

    def value(w: Float[Array, " r"]) -> tuple[float, float, Float[Array, " S"]]:
        log_p = log_base + psi @ w
        top = log_p.max()
        p = np.exp(log_p - top)
        z = p.sum()
        log_z = float(top + np.log(z))
        return float(total @ w) - n * log_z - 0.5 * float(w @ w), log_z, p / z

    height, log_z, p = value(w)
    for _ in range(STEPS):
        mean = p @ psi
        root = psi * np.sqrt(n * p)[:, None]
        hessian = root.T @ root - n * np.outer(mean, mean)
        hessian[np.diag_indices_from(hessian)] += 1.0
        lower = np.linalg.cholesky(hessian)
        gradient = total - n * mean - w
        step = cho_solve((lower, True), gradient)
        decrement = float(gradient @ step)
        if decrement < TOLERANCE:
            break
        length = 1.0
        new = value(w + step)
        while new[0] < height + 1e-4 * length * decrement and length > 1e-3:
            length *= 0.5
            new = value(w + length * step)
        w = w + length * step
        height, log_z, p = new
    return Mode(w, log_z, height - float(np.log(np.diagonal(lower)).sum()), p)


def spectrum(nu: float, count: int, d: int, rng: np.random.Generator) -> Float[Array, "F d"]:
    """Quasi-random frequencies of Matérn ν with ℓ = 1: a t with 2ν degrees of freedom, normal for ν = ∞."""
    if d == 1:
        p = 0.5 + (np.arange(count) + 0.5) / (2.0 * count)
        return (ndtri(p) if np.isinf(nu) else stdtrit(2.0 * nu, p))[:, None]
    u = quasi_random(count, d + 1, rng)
    normal = ndtri(u[:, :-1])
    return normal if np.isinf(nu) else normal / np.sqrt(chdtri(2.0 * nu, u[:, -1:]) / (2.0 * nu))


def features(u: Float[Array, "k d"], frequencies: Float[Array, "F d"]) -> Float[Array, "k 2F"]:
    """ψ(u) = (cos Ωu, sin Ωu)/√F: ψ(u)·ψ(u') is the kernel."""
    angle = u @ frequencies.T
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(len(frequencies))


def feature_sum(warp: Warp, y: Float[Array, "n d"], frequencies: Float[Array, "F d"]) -> Float[Array, " 2F"]:
    """Σψ(u(yᵢ)), a block of rows at a time."""
    total = np.zeros(2 * len(frequencies))
    for start in range(0, len(y), BLOCK):
        total += features(warp(y[start : start + BLOCK]), frequencies).sum(axis=0)
    return total


def _choose_axes(y: Float[Array, "c E"], student: Student) -> tuple[Axes, Kde, Float[Array, " c"]]:
    """The axes that a kernel density prefers, as they are or whitened; that density, and its log p₋ᵢ."""
    E = y.shape[1]
    axes = np.eye(E)
    values, vectors = np.linalg.eigh(student.lower @ student.lower.T)
    if E > FEW_AXES:
        values, vectors = values[::-1][:LEADING], vectors[:, ::-1][:, :LEADING]
        axes = vectors
    best: tuple[float, Axes, Kde, Float[Array, " c"]] | None = None
    for matrix in (axes, vectors / np.sqrt(values))[:E]:  # on the line they are the same
        frame = Axes(student, matrix)
        v = frame.into(y)
        kde, score, left_out = fit_kde(v)
        score -= len(v) * len(values) * np.log(frame.scale)
        if best is None or score > best[0]:
            best = score, frame, kde, left_out + frame.log_rest(y)
    assert best is not None
    return best[1:]


def _subsample(y: Float[Array, "n d"], count: int, rng: np.random.Generator) -> Float[Array, "c d"]:
    return y if len(y) <= count else y[np.sort(rng.choice(len(y), count, replace=False))]
