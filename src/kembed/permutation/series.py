"""Rows in order of time: how long they remember, and what the wild bootstrap makes of that.

The wild bootstrap multiplies rows by a process W that forgets after `memory` steps, and so weighs what two
rows h steps apart have in common by e^{-h/memory}. Where n rows are few against what they remember its draws
are too small, twice: the weights leave out what rows have in common over longer times, and the mean of the
rows, which is taken away, has already followed them. For features that keep the share r of their last step
(an autoregression) both are known exactly, and so is how uncertain an estimate from n rows is. Hence three
things, from the correlation of every leading feature of the kernel with its last step: the memory (Andrews
1991), the factor that draws lack, and the degrees of freedom of a t where the bootstrap takes a normal law.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.features.kernel import KernelMatrix, kernel_matrix
from kembed.kernels.discrete import space_kernel
from kembed.permutation.nulls import wild_weights
from kembed.permutation.pool import Pool

Features = Float[np.ndarray, "n p"]
# Rows at which a kernel is looked at, the leading features that are kept of it (of two sides: products of
# them), and the least eigenvalue beside the largest.
LANDMARKS, LEADING, PRODUCTS, LEAST = 100, 10, 30, 1e-6
MOST = 0.99  # a correlation beyond is taken for this one: no estimate from n rows tells it from a random walk
SHORTEST = 0.5  # steps of memory: rows whose weights have a correlation of e^-2
QUARTER = 0.25  # memory is at most this share of the rows
STEPS = 20  # of a bisection: to a millionth
LONGEST = 1e3  # times the rows: beyond, weights are a straight random walk, whatever the memory

# Rows that remember so many times as long as their last steps show get a note: of 100 rows one in twenty
# autoregressions or fewer, and four in five that keep .95 of the last step under as much noise.
HIDDEN = 2.0


class Persistence(NamedTuple):
    """Leading features of the rows of a series: shares of their variance, correlations with the last step."""

    share: Float[np.ndarray, " p"]
    correlation: Float[np.ndarray, " p"]
    hidden: float = 1.0  # how many times as many rows are worth one as their last steps show

    @property
    def kept(self) -> Float[np.ndarray, " p"]:
        """The share r that each keeps of its last step: what turns round counts as none."""
        return np.maximum(self.correlation, 0.0)

    @property
    def mean_variance(self) -> float:
        """How many rows are worth one independent one: the mean of (1 + r)/(1 - r) by the shares."""
        r = self.kept
        return float(self.share @ ((1.0 + r) / (1.0 - r)))


class Lack(NamedTuple):
    """What draws of the wild bootstrap lack: n times the variance of a mean, and of what is drawn."""

    variance: float
    drawn: float
    freedom: float  # of the estimate, as that of a χ²

    @property
    def factor(self) -> float:
        """What draws of a squared mean are to be multiplied by."""
        return self.variance / self.drawn


def principal_features(matrix: KernelMatrix) -> Features:
    """The leading principal components of one kernel, by rows at even distances (Nyström)."""
    n = len(matrix.rows)
    some = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).round().astype(int))
    C = matrix.block(matrix.rows, matrix.rows[some])
    C = C - C.mean(axis=1, keepdims=True)
    C = C - C[some].mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (C[some] + C[some].T))
    large = eigenvalues > LEAST * max(float(eigenvalues[-1]), 0.0)
    order = np.flatnonzero(large)[::-1][:LEADING]
    return C @ (vectors[:, order] / np.sqrt(eigenvalues[order]))


def persistence(rows: Features) -> Persistence:
    """Shares and correlations of the features of a stretch of time."""
    return _raised(_last_step(rows), rows)


def persistence_of(pool: Pool, matrices: tuple[KernelMatrix, ...], paired: bool) -> list[Persistence]:
    """How two series remember, or the differences of pairs: as the kernel sees it.

    Of several kernels, as one at the median distance sees it, of all columns or of the one that remembers
    longest.
    """
    if len(matrices) != 1:
        spaces = [pool.space]
        if len(pool.names) > 1:
            spaces += [pool.space.column(c) for c in range(len(pool.names))]
        matrices = tuple(kernel_matrix(space_kernel(each, each.median()), each.values) for each in spaces)
    found = []
    for matrix in matrices:
        x, y = np.split(principal_features(matrix), [pool.sizes[0]])
        found.append([persistence(x - y)] if paired else [persistence(x), persistence(y)])
    return [max(of_one, key=lambda how: how.mean_variance) for of_one in zip(*found, strict=True)]


def hidden_notes(series: list[Persistence], labels: list[str]) -> tuple[str, ...]:
    """What to know where a noise on top of something slow hides how long rows remember."""
    names = labels if len(series) == 2 else ["the differences of pairs"]
    slow = [name for name, how in zip(names, series, strict=True) if how.hidden >= HIDDEN]
    if not slow:
        return ()
    seen = f"rows of {' and '.join(slow)} remember longer than neighbours show, as under noise"
    return (f"{seen}; p-values of null='wild' are then too small, so test means of several rows in a row",)


def crossed(x: Features, y: Features) -> Persistence:
    """The same of the largest products of a feature of x and one of y, where these are independent.

    Then a product keeps of its last step what the one keeps times what the other keeps.
    """
    one, other = persistence(x), persistence(y)
    sizes = np.multiply.outer(one.share, other.share)
    order = np.argsort(-sizes, axis=None, kind="stable")[:PRODUCTS]
    i, j = np.unravel_index(order, sizes.shape)
    share = sizes[i, j] / sizes[i, j].sum()
    found = Persistence(share, one.correlation[i] * other.correlation[j])
    if len(one.share) != x.shape[1] or len(other.share) != y.shape[1]:  # nothing varies
        return found
    return _raised(found, x[:, i] * y[:, j])


def _last_step(rows: Features) -> Persistence:
    """Correlations with the last step.

    r̂ = Σ c_t c_{t+1} / Σ c_t² is too small by about (1 + 4r)/n, since the mean of the n rows is taken away
    from them (Shaman & Stine 1988); that is added.
    """
    centred = rows - rows.mean(axis=0)
    squares, lagged = np.square(centred).sum(axis=0), (centred[1:] * centred[:-1]).sum(axis=0)
    total = float(squares.sum())
    if not total > 0.0:
        return Persistence(np.ones(1), np.zeros(1))
    r = np.divide(lagged, squares, out=np.zeros_like(squares), where=squares > 0.0)
    return Persistence(squares / total, np.clip(r + (1.0 + 4.0 * r) / len(rows), -MOST, MOST))


def _raised(how: Persistence, rows: Features) -> Persistence:
    """Larger correlations where rows remember more than their last step shows, as under noise.

    Weights of memory √n would draw a certain variance. Where it is more than autoregressions have there, r is
    at least that of the autoregression which has as much.
    """
    n, centred = len(rows), rows - rows.mean(axis=0)
    total = float(np.square(centred).sum())
    if not total > 0.0:
        return how
    memory = max(float(np.sqrt(n)), automatic_memory(n, how))
    drawn = _drawn(centred, memory) / total
    if drawn <= _share_drawn(n, memory, how):
        return how
    low, high = 0.0, MOST
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        less = _share_drawn(n, memory, Persistence(np.ones(1), np.array([middle]))) < drawn
        low, high = (middle, high) if less else (low, middle)
    found = Persistence(how.share, np.maximum(how.correlation, high))
    return found._replace(hidden=found.mean_variance / how.mean_variance)


def _drawn(centred: Features, memory: float) -> float:
    """Σ_st e^{-|s-t|/memory} c_s'c_t / n."""
    from scipy.signal import lfilter

    a = float(np.exp(-1.0 / memory))
    before = lfilter([0.0, a], [1.0, -a], centred, axis=0)  # Σ_{s<t} a^{t-s} c_s
    return float(np.sum(centred * (centred + 2.0 * before)) / len(centred))


def _share_drawn(n: int, memory: float, how: Persistence) -> float:
    """What is drawn beside the sum of squares of the centred rows, which lacks the variance of their mean."""
    usual = lack(n, memory, how)
    return usual.drawn / (n - min(usual.variance, n - 1.0))


def automatic_memory(n: int, how: Persistence) -> float:
    """The memory at which the variance of a mean of n rows is estimated best (Andrews 1991, eqs. 5.2, 6.4).

    (α n)^{1/3} for weights e^{-h/memory}, with α = Σ s²4r²/(1-r)⁴ / Σ s²(1+r)²/(1-r)².
    """
    s, r = how.share, how.kept
    curvature = np.sum(s**2 * 4.0 * r**2 / (1.0 - r) ** 4)
    alpha = float(curvature / np.sum(s**2 * (1.0 + r) ** 2 / (1.0 - r) ** 2))
    return max(min((alpha * n) ** (1.0 / 3.0), QUARTER * n), SHORTEST)


def wild_columns(
    sizes: Sequence[int],
    series: Sequence[Persistence],
    count: int,
    memory: float | None,
    rng: np.random.Generator,
    tails: bool = True,
) -> list[Float[np.ndarray, "n count"]]:
    """Wild weights for series of these lengths, as large as they should be, and with the tails of a t."""
    lacks, W = [], []
    for n, how in zip(sizes, series, strict=True):
        length = automatic_memory(n, how) if memory is None else min(memory, LONGEST * n)
        lacks.append(lack(n, length, how))
        W.append(wild_weights(n, count, length, rng) * np.sqrt(lacks[-1].factor))
    if not tails:
        return W
    own = np.array([each.variance / n for n, each in zip(sizes, lacks, strict=True)])  # of every mean
    freedom = own.sum() ** 2 / np.sum(own**2 / [each.freedom for each in lacks])  # Satterthwaite's
    heavy = np.sqrt(freedom / rng.chisquare(freedom, count))
    return [weights * heavy for weights in W]


def lack(n: int, memory: float, how: Persistence) -> Lack:
    """What the draws of n rows lack, for a sum of squares of the features."""
    a = float(np.exp(-1.0 / memory))
    found = [_lack(n, a, float(r)) for r in how.kept]
    variance, drawn = (float(how.share @ [each[k] for each in found]) for k in (0, 1))
    parts = (how.share * [each.drawn for each in found]) ** 2 / [each.freedom for each in found]
    return Lack(variance, drawn, drawn**2 / float(parts.sum()))


def _lack(n: int, a: float, r: float) -> Lack:
    """The same of one feature of variance 1: 1'R1/n, and trace(HAHR)/n, with A = [a^|i-j|], R = [r^|i-j|].

    The periodogram at the frequencies πk/n, weighed by the spectrum of W, is about a sum of squared normal
    numbers with variances A_k R_k, which has (Σ A_k R_k)² / Σ (A_k R_k)² degrees of freedom.
    """
    t, shares = np.arange(n), np.array([a, r, a * r])[:, None]
    # Σ_j share^|i-j| for every i.
    A, R, both = (1.0 + shares - shares ** (t + 1) - shares ** (n - t)) / (1.0 - shares)
    drawn = (both.sum() - 2.0 * (A @ R) / n + A.sum() * R.sum() / n**2) / n
    frequencies = np.cos(np.pi * np.arange(1, n) / n)
    spectrum = np.ones(n - 1)
    for share in (a, r):  # their sizes cancel
        spectrum /= 1.0 - 2.0 * share * frequencies + share**2
    return Lack(float(R.sum() / n), float(drawn), float(spectrum.sum() ** 2 / np.square(spectrum).sum()))
