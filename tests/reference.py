"""The slow, obvious reference that all fast code is checked against.

Everything here is written from the definitions, with loops, textbook inverses, quadrature and
mpmath, and imports nothing of the package. A *kernel* is any callable k(x, y) -> number on 1-D
arrays of length D; a *measure* is "lebesgue" or a tuple (centre, covariance, mass), which stands
for mass * N(centre, covariance). The kernels made here also accept object arrays of mpmath
numbers, which is how derivatives and ill-conditioned solves are done to many digits.

Run `python tests/reference.py` for the self test.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise, permutations
from typing import Any

import mpmath
import numpy as np
from mpmath import mp
from scipy import integrate, optimize

Array = np.ndarray
Kernel = Callable[[Any, Any], Any]  # of two points: arrays or lists
Measure = str | tuple[Any, Any, float]


# --------------------------------------------------------------------------------------
# 1. Kernels of one pair of points
# --------------------------------------------------------------------------------------


def _exp(v: Any) -> Any:
    """exp(v) for a float or an mpmath number."""
    return mp.exp(v) if isinstance(v, mpmath.mpf) else math.exp(v)


def _squared_distance(x: Array, y: Array) -> Any:
    """sum_d (x_d - y_d)^2."""
    return sum((a - b) * (a - b) for a, b in zip(x, y, strict=True))


def gaussian(covariance: Any) -> Kernel:
    """k(x, y) = exp(-(x-y)' covariance^-1 (x-y) / 2)."""
    precision = np.linalg.inv(np.atleast_2d(np.asarray(covariance, dtype=float)))
    dimension = len(precision)
    entries = [(i, j, float(precision[i, j])) for i in range(dimension) for j in range(dimension)]

    def k(x: Array, y: Array) -> Any:
        d = [a - b for a, b in zip(x, y, strict=True)]
        return _exp(-sum(d[i] * d[j] * p for i, j, p in entries) / 2)

    return k


def rational_quadratic(lengthscale: float, alpha: float) -> Kernel:
    """k(x, y) = (1 + d^2 / (2 alpha l^2))^(-alpha), d = |x-y|."""

    def k(x: Array, y: Array) -> Any:
        return (1 + _squared_distance(x, y) / (2 * alpha) / lengthscale**2) ** (-alpha)

    return k


def matern(lengthscale: float, nu: float) -> Kernel:
    """k = p(t) exp(-t), t = sqrt(2 nu) |x-y| / l, p = 1; 1+t; 1+t+t^2/3 for nu = 1/2; 3/2; 5/2."""
    if nu not in (0.5, 1.5, 2.5):
        raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {nu}")

    def k(x: Array, y: Array) -> Any:
        t = (2 * nu * _squared_distance(x, y)) ** 0.5 / lengthscale
        polynomial = {0.5: 1, 1.5: 1 + t, 2.5: 1 + t + t * t / 3}[nu]
        return polynomial * _exp(-t)

    return k


def multiscale(lengthscales: Sequence[float], weights: Sequence[float]) -> Kernel:
    """k(x, y) = sum_j w_j exp(-d^2 / (2 l_j^2)), d = |x-y|."""
    terms = [(float(s), float(w)) for s, w in zip(lengthscales, weights, strict=True)]

    def k(x: Array, y: Array) -> Any:
        d2 = _squared_distance(x, y)
        return sum(w * _exp(-d2 / (2 * s * s)) for s, w in terms)

    return k


def scaled(k: Kernel, variance: float) -> Kernel:
    """variance * k(x, y)."""
    return lambda x, y: variance * k(x, y)


def sum_of(*ks: Kernel) -> Kernel:
    """k_1(x, y) + k_2(x, y) + ..."""
    return lambda x, y: sum(k(x, y) for k in ks)


def product_of(*ks: Kernel) -> Kernel:
    """k_1(x, y) * k_2(x, y) * ..."""

    def k(x: Array, y: Array) -> Any:
        value = 1.0
        for factor in ks:
            value = value * factor(x, y)
        return value

    return k


# --------------------------------------------------------------------------------------
# 2. Gram matrix
# --------------------------------------------------------------------------------------


def _points(x: Any) -> Array:
    """x as a float array (number of points, D); a 1-D array is n points in one dimension."""
    x = np.asarray(x, dtype=float)
    return x[:, None] if x.ndim == 1 else x


def gram(k: Kernel, X: Any, Y: Any) -> Array:
    """G[i, j] = k(X_i, Y_j)."""
    X, Y = _points(X), _points(Y)
    out = np.zeros((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            out[i, j] = float(k(x, y))
    return out


# --------------------------------------------------------------------------------------
# 3. Prior covariance r(x, y) = int k(x, u) k(u, y) nu(du)
# --------------------------------------------------------------------------------------


def _half_width(k: Kernel, x: Array) -> float:
    """Smallest h over the axes with k(x, x + h e_axis) = k(x, x) / 2 (1.0 where there is none)."""
    top = float(k(x, x))
    widths = []
    for axis in range(len(x)):
        step = np.zeros(len(x))
        step[axis] = 1.0

        def excess(log_h: float, step: Array = step) -> float:
            return float(k(x, x + math.exp(log_h) * step)) / top - 0.5

        lo, hi = math.log(1e-12), math.log(1e12)
        if excess(lo) > 0 > excess(hi):
            widths.append(math.exp(optimize.brentq(excess, lo, hi, xtol=1e-3)))
    return min(widths, default=1.0)


def _density(measure: Measure, dimension: int) -> Callable[[Any], float]:
    """Lebesgue density of the measure: 1, or mass * N(u; centre, covariance)."""
    if isinstance(measure, str):
        if measure != "lebesgue":
            raise ValueError(f"unknown measure {measure!r}")
        return lambda u: 1.0
    centre = np.atleast_1d(np.asarray(measure[0], dtype=float))
    covariance = np.atleast_2d(np.asarray(measure[1], dtype=float))
    normal, centre = gaussian(covariance), centre.tolist()
    peak = measure[2] / math.sqrt((2 * math.pi) ** dimension * np.linalg.det(covariance))
    return lambda u: peak * normal(u, centre)


def _centre_and_spread(measure: Measure) -> tuple[Array, float, float] | None:
    """(centre, smallest sd, largest sd) of a Gaussian measure, None for Lebesgue."""
    if isinstance(measure, str):
        return None
    variances = np.linalg.eigvalsh(np.atleast_2d(np.asarray(measure[1], dtype=float)))
    centre = np.atleast_1d(np.asarray(measure[0], dtype=float))
    return centre, math.sqrt(variances[0]), math.sqrt(variances[-1])


def _integrate_line(
    f: Callable[[float], float], anchors: list[tuple[float, float]], rel: float = 1e-11
) -> float:
    """int f(u) du over the real line for f >= 0, kinks or bumps at anchors (location, scale).

    The highest point of f is found first and divided out, and the line is cut at the anchors, at
    that point, and at graded distances from them; so tiny integrals keep their relative accuracy
    (down to 1e-290, below which doubles themselves lose digits).
    """
    locations = [p for p, _ in anchors]
    largest = max(s for _, s in anchors)
    breaks = [p + sign * s * g for p, s in anchors for sign in (-1, 1) for g in (0, 1, 8, 64)]
    candidates = sorted({*breaks, *np.linspace(min(locations), max(locations), 41).tolist()})
    best = int(np.argmax([f(u) for u in candidates]))
    peak, top = candidates[best], f(candidates[best])
    if top == 0:
        return 0.0  # below the smallest double everywhere
    if 0 < best < len(candidates) - 1:
        found = optimize.minimize_scalar(
            lambda u: -f(u) / top,
            bounds=(candidates[best - 1], candidates[best + 1]),
            method="bounded",
        )
        if -found.fun > 1:
            peak, top = float(found.x), -float(found.fun) * top
    half = 64 * largest
    while max(f(peak - half), f(peak + half)) < top / 2:
        half /= 2
    breaks += [peak + sign * half * g for sign in (-1, 1) for g in (0, 1, 4, 16)]
    breaks = sorted(set(breaks))
    breaks = breaks[:1] + [b for a, b in pairwise(breaks) if b - a > 1e-13 * max(1e-300, abs(b))]

    total, error = 0.0, 0.0
    absolute = 1e-3 * rel * half  # f/top has height 1 and width about `half`
    for a, b in pairwise(breaks):
        part = integrate.quad(
            lambda u: f(u) / top, a, b, epsabs=absolute, epsrel=rel, limit=200, full_output=1
        )
        total, error = total + part[0], error + part[1]
    for end, sign in ((breaks[0], -1), (breaks[-1], 1)):
        step = sign * 64 * largest
        part = integrate.quad(
            lambda v, end=end, step=step: f(end + step * v) / top * abs(step),
            0,
            math.inf,
            epsabs=absolute,
            epsrel=rel,
            limit=400,
            full_output=1,
        )
        total, error = total + part[0], error + part[1]
    if not error <= 100 * rel * total and total * top > 1e-290:
        raise ArithmeticError(f"quadrature error {error:.1e} of {total:.1e}")
    return total * top


def _integrate_plane(
    f: Callable[[list[float]], float], x: Array, y: Array, narrow: float, reach: float
) -> float:
    """int f(u) du over the plane, for f analytic in u and in the distances |u-x|, |u-y|.

    Elliptic coordinates with foci x and y, u = middle + c (cosh a cos b, sinh a sin b) with
    c = |x-y|/2, make both distances c (cosh a +- cos b) analytic, and du = |u-x| |u-y| da db; for
    x = y they are polar, with a the log of the radius. The trapezium rule then converges
    exponentially; it is halved until it stands still. f varies on the scale `narrow`, and the
    region within `reach` of the middle is always covered.
    """
    middle, c = (x + y) / 2, float(np.linalg.norm(x - y)) / 2
    polar = c == 0
    e1 = np.array([1.0, 0.0]) if polar else (x - y) / (2 * c)
    (m1, m2), (e11, e12) = middle.tolist(), e1.tolist()  # plain numbers: quicker than arrays, one at a time
    if polar:
        start, must_reach = -20.0, math.log(reach / narrow)
    else:
        start, must_reach = 0.0, math.acosh(max(1.0, reach / c))

    def value(a: float, b: float) -> float:
        if polar:
            radius = narrow * math.exp(a)
            p, q, area = radius * math.cos(b), radius * math.sin(b), radius * radius
        else:
            p, q = c * math.cosh(a) * math.cos(b), c * math.sinh(a) * math.sin(b)
            area = c * c * (math.sinh(a) ** 2 + math.sin(b) ** 2)
        return area * f([m1 + p * e11 - q * e12, m2 + p * e12 + q * e11])

    def trapezium(n: int) -> float:
        h, turns, total, i = 1 / n, 6 * n, 0.0, 0
        while True:
            a = start + i * h
            row = 2 * math.pi / turns * sum(value(a, 2 * math.pi * j / turns) for j in range(turns))
            total += row * h * (0.5 if i == 0 else 1.0)
            if a > must_reach and (row <= 1e-16 * total or a > must_reach + 80):
                return total
            i += 1

    n = max(4, math.ceil(min(64.0, max(c, 0.0 if polar else reach / 20) / narrow)))
    old = trapezium(n)
    for _ in range(5):
        n *= 2
        new = trapezium(n)
        if abs(new - old) <= 1e-9 * abs(new):  # the error of `new` is about the square of this
            return new
        old = new
    raise ArithmeticError(f"plane quadrature did not settle: {old!r}, {new!r}")


def convolved(k: Kernel, measure: Measure, dimension: int, rel: float = 1e-11) -> Kernel:
    """r(x, y) = int k(x, u) k(u, y) nu(du) by adaptive quadrature; dimension 1 or 2."""
    if dimension not in (1, 2):
        raise ValueError("quadrature is for one or two dimensions")
    density, spread = _density(measure, dimension), _centre_and_spread(measure)
    width_at = functools.cache(lambda *x: _half_width(k, np.array(x)))

    def r(x: Array, y: Array) -> float:
        x = np.atleast_1d(np.asarray(x, dtype=float))
        y = np.atleast_1d(np.asarray(y, dtype=float))

        from_x, to_y = x.tolist(), y.tolist()

        def f(u: list[float]) -> float:
            return float(k(from_x, u)) * float(k(u, to_y)) * density(u)

        width = width_at(*from_x)
        if dimension == 1:
            anchors = [(float(x[0]), width), (float(y[0]), width)]
            if spread is not None:
                anchors.append((float(spread[0][0]), spread[1]))
            return _integrate_line(lambda u: f([u]), anchors, rel)
        narrow, reach = width, width
        if spread is not None:
            narrow = min(width, spread[1])
            reach = float(np.linalg.norm(spread[0] - (x + y) / 2)) + 10 * spread[2]
        return _integrate_plane(f, x, y, narrow, max(reach, narrow))

    return r


def convolved_gaussian_lebesgue(A: Any, B: Any) -> Kernel:
    """int k_A k_B du = (2 pi)^(D/2) (|A||B|/|A+B|)^(1/2) exp(-(x-y)'(A+B)^-1(x-y)/2)."""
    A, B = np.atleast_2d(np.asarray(A, float)), np.atleast_2d(np.asarray(B, float))
    det = np.linalg.det
    front = (2 * math.pi) ** (len(A) / 2) * math.sqrt(det(A) * det(B) / det(A + B))
    return scaled(gaussian(A + B), front)


def _normal_density(x: Array, mean: Array, covariance: Array) -> float:
    """N(x; mean, V) = |2 pi V|^(-1/2) exp(-(x-mean)' V^-1 (x-mean)/2), V the covariance."""
    return gaussian(covariance)(x, mean) / math.sqrt(np.linalg.det(2 * math.pi * covariance))


def convolved_gaussian_measure(A: Any, B: Any, c: Any, Gamma: Any, mass: float) -> Kernel:
    """mass (2 pi)^D (|A||B|)^(1/2) N(x; y, A+B) N(x_AB; c, C_AB + Gamma).

    C_AB = (A^-1 + B^-1)^-1 and x_AB = C_AB (A^-1 x + B^-1 y); here nu = mass N(c, Gamma).
    """
    A, B = np.atleast_2d(np.asarray(A, float)), np.atleast_2d(np.asarray(B, float))
    c, Gamma = np.atleast_1d(np.asarray(c, float)), np.atleast_2d(np.asarray(Gamma, float))
    inv, det = np.linalg.inv, np.linalg.det
    C_AB = inv(inv(A) + inv(B))
    front = mass * (2 * math.pi) ** len(A) * math.sqrt(det(A) * det(B))

    def r(x: Array, y: Array) -> float:
        x_AB = C_AB @ (inv(A) @ x + inv(B) @ y)
        return front * _normal_density(x, y, A + B) * _normal_density(x_AB, c, C_AB + Gamma)

    return r


# --------------------------------------------------------------------------------------
# 4. Inner products of prior covariances
# --------------------------------------------------------------------------------------


def triple(k: Kernel, measure1: Measure, measure2: Measure, rel: float = 1e-10) -> Kernel:
    """<r1(., z), r2(., z')>_H = int int k(z,u) k(u,u') k(u',z') nu1(du) nu2(du'), D = 1."""
    inner, density = convolved(k, measure1, 1, rel / 10), _density(measure2, 1)
    spreads = [s for s in map(_centre_and_spread, (measure1, measure2)) if s is not None]

    def t(z: Array, z2: Array) -> float:
        z = np.atleast_1d(np.asarray(z, dtype=float))
        z2 = np.atleast_1d(np.asarray(z2, dtype=float))
        width, to_z2 = _half_width(k, z), z2.tolist()

        def f(v: float) -> float:
            weight = float(k([v], to_z2)) * density([v])
            return weight * inner(z, [v]) if weight > 0 else 0.0

        anchors = [(float(z[0]), width), (float(z2[0]), width)]
        anchors += [(float(s[0][0]), s[1]) for s in spreads]
        return _integrate_line(f, anchors, rel)

    return t


# --------------------------------------------------------------------------------------
# 5. Empirical and shrinkage embeddings
# --------------------------------------------------------------------------------------


def empirical(k: Kernel, X: Any, points: Any) -> Array:
    """mu_hat(p) = (1/n) sum_i k(p, x_i) at each point p."""
    X, points = _points(X), _points(points)
    return np.array([sum(float(k(p, x)) for x in X) / len(X) for p in points])


def skmse_weights(k: Kernel, X: Any, lam: float) -> Array:
    """beta = (K + n lam I)^-1 mu_hat(x); the estimator is sum_i beta_i k(., x_i)."""
    n = len(_points(X))
    return np.linalg.inv(gram(k, X, X) + n * lam * np.eye(n)) @ empirical(k, X, X)


def skmse_weights_operator(k: Kernel, X: Any, lam: float) -> Array:
    """Values at X (not weights) of Sigma_hat (Sigma_hat + lam)^-1 mu_hat, in features f_i in R^n.

    f_i is row i of the symmetric square root of the gram matrix, so f_i . f_j = k(x_i, x_j);
    Sigma_hat = (1/n) sum_i f_i f_i', mu_hat = (1/n) sum_i f_i and h(x_i) = f_i . h.
    """
    eigenvalues, vectors = np.linalg.eigh(gram(k, X, X))
    features = vectors @ np.diag(np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
    n = len(features)
    mean, operator = np.zeros(n), np.zeros((n, n))
    for f in features:
        mean += f / n
        operator += np.outer(f, f) / n
    element = operator @ np.linalg.inv(operator + lam * np.eye(n)) @ mean
    return np.array([f @ element for f in features])


def skmse_loo(k: Kernel, X: Any, lam: float) -> float:
    """(1/n) sum_i |mu_check^(-i) - k(., x_i)|_H^2, refitted with lam on the n-1 other points."""
    X = _points(X)
    total = 0.0
    for i in range(len(X)):
        others = np.array([X[j] for j in range(len(X)) if j != i])
        beta = skmse_weights(k, others, lam)
        cross = np.array([float(k(X[i], x)) for x in others])
        total += beta @ gram(k, others, others) @ beta - 2 * beta @ cross + float(k(X[i], X[i]))
    return total / len(X)


# --------------------------------------------------------------------------------------
# 6. Posterior
# --------------------------------------------------------------------------------------


def posterior(
    R_zz: Array,
    R_sz: Array,
    R_ss: Array,
    noise_cov: Array,
    mu_hat_z: Array,
    prior_z: Array | float = 0.0,
    prior_s: Array | float = 0.0,
) -> tuple[Array, Array]:
    """Mean and covariance of mu(s) given mu_hat(z), from the joint Gaussian of the two.

    Joint covariance [[R_ss, R_sz], [R_sz', R_zz + noise_cov]]; noise_cov is that of mu_hat(z)
    given mu, e.g. (tau^2/n) I, already divided by n.
    """
    s, m = R_sz.shape
    joint = np.zeros((s + m, s + m))
    joint[:s, :s], joint[:s, s:], joint[s:, :s] = R_ss, R_sz, R_sz.T
    joint[s:, s:] = R_zz + noise_cov
    mean = np.concatenate([np.zeros(s) + prior_s, np.zeros(m) + prior_z])
    gain = joint[:s, s:] @ np.linalg.inv(joint[s:, s:])
    return mean[:s] + gain @ (mu_hat_z - mean[s:]), joint[:s, :s] - gain @ joint[s:, :s]


# --------------------------------------------------------------------------------------
# 7. Noise plug-ins
# --------------------------------------------------------------------------------------


def noise_full(k: Kernel, X: Any, Z: Any) -> Array:
    """Cov[phi_z(X)] = sum_i (phi_i - mean)(phi_i - mean)' / (n-1); divide by n for mu_hat."""
    K = gram(k, X, Z)
    n, m = K.shape
    mean = [sum(K[i, a] for i in range(n)) / n for a in range(m)]
    out = np.zeros((m, m))
    for a in range(m):
        for b in range(m):
            out[a, b] = sum((K[i, a] - mean[a]) * (K[i, b] - mean[b]) for i in range(n)) / (n - 1)
    return out


def noise_diagonal(k: Kernel, X: Any, Z: Any) -> Array:
    """Var[k(X, z_l)] for each landmark, shape (m,), dividing by n-1."""
    return np.diag(noise_full(k, X, Z)).copy()


# --------------------------------------------------------------------------------------
# 8. The mn-dimensional normal density
# --------------------------------------------------------------------------------------


def full_covariance(R: Array, n: int, tau2: float) -> Array:
    """C = 1 1' (x) R + tau2 I, (mn, mn), entry by entry: block (i, j) is R + [i=j] tau2 I_m."""
    m = len(R)
    C = np.zeros((m * n, m * n))
    for i in range(n):
        for j in range(n):
            for a in range(m):
                for b in range(m):
                    C[i * m + a, j * m + b] = R[a, b] + (tau2 if (i == j and a == b) else 0.0)
    return C


def log_density_full(K_zx: Array, R: Array, tau2: float) -> float:
    """log N(vec(K_zx); 0, 1 1' (x) R + tau2 I_mn), vec column-major, by the mn x mn matrix."""
    m, n = K_zx.shape
    C = full_covariance(R, n, tau2)
    v = np.array([K_zx[a, i] for i in range(n) for a in range(m)])
    sign, logdet = np.linalg.slogdet(C)
    if sign <= 0:
        raise ArithmeticError("covariance is not positive definite")
    return float(-0.5 * (logdet + v @ np.linalg.solve(C, v) + m * n * math.log(2 * math.pi)))


# --------------------------------------------------------------------------------------
# 9. Volume element of the feature map
# --------------------------------------------------------------------------------------


def _mp_vector(x: Any) -> Array:
    """x as an object array of mpmath numbers (exactly the doubles given)."""
    return np.array([mp.mpf(v) for v in np.atleast_1d(x)], dtype=object)


def _supports_mp(k: Kernel, x: Array) -> bool:
    """Whether k really computes in mpmath numbers (math.exp would round them silently)."""
    try:
        value = k(_mp_vector(x), _mp_vector(x) + mp.mpf(1) / 3)
    except Exception:
        return False
    return isinstance(value, mpmath.mpf)


def _derivative_richardson(k: Kernel, x: Array, z: Array, axis: int) -> float:
    """d k(x, z) / d x_axis by central differences, step halved 7 times, Richardson's table."""
    width, distance = _half_width(k, z), float(np.linalg.norm(x - z))
    step = 0.5 * width
    if distance > 0:
        step = 0.5 * min(width, distance, width * width / distance)
    unit = np.zeros(len(x))
    unit[axis] = 1.0
    best, smallest, old = math.nan, math.inf, []
    for level in range(8):
        h = step / 2**level
        new = [(float(k(x + h * unit, z)) - float(k(x - h * unit, z))) / (2 * h)]
        for order, previous in enumerate(old, start=1):
            new.append(new[-1] + (new[-1] - previous) / (4**order - 1))
            error = max(abs(new[-1] - new[-2]), abs(new[-1] - previous))
            if error < smallest:
                best, smallest = new[-1], error
        old = new
    return best


def _jacobian_mp(k: Kernel, x: Any, Z: Any) -> mpmath.matrix:
    """J[l, d] = (k(x + h e_d, z_l) - k(x - h e_d, z_l)) / 2h with h = 1e-30 at ambient digits."""
    x, Z = _mp_vector(x), [_mp_vector(z) for z in _points(Z)]
    J = mp.matrix(len(Z), len(x))
    h = mp.mpf(10) ** -30
    for i, z in enumerate(Z):
        for d in range(len(x)):
            up, down = x.copy(), x.copy()
            up[d], down[d] = x[d] + h, x[d] - h
            J[i, d] = (k(up, z) - k(down, z)) / (2 * h)
    return J


def jacobian_fd(k: Kernel, x: Any, Z: Any) -> Array:
    """J[l, d] = d k(x, z_l) / d x_d, shape (m, D), by central differences.

    At 120 digits with step 1e-30 where k takes mpmath numbers, else Richardson in doubles.
    """
    x, Z = np.atleast_1d(np.asarray(x, dtype=float)), _points(Z)
    with mp.workdps(120):
        if _supports_mp(k, x):
            return np.array(_jacobian_mp(k, x, Z).tolist(), dtype=float)
    return np.array([[_derivative_richardson(k, x, z, d) for d in range(len(x))] for z in Z])


def _log_gram_determinant(J: mpmath.matrix) -> Any:
    """log det J'J by Cauchy-Binet: the sum of squared D x D minors has no cancellation."""
    m, dimension = J.rows, J.cols
    total = mp.mpf(0)
    for rows in combinations(range(m), dimension):
        minor = mp.matrix(dimension, dimension)
        for i, row in enumerate(rows):
            for d in range(dimension):
                minor[i, d] = J[row, d]
        total += _determinant(minor) ** 2
    return mp.log(total) if total > 0 else mp.mpf("-inf")


def _determinant(M: mpmath.matrix) -> Any:
    """det M by expansion along the first row (exact zero stays zero)."""
    n = M.rows
    if n == 1:
        return M[0, 0]
    total = mp.mpf(0)
    for j in range(n):
        minor = mp.matrix(n - 1, n - 1)
        for a in range(1, n):
            for b in range(n - 1):
                minor[a - 1, b] = M[a, b if b < j else b + 1]
        total += (-1) ** j * M[0, j] * _determinant(minor)
    return total


def log_volume_fd(k: Kernel, x: Any, Z: Any) -> float:
    """log gamma(x) = 1/2 log det J'J with the finite-difference Jacobian of jacobian_fd."""
    x, Z = np.atleast_1d(np.asarray(x, dtype=float)), _points(Z)
    with mp.workdps(120):
        if _supports_mp(k, x):
            return float(_log_gram_determinant(_jacobian_mp(k, x, Z)) / 2)
    J = jacobian_fd(k, x, Z)
    return float(0.5 * np.linalg.slogdet(J.T @ J)[1])


def _log_volume_gaussian(x: Any, Z: Any, lengthscales: Sequence[Any]) -> Any:
    """1/2 log det J'J, J[l, d] = -k(x, z_l) (x_d - z_ld) / l_d^2, at the ambient precision."""
    x, Z = _mp_vector(x), [_mp_vector(z) for z in _points(Z)]
    J = mp.matrix(len(Z), len(x))
    for i, z in enumerate(Z):
        weight = mp.exp(-sum(((x[d] - z[d]) / lengthscales[d]) ** 2 for d in range(len(x))) / 2)
        for d in range(len(x)):
            J[i, d] = -weight * (x[d] - z[d]) / lengthscales[d] ** 2
    return _log_gram_determinant(J) / 2


def _lengthscales(lengthscale: Any, dimension: int) -> Array:
    """One lengthscale per dimension, as floats."""
    return np.broadcast_to(np.asarray(lengthscale, dtype=float), (dimension,))


def log_volume_gaussian_mp(x: Any, Z: Any, lengthscale: Any) -> float:
    """log gamma(x) for k = exp(-sum_d (x_d-y_d)^2 / (2 l_d^2)), 80 digits, any distance.

    lengthscale is one number or one per dimension. -inf only where gamma is exactly zero.
    """
    x = np.atleast_1d(x)
    with mp.workdps(80):
        scales = [mp.mpf(float(s)) for s in _lengthscales(lengthscale, len(x))]
        return float(_log_volume_gaussian(x, Z, scales))


def log_volume_gaussian_mp_grad(x: Any, Z: Any, lengthscale: Any) -> float | Array:
    """d log gamma(x) / d log lengthscale; one number, or one per dimension if given so."""
    x = np.atleast_1d(x)
    given = np.asarray(lengthscale, dtype=float)
    logs_of = [0] * len(x) if given.ndim == 0 else list(range(len(x)))
    with mp.workdps(80):
        logs = [mp.log(mp.mpf(float(s))) for s in np.atleast_1d(given)]
        out = []
        for i in range(len(logs)):

            def along(t: Any, i: int = i) -> Any:
                moved = [t if j == i else v for j, v in enumerate(logs)]
                return _log_volume_gaussian(x, Z, [mp.exp(moved[j]) for j in logs_of])

            out.append(float(mp.diff(along, logs[i])))
    return out[0] if given.ndim == 0 else np.array(out)


def volume_printed(x: Any, Z: Any, lengthscale: float) -> float:
    """The paper's printed, wrong (det[sum_l k^2 (x^(i) - z_l^(j))^2 / l^4]_ij)^(1/2).

    The printed matrix is not symmetric; nan where its determinant is negative.
    """
    x, Z = np.atleast_1d(np.asarray(x, dtype=float)), _points(Z)
    k = gaussian(lengthscale**2 * np.eye(len(x)))
    M = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            M[i, j] = sum(k(x, z) ** 2 * (x[i] - z[j]) ** 2 / lengthscale**4 for z in Z)
    determinant = float(np.linalg.det(M))
    return math.sqrt(determinant) if determinant >= 0 else math.nan


# --------------------------------------------------------------------------------------
# 10. Marginal pseudolikelihood
# --------------------------------------------------------------------------------------


def log_pseudolikelihood(k: Kernel, r: Kernel, X: Any, Z: Any, tau2: float) -> float:
    """log N(vec(K_zx); 0, 1 1' (x) R + tau2 I) + sum_i log gamma(x_i), R = r(z, z)."""
    volumes = sum(log_volume_fd(k, x, Z) for x in _points(X))
    return log_density_full(gram(k, Z, X), gram(r, Z, Z), tau2) + volumes


def warped(k: Kernel, covariance: Any) -> Kernel:
    """k(Wx, Wy) with W the inverse of the lower Cholesky factor: an isotropic k made ARD or full."""
    W = np.linalg.inv(np.linalg.cholesky(np.asarray(covariance, dtype=float)))

    def turned(x: Array, y: Array) -> Any:
        def move(v: Array) -> Array:
            rows = [sum(float(w) * t for w, t in zip(row, v, strict=True)) for row in W]
            return np.array(rows, dtype=v.dtype)

        return k(move(x), move(y))

    return turned


def leave_one_out(
    k: Kernel, log_integral: float, X: Any, background: Callable[[Array], float], epsilon: float = 0.02
) -> float:
    """Sum of log{(1-eps) mean over rows that are not x_i of k(x_i, x_j)/integral + eps b(x_i)}, by loops.

    k is the kernel at half its width, and log_integral that of k(x, y) over y.
    """
    X, total = _points(X), 0.0
    for x in X:
        others = [k(x, y) for y in X if not np.array_equal(x, y)]
        inside = sum(others) / len(others) / math.exp(log_integral)
        total += math.log((1.0 - epsilon) * inside + epsilon * background(x))
    return total


def cauchy_density(x: Array, widths: Any) -> float:
    """The multivariate Cauchy density about 0: a normal divided by the root of an independent Gamma."""
    D = len(x)
    constant = math.gamma((D + 1) / 2) / math.pi ** ((D + 1) / 2)
    squared = sum((x_d / w) ** 2 for x_d, w in zip(x, widths, strict=True))
    return constant / math.prod(widths) / (1.0 + squared) ** ((D + 1) / 2)


# --------------------------------------------------------------------------------------
# 11. The paper's Stan program
# --------------------------------------------------------------------------------------


def stan_quadratic_as_printed(K: Array, R: Array, n: int, m: int, sigma2: float) -> tuple[float, float]:
    """(mvp, logdet) of the listing's kron_multi_normal, line by line; K is n x m.

    The eigenvalue 0 of the n x n matrix of ones is (n-1)-fold, so its eigenvectors, and with them
    the printed mvp, depend on the eigenvalue routine; the repaired mvp does not.
    """
    e1 = np.zeros(n)
    e1[0] = n  # e1[1] <- n
    Q1 = np.linalg.eigh(np.ones((n, n)))[1]  # eigenvectors_sym: ascending eigenvalues
    e2, Q2 = np.linalg.eigh(R)
    e = np.zeros(m * n)
    for j in range(1, m + 1):
        for i in range(1, n + 1):
            e[(j - 1) * n + i - 1] = 1 / (e1[i - 1] * e2[j - 1] + sigma2)
    mv2 = ((Q2.T @ K.T) @ Q1).flatten(order="F")  # to_vector is column-major
    mvp = float(np.sum(mv2 * e * mv2))
    logdet = float(np.sum(np.log(e2 * n + sigma2)) + m * (n - 1) * math.log(sigma2))
    return mvp, logdet


def stan_quadratic_repaired(K: Array, R: Array, n: int, m: int, sigma2: float) -> tuple[float, float]:
    """The same with n put last, as the eigenvectors are sorted, and e laid out as to_vector is."""
    e1 = np.zeros(n)
    e1[n - 1] = n
    Q1 = np.linalg.eigh(np.ones((n, n)))[1]
    e2, Q2 = np.linalg.eigh(R)
    e = np.zeros(m * n)
    for j in range(1, m + 1):
        for i in range(1, n + 1):
            e[(i - 1) * m + j - 1] = 1 / (e1[i - 1] * e2[j - 1] + sigma2)
    mv2 = ((Q2.T @ K.T) @ Q1).flatten(order="F")
    mvp = float(np.sum(mv2 * e * mv2))
    logdet = float(np.sum(np.log(e2 * n + sigma2)) + m * (n - 1) * math.log(sigma2))
    return mvp, logdet


# --------------------------------------------------------------------------------------
# 12, 13. Gaussian mixtures under the Gaussian kernel
# --------------------------------------------------------------------------------------


def _expected_gaussian(difference: Array, kernel_covariance: Array, spread: Array) -> float:
    """E exp(-V' S^-1 V / 2), V ~ N(difference, spread): |S|^(1/2) |S+spread|^(-1/2) exp(...)."""
    S = kernel_covariance
    total = S + spread
    front = math.sqrt(np.linalg.det(S) / np.linalg.det(total))
    return front * gaussian(total)(difference, np.zeros(len(difference)))


def true_embedding_gaussian_mixture(
    points: Any, kernel_covariance: Any, weights: Any, means: Any, covariances: Any
) -> Array:
    """mu(s) = sum_c w_c |S|^(1/2) |S+V_c|^(-1/2) exp(-(s-m_c)'(S+V_c)^-1(s-m_c)/2)."""
    points, means = _points(points), _points(means)
    S = np.atleast_2d(np.asarray(kernel_covariance, float))
    V = [np.atleast_2d(np.asarray(v, float)) for v in covariances]
    return np.array(
        [
            sum(w * _expected_gaussian(s - mc, S, v) for w, mc, v in zip(weights, means, V, strict=True))
            for s in points
        ]
    )


def mmd2_gaussian_mixtures(
    kernel_covariance: Any,
    weights_p: Any,
    means_p: Any,
    covariances_p: Any,
    weights_q: Any,
    means_q: Any,
    covariances_q: Any,
) -> float:
    """|mu_P - mu_Q|_H^2 = E k(X,X') - 2 E k(X,Y) + E k(Y,Y'), two Gaussian mixtures."""
    S = np.atleast_2d(np.asarray(kernel_covariance, float))
    signed = []
    for sign, weights, means, covariances in (
        (1.0, weights_p, means_p, covariances_p),
        (-1.0, weights_q, means_q, covariances_q),
    ):
        for w, mean, v in zip(weights, _points(means), covariances, strict=True):
            signed.append((sign * w, mean, np.atleast_2d(np.asarray(v, float))))
    return math.fsum(
        w1 * w2 * _expected_gaussian(m1 - m2, S, v1 + v2) for w1, m1, v1 in signed for w2, m2, v2 in signed
    )


# --------------------------------------------------------------------------------------
# 14, 15. Median distance; norm of the minimum-norm interpolant
# --------------------------------------------------------------------------------------


def median_pairwise(X: Any) -> float:
    """median of |x_i - x_j| over i < j."""
    X = _points(X)
    distances = [
        math.sqrt(sum((a - b) ** 2 for a, b in zip(X[i], X[j], strict=True)))
        for i in range(len(X))
        for j in range(i + 1, len(X))
    ]
    return float(np.median(distances))


def rkhs_norm_on_grid(
    k: Kernel, f_values: Any, grid: Any, cut: float | None = None, digits: int = 100
) -> float:
    """f' K^-1 f, the squared H-norm of the least-norm function through (grid, f_values).

    With cut=None K is formed and solved at many digits (k must take mpmath numbers), so f_values
    must be as exact as K is ill-conditioned: pass mpmath numbers. With a cut, eigenvalues of the
    double-precision K below cut * largest are left out, which bounds the norm from below.
    """
    grid = _points(grid)
    if cut is not None:
        values = np.asarray(f_values, dtype=float)
        eigenvalues, vectors = np.linalg.eigh(gram(k, grid, grid))
        kept = eigenvalues > cut * eigenvalues[-1]
        return float(np.sum((vectors[:, kept].T @ values) ** 2 / eigenvalues[kept]))
    with mp.workdps(digits):
        if not _supports_mp(k, grid[0]):
            raise TypeError("k does not compute in mpmath numbers; give a cut")
        points = [_mp_vector(p) for p in grid]
        K = mp.matrix(len(points), len(points))
        for i, p in enumerate(points):
            for j, q in enumerate(points):
                K[i, j] = k(p, q)
        f = mp.matrix([mp.mpf(v) for v in f_values])
        return float((f.T * mp.lu_solve(K, f))[0])


# --------------------------------------------------------------------------------------
# Self test
# --------------------------------------------------------------------------------------


def _relative(a: Any, b: Any) -> float:
    """max |a - b| / max |b|."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


TOPICS = (
    "one dimension",
    "two dimensions",
    "triple integral",
    "shrinkage",
    "posterior",
    "noise",
    "full density",
    "Stan",
    "volumes",
    "pseudolikelihood",
    "mixtures",
    "medians and norms",
)


@functools.cache
def self_checks(thorough: bool = False) -> dict[str, list[tuple[str, float, float]]]:
    """The pieces checked against each other: by topic, (what, discrepancy, tolerance)."""
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[str, float, float]]] = {}
    topic = TOPICS[0]

    def check(name: str, discrepancy: float, tolerance: float) -> None:
        found.setdefault(topic, []).append((name, float(discrepancy), tolerance))

    def worst(pairs: Any) -> float:
        return max(_relative(a, b) for a, b in pairs)

    # 3. one dimension: quadrature against closed forms
    ends = [(0.3, 0.3), (0.3, -1.1), (0.0, 4.0), (-20.0, 21.0), (0.0, 1e-7)]
    one = [(np.array([a]), np.array([b])) for a, b in ends]
    for s2 in (1.0, 4.0, 1e-12, 1e12):
        r, closed = convolved(gaussian(s2), "lebesgue", 1), convolved_gaussian_lebesgue(s2, s2)
        s = math.sqrt(s2)
        check(
            f"r Gaussian, Lebesgue, D=1, l={s:g}",
            worst((r(s * x, s * y), closed(s * x, s * y)) for x, y in one),
            1e-9,
        )
    for centre, variance, mass in ((0.4, 2.0, 3.0), (5.0, 0.01, 1.0), (-3.0, 1e4, 1.0)):
        measure = ([centre], [[variance]], mass)
        r = convolved(gaussian(1.0), measure, 1)
        closed = convolved_gaussian_measure(1.0, 1.0, centre, variance, mass)
        check(
            f"r Gaussian, {mass:g} N({centre:g}, {variance:g}), D=1",
            worst((r(x, y), closed(x, y)) for x, y in one),
            1e-9,
        )
    wide = [*one, (np.array([0.0]), np.array([10.0]))]
    for length in (0.1, 1.0):
        r = convolved(matern(length, 0.5), "lebesgue", 1)

        def exact(x: Array, y: Array, length: float = length) -> float:
            d = abs(x[0] - y[0])
            return (length + d) * math.exp(-d / length)

        check(
            f"r Matern 1/2, Lebesgue, D=1, l={length}, down to exp(-410)",
            worst((r(x, y), exact(x, y)) for x, y in wide),
            1e-9,
        )

    def cauchy(a: float, b: float) -> float:  # int 1/(1+u^2) 1/(1+(u-d)^2) du = 2 pi / (4 + d^2)
        return 2 * math.pi / (4 + (a - b) ** 2)

    r = convolved(rational_quadratic(math.sqrt(0.5), 1.0), "lebesgue", 1)
    check(
        "r rational quadratic alpha=1 (Cauchy), Lebesgue, D=1",
        worst((r(x, y), cauchy(x[0], y[0])) for x, y in wide),
        1e-9,
    )

    def fourier(nu: float, length: float, d: float) -> float:
        # k has spectrum S = c (2 nu/l^2 + w^2)^-(nu+1/2), so r = (1/2 pi) int S^2 cos(w d) dw
        with mp.workdps(30):
            a2, p = mp.mpf(2 * nu) / length**2, mp.mpf(nu) + mp.mpf(1) / 2
            c = 2 * mp.sqrt(mp.pi) * mp.gamma(p) / mp.gamma(nu) * a2**nu
            # int (a^2+w^2)^(-2p) cos(wd) dw in Bessel K of order q = 2p - 1/2
            q, a, d = 2 * p - mp.mpf(1) / 2, mp.sqrt(a2), mp.mpf(d)
            if d == 0:
                whole = mp.sqrt(mp.pi) * mp.gamma(q) / mp.gamma(2 * p) * a ** (-2 * q)
            else:
                whole = 2 * mp.sqrt(mp.pi) / mp.gamma(2 * p) * (d / (2 * a)) ** q
                whole *= mp.besselk(q, a * d)
            return float(c * c * whole / (2 * mp.pi))

    for nu in (0.5, 1.5, 2.5):
        r = convolved(matern(0.4, nu), "lebesgue", 1)
        check(
            f"r Matern {nu}, Lebesgue, D=1, against its spectrum",
            worst((r(x, y), fourier(nu, 0.4, abs(x[0] - y[0]))) for x, y in wide),
            1e-9,
        )
    scales, weights = (0.05, 1.0, 30.0), (0.5, 1.0, 0.25)
    r = convolved(multiscale(scales, weights), ([1.0], [[2.0]], 1.0), 1)
    pair_terms = [
        (w1 * w2, convolved_gaussian_measure(s1**2, s2**2, 1.0, 2.0, 1.0))
        for s1, w1 in zip(scales, weights, strict=True)
        for s2, w2 in zip(scales, weights, strict=True)
    ]
    check(
        "r multiscale, N(1, 2), D=1, term by term with A != B",
        worst((r(x, y), sum(w * t(x, y) for w, t in pair_terms)) for x, y in wide),
        1e-9,
    )
    with mp.workdps(30):  # mpmath.quad stops at an absolute error, so exp(-100) is taken out
        slow = (
            mp.exp(-100)
            / mp.sqrt(6 * mp.pi)
            * mp.quad(
                lambda u: mp.exp(100 - abs(u) / 0.1 - abs(u - 10) / 0.1 - (u - 4) ** 2 / 6),
                [-2, -1, -0.1, 0, 0.1, 1, 4, 9, 9.9, 10, 10.1, 11, 14],
            )
        )
    r = convolved(matern(0.1, 0.5), ([4.0], [[3.0]], 1.0), 1)
    check("r Matern 1/2, N(4, 3), D=1, against mpmath.quad", _relative(r(*wide[-1]), slow), 1e-9)

    # 3. two dimensions
    topic = "two dimensions"
    two = [(np.array([0.2, -0.1]), np.array(y)) for y in ((0.2, -0.1), (1.0, 0.5), (-4.0, 3.0))]
    A = np.array([[0.8, 0.3], [0.3, 0.5]])
    G, centre = np.array([[1.5, -0.4], [-0.4, 0.7]]), np.array([0.5, 1.0])
    r, closed = convolved(gaussian(A), "lebesgue", 2), convolved_gaussian_lebesgue(A, A)
    check("r Gaussian, Lebesgue, D=2", worst((r(x, y), closed(x, y)) for x, y in two), 1e-9)
    r = convolved(gaussian(A), (centre, G, 2.0), 2)
    closed = convolved_gaussian_measure(A, A, centre, G, 2.0)
    check("r Gaussian, 2 N(c, Gamma), D=2", worst((r(x, y), closed(x, y)) for x, y in two), 1e-9)

    def fourier2(nu: float, length: float, d: float) -> float:
        # the same in the plane: S = c (2 nu/l^2 + w^2)^-(nu+1), r = (1/2 pi) int S^2 J0(wd) w dw
        with mp.workdps(30):
            a, q, d = mp.sqrt(mp.mpf(2 * nu)) / length, mp.mpf(2 * nu + 1), mp.mpf(d)
            c = 4 * mp.pi * nu * a ** (2 * nu)
            if d == 0:
                return float(c * c * a ** (-2 * q) / (2 * q) / (2 * mp.pi))
            hankel = (d / (2 * a)) ** q * mp.besselk(q, a * d) / mp.gamma(q + 1)
            return float(c * c * hankel / (2 * mp.pi))

    for nu, length in ((0.5, 0.7), (1.5, 0.7), (2.5, 0.7), (0.5, 0.05)):
        r = convolved(matern(length, nu), "lebesgue", 2)
        check(
            f"r Matern {nu}, l={length}, Lebesgue, D=2, against its spectrum",
            worst((r(x, y), fourier2(nu, length, np.linalg.norm(x - y))) for x, y in two),
            1e-9,
        )
    k2 = matern(0.7, 0.5)
    x, y = two[1]
    r = convolved(k2, (centre, G, 1.0), 2)
    density = _density((centre, G, 1.0), 2)
    steps = np.linspace(-9, 9, 181)
    midpoints = (steps[1:] + steps[:-1]) / 2
    riemann = 0.0
    for a in midpoints:
        for b in midpoints:
            u = np.array([a, b])
            riemann += k2(x, u) * k2(u, y) * density(u) * 0.1**2
    check("r Matern 1/2, N(c, Gamma), D=2, Riemann sum", _relative(r(x, y), riemann), 3e-3)

    # two different covariances, and erratum 4: the exponent is completed at m = S Sigma^-1 (x+y)
    A, B = np.array([[0.7]]), np.array([[2.3]])
    ka, kb = gaussian(A), gaussian(B)
    closed = convolved_gaussian_measure(A, B, 0.5, 1.7, 2.0)
    closed0 = convolved_gaussian_lebesgue(A, B)
    dens = _density((0.5, 1.7, 2.0), 1)
    gaps = []
    for x, y in one[:3]:
        for target, weight in ((closed, dens), (closed0, lambda u: 1.0)):

            def f(v: float, weight: Any = weight, x: Array = x, y: Array = y) -> float:
                u = np.array([v])
                return ka(x, u) * kb(u, y) * weight(u)

            by_quad = _integrate_line(f, [(x[0], 1.0), (y[0], 1.0)])
            gaps.append(_relative(by_quad, target(x, y)))
    check("r Gaussian, A != B, both measures, D=1", max(gaps), 1e-9)

    Sigma, eta = np.array([[1.2, 0.3], [0.3, 0.6]]), 1.3
    inv = np.linalg.inv
    S = inv(2 * inv(Sigma) + np.eye(2) / eta**2)
    x, y = rng.normal(size=2), rng.normal(size=2)

    def exponent(u: Array) -> float:
        quad = (x - u) @ inv(Sigma) @ (x - u) + (y - u) @ inv(Sigma) @ (y - u)
        return float(quad + u @ u / eta**2)

    def completed(u: Array, m: Array) -> float:
        middle = (x + y) / 2
        rest = 0.5 * (x - y) @ inv(Sigma) @ (x - y)
        rest += middle @ inv(Sigma / 2 + eta**2 * np.eye(2)) @ middle
        return float(rest + (u - m) @ inv(S) @ (u - m))

    right, wrong = S @ inv(Sigma) @ (x + y), inv(S) @ inv(Sigma) @ (x + y)
    us = rng.normal(size=(5, 2))
    check(
        "erratum 4: A completed at m = S Sigma^-1 (x+y)",
        max(abs(exponent(u) - completed(u, right)) for u in us),
        1e-10,
    )
    off = max(abs(exponent(u) - completed(u, wrong)) for u in us)
    check("erratum 4 matters", 1 / off, 1.0)
    mass = 2 * math.pi * eta**2
    closed = convolved_gaussian_measure(Sigma, Sigma, np.zeros(2), eta**2 * np.eye(2), mass)
    paper = 2 * math.pi * math.sqrt(np.linalg.det(S)) * math.exp(-0.5 * completed(right, right))
    check("paper's r under exp(-|u|^2/2 eta^2) du", _relative(closed(x, y), paper), 1e-12)

    # 4. triple integral: SE, Lebesgue^2 has the closed form r_{A, 2A} * front
    topic = "triple integral"
    t = triple(gaussian(0.5), "lebesgue", "lebesgue")
    front = math.sqrt(math.pi * 0.5)
    closed = scaled(convolved_gaussian_lebesgue(1.0, 0.5), front)
    x, y = np.array([0.3]), np.array([1.7])
    check("triple Gaussian, Lebesgue, Lebesgue", _relative(t(x, y), closed(x, y)), 1e-8)
    if thorough:  # half a minute
        z, z2, nu1, nu2 = x[0], y[0], (0.2, 0.9, 1.0), (-0.5, 2.0, 3.0)
        H = np.array([[4 + 1 / nu1[1], -2.0], [-2.0, 4 + 1 / nu2[1]]])  # 1/l^2 = 2
        lin = np.array([2 * z + nu1[0] / nu1[1], 2 * z2 + nu2[0] / nu2[1]])
        const = 2 * z * z + 2 * z2 * z2 + nu1[0] ** 2 / nu1[1] + nu2[0] ** 2 / nu2[1]
        value = nu1[2] * nu2[2] / math.sqrt(nu1[1] * nu2[1] * np.linalg.det(H))
        value *= math.exp(-0.5 * (const - lin @ inv(H) @ lin))
        t = triple(gaussian(0.5), nu1, nu2)
        check("triple Gaussian, two Gaussian measures", _relative(t(x, y), value), 1e-8)
        t = triple(matern(0.1, 0.5), "lebesgue", "lebesgue")
        x, y = np.array([0.0]), np.array([8.0])
        # exp(-|x|/l) convolved thrice: (3 l^2 + 3 l d + d^2) exp(-d/l) / 2
        value = (3 * 0.01 + 3 * 0.1 * 8 + 64) * math.exp(-80) / 2
        check(f"triple Matern 1/2, l=0.1, |z-z'|=8 ({value:.1e})", _relative(t(x, y), value), 1e-8)

    # 5. S-KMSE two ways, and by the posterior formula with k for r
    topic = "shrinkage"
    X, lam = rng.normal(size=(7, 2)), 0.03
    k = sum_of(gaussian(0.9 * np.eye(2)), scaled(matern(1.3, 1.5), 0.5))
    K = gram(k, X, X)
    by_weights = K @ skmse_weights(k, X, lam)
    check(
        "S-KMSE: weights against operator",
        _relative(by_weights, skmse_weights_operator(k, X, lam)),
        1e-11,
    )
    tau2 = lam * len(X) ** 2
    mean, _ = posterior(K, K, K, tau2 / len(X) * np.eye(7), empirical(k, X, X))
    check("S-KMSE = posterior with k for r, lam = tau2/n^2", _relative(mean, by_weights), 1e-11)
    loo = 0.0
    for i in range(7):
        keep = [j for j in range(7) if j != i]
        values = skmse_weights_operator(k, X[keep], lam)
        beta = np.linalg.solve(K[np.ix_(keep, keep)], values)
        loo += (values @ beta - 2 * beta @ K[keep, i] + K[i, i]) / 7
    check("S-KMSE leave-one-out, through the operator", _relative(skmse_loo(k, X, lam), loo), 1e-9)
    limit = 0.0
    for i in range(7):
        keep = [j for j in range(7) if j != i]
        limit += (K[np.ix_(keep, keep)].mean() - 2 * K[keep, i].mean() + K[i, i]) / 7
    check("S-KMSE leave-one-out, lam -> 0", _relative(skmse_loo(k, X, 1e-12), limit), 1e-8)

    # 6. posterior: joint conditioning against Bayes' rule in information form
    topic = "posterior"
    z, s = rng.normal(size=(4, 1)), rng.normal(size=(3, 1))
    r = scaled(matern(0.8, 2.5), 1.5)
    noise = np.diag(rng.uniform(0.1, 0.3, 4))
    data, prior_z, prior_s = rng.normal(size=4), rng.normal(size=4), rng.normal(size=3)
    mean, cov = posterior(gram(r, z, z), gram(r, s, z), gram(r, s, s), noise, data, prior_z, prior_s)
    both = np.concatenate([s, z])
    observe = np.hstack([np.zeros((4, 3)), np.eye(4)])
    cov2 = inv(inv(gram(r, both, both)) + observe.T @ inv(noise) @ observe)
    prior = np.concatenate([prior_s, prior_z])
    mean2 = prior + cov2 @ observe.T @ inv(noise) @ (data - prior_z)
    check("posterior mean, information form", _relative(mean, mean2[:3]), 1e-10)
    check("posterior covariance, information form", _relative(cov, cov2[:3, :3]), 1e-10)

    # 7. noise
    topic = "noise"
    Z = rng.normal(size=(4, 2))
    check("noise, full", _relative(noise_full(k, X, Z), np.cov(gram(k, X, Z), rowvar=False)), 1e-12)
    check(
        "noise, diagonal",
        _relative(noise_diagonal(k, X, Z), np.var(gram(k, X, Z), axis=0, ddof=1)),
        1e-12,
    )

    # 8. full density, model.md's closed form, erratum 3
    topic = "full density"
    n, m, tau2 = 6, 4, 0.07
    X, Z = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    k, r = gaussian(0.49), convolved_gaussian_lebesgue(0.49, 0.49)
    K, R = gram(k, X, Z), gram(r, Z, Z)
    C = full_covariance(R, n, tau2)
    by_kron = np.kron(np.ones((n, n)), R) + tau2 * np.eye(m * n)
    check("C = 11' (x) R + tau2 I", _relative(C, by_kron), 0)
    eigenvalues = np.linalg.eigvalsh(C)
    count = int(np.sum(np.abs(eigenvalues - tau2) < 1e-12))
    check("erratum 3: multiplicity m(n-1)", abs(count - m * (n - 1)), 0)
    mu = K.mean(axis=0)
    short = R + tau2 / n * np.eye(m)
    closed_form = -0.5 * (
        np.linalg.slogdet(short)[1]
        + mu @ inv(short) @ mu
        + (np.sum(K**2) - n * mu @ mu) / tau2
        + m * math.log(n)
        + m * (n - 1) * math.log(tau2)
        + m * n * math.log(2 * math.pi)
    )
    full = log_density_full(K.T, R, tau2)
    check("full density against model.md's closed form", abs(full - closed_form), 1e-9)

    # 11. Stan
    topic = "Stan"
    v = K.flatten()  # row-major n x m = column-major m x n
    quadratic, logdet = float(v @ np.linalg.solve(C, v)), float(np.linalg.slogdet(C)[1])
    printed = stan_quadratic_as_printed(K, R, n, m, tau2)
    repaired = stan_quadratic_repaired(K, R, n, m, tau2)
    check("Stan repaired, quadratic form", _relative(repaired[0], quadratic), 1e-11)
    check("Stan repaired, log determinant", _relative(repaired[1], logdet), 1e-11)
    check("Stan printed, log determinant", _relative(printed[1], logdet), 1e-11)
    check("erratum 6 matters", 0.1 / _relative(printed[0], quadratic), 1.0)
    X50, Z20 = rng.normal(size=(50, 1)), np.linspace(-2, 2, 20)[:, None]
    K50, R20 = gram(gaussian(0.49), X50, Z20), gram(gaussian(0.98), Z20, Z20)
    mu = K50.mean(axis=0)
    exact50 = mu @ np.linalg.solve(R20 + np.eye(20) / 50, mu) + np.sum((K50 - mu) ** 2)
    repaired50 = stan_quadratic_repaired(K50, R20, 50, 20, 1.0)[0]
    check("Stan repaired, n=50, m=20", _relative(repaired50, exact50), 1e-11)

    # 9. volumes
    topic = "volumes"
    X, Z, length = rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), 0.8
    k = gaussian(length**2 * np.eye(2))
    mp_gap, fd_gap, rich_gap, grad_gap = [], [], [], []
    for x in X:
        J = np.array([-k(x, z) * (x - z) / length**2 for z in Z])
        truth = 0.5 * np.linalg.slogdet(J.T @ J)[1]
        fd_gap.append(_relative(jacobian_fd(k, x, Z), J))
        rich_gap.append(_relative(jacobian_fd(lambda a, b: float(k(a, b)), x, Z), J))
        mp_gap.append(abs(log_volume_gaussian_mp(x, Z, length) - truth))
        mp_gap.append(abs(log_volume_fd(k, x, Z) - truth))
        h = 1e-4
        around = [log_volume_gaussian_mp(x, Z, length * math.exp(i * h)) for i in (-2, -1, 1, 2)]
        slope = (8 * (around[2] - around[1]) - (around[3] - around[0])) / (12 * h)
        grad_gap.append(abs(log_volume_gaussian_mp_grad(x, Z, length) - slope))
        ard = log_volume_gaussian_mp_grad(x, Z, [length, length])
        grad_gap.append(abs(float(np.sum(ard)) - slope))
    check("Jacobian, mpmath differences", max(fd_gap), 1e-14)
    check("Jacobian, Richardson in doubles", max(rich_gap), 1e-9)
    check("log volume, mpmath and differences", max(mp_gap), 1e-12)
    check("gradient of log volume", max(grad_gap), 1e-9)
    rich = []
    for k1 in (matern(0.7, 0.5), matern(0.7, 1.5), matern(0.7, 2.5), rational_quadratic(0.7, 0.8)):
        for x in X:
            doubles = jacobian_fd(lambda a, b, k1=k1: float(k1(a, b)), x, Z)
            rich.append(_relative(doubles, jacobian_fd(k1, x, Z)))
    check("Jacobian, Matern and RQ, Richardson against mpmath", max(rich), 1e-9)
    far = np.array([1000.0, 0.0])
    value = log_volume_gaussian_mp(far, Z, 1.0)
    check(
        "far away, log volume by differences",
        abs(log_volume_fd(gaussian(np.eye(2)), far, Z) / value - 1),
        1e-14,
    )
    with mp.workdps(9000):  # enough digits for J'J itself, with no minors
        J = mp.matrix(5, 2)
        for i, z in enumerate(Z):
            d = _mp_vector(far) - _mp_vector(z)
            for j in range(2):
                J[i, j] = -mp.exp(-(d[0] ** 2 + d[1] ** 2) / 2) * d[j]
        direct = float(mp.log(mp.det(J.T * J)) / 2)
    check("far away, J'J at 9000 digits", abs(direct / value - 1), 1e-14)
    near = log_volume_gaussian_mp(np.array([30.0]), [[0.0]], 1.0)
    check("one landmark by hand: log 30 - 450", abs(near - (math.log(30) - 450)), 1e-12)
    # by hand, x = (1, 0), l = 1: J'J = exp(-1) I, the printed matrix is exp(-1) [[1, 1], [1, 1]]
    x, landmarks = np.array([1.0, 0.0]), [[0.0, 0.0], [1.0, 1.0]]
    by_hand = abs(math.exp(log_volume_gaussian_mp(x, landmarks, 1.0)) - math.exp(-1))
    check("erratum 1 by hand: gamma = 1/e", by_hand, 1e-15)
    check("erratum 1 by hand: printed gamma = 0", volume_printed(x, landmarks, 1.0), 1e-8)
    one_d = math.exp(log_volume_gaussian_mp([0.4], Z[:, :1], length))
    printed_1d = volume_printed([0.4], Z[:, :1], length)
    check("erratum 1, printed agrees for D=1", _relative(printed_1d, one_d), 1e-12)

    # 10. pseudolikelihood, everything by quadrature against closed forms
    topic = "pseudolikelihood"
    X, Z = rng.normal(size=(3, 1)), rng.normal(size=(2, 1))
    k, r = gaussian(0.49), convolved_gaussian_lebesgue(0.49, 0.49)
    by_quad = log_pseudolikelihood(k, convolved(k, "lebesgue", 1), X, Z, 0.3)
    by_hand = log_density_full(gram(k, Z, X), gram(r, Z, Z), 0.3)
    by_hand += sum(log_volume_gaussian_mp(x, Z, 0.7) for x in X)
    check("log pseudolikelihood", abs(by_quad - by_hand), 1e-10)

    # 12, 13. mixtures
    topic = "mixtures"
    w, means, covs = (0.3, 0.7), [[-1.0], [2.0]], [[[0.5]], [[0.1]]]
    v, means2, covs2 = (1.0,), [[0.4]], [[[1.0]]]
    s = np.array([[0.0], [1.9], [-4.0]])
    truth = true_embedding_gaussian_mixture(s, 0.49, w, means, covs)

    def mixture(u: float, w: Any, means: Any, covs: Any) -> float:
        return sum(
            wi * _normal_density(np.array([u]), np.array(mi), np.array(ci))
            for wi, mi, ci in zip(w, means, covs, strict=True)
        )

    k = gaussian(0.49)
    anchors = [(-1.0, 0.7), (2.0, 0.3), (0.4, 1.0)]
    by_quad = [
        _integrate_line(
            lambda u, p=p: k(p, np.array([u])) * mixture(u, w, means, covs), [*anchors, (p[0], 0.7)]
        )
        for p in s
    ]
    check("mixture embedding against quadrature", worst(zip(truth, by_quad, strict=True)), 1e-9)
    mmd2 = mmd2_gaussian_mixtures(0.49, w, means, covs, v, means2, covs2)

    def embed(u: float) -> float:
        p = [[u]]
        return float(
            true_embedding_gaussian_mixture(p, 0.49, w, means, covs)[0]
            - true_embedding_gaussian_mixture(p, 0.49, v, means2, covs2)[0]
        )

    parts = [  # MMD^2 = int (mu_P - mu_Q) d(P - Q), in pieces for the signs
        integrate.quad(
            lambda u: embed(u) * (mixture(u, w, means, covs) - mixture(u, v, means2, covs2)),
            a,
            b,
            epsabs=1e-14,
        )[0]
        for a, b in pairwise((-12, -4, -1, 0, 1, 2, 3, 6, 12))
    ]
    check("MMD^2 against quadrature", _relative(mmd2, sum(parts)), 1e-9)
    check(
        "MMD^2 of equal mixtures",
        abs(mmd2_gaussian_mixtures(0.49, w, means, covs, w, means, covs)),
        1e-15,
    )

    # 14, 15
    topic = "medians and norms"
    median = median_pairwise([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    check("median of 5, 1, sqrt(18)", abs(median - math.sqrt(18)), 1e-15)
    grid = np.linspace(-1, 1, 15)
    with mp.workdps(100):
        g = gaussian(1.0)
        f = [2 * g(_mp_vector(p), _mp_vector(grid[3])) - g(_mp_vector(p), _mp_vector(grid[8])) for p in grid]
    coefficients = np.array([2.0, -1.0])
    picked = grid[[3, 8]]
    norm = coefficients @ gram(g, picked, picked) @ coefficients
    check("RKHS norm, many digits", _relative(rkhs_norm_on_grid(g, f, grid), norm), 1e-12)
    doubles = np.array(f, dtype=float)
    check(
        "RKHS norm, cut at 1e-10",
        _relative(rkhs_norm_on_grid(g, doubles, grid, cut=1e-10), norm),
        1e-5,
    )
    if thorough:
        k, r = matern(1.0, 0.5), convolved(matern(1.0, 0.5), (0.0, 1.0, 1.0), 1)
        t = triple(k, (0.0, 1.0, 1.0), (0.0, 1.0, 1.0))
        z = np.array([0.25])
        fine = np.linspace(-8, 8, 257)
        f = [r(np.array([p]), z) for p in fine]
        coarse = rkhs_norm_on_grid(k, f[::2], fine[::2], cut=0.0)
        below, norm = rkhs_norm_on_grid(k, f, fine, cut=0.0), t(z, z)
        limit = below + (below - coarse) / 3  # the gap falls as the squared spacing
        check("triple is the squared H-norm of r(., z)", abs(limit / norm - 1), 1e-4)

    return found


# --------------------------------------------------------------------------------------
# 16. Tests: MMD², HSIC and their resamples, from matrices of kernel values
# --------------------------------------------------------------------------------------


def mmd2_loops(K: Array, first: Sequence[Any], v: Any = None, *, biased: bool) -> float:
    """Σ u_i u_j k(x_i,x_j) / Σ u_i u_j + the same for y - 2 Σ u_i w_j k(x_i,y_j) / Σ u_i w_j.

    `first` marks the pooled rows of x, `v` are their weights; the unbiased estimate leaves i = j out.
    """
    N = len(K)
    v = [1.0] * N if v is None else v

    def mean(rows: list[int], columns: list[int], keep_diagonal: bool) -> float:
        total = weight = 0.0
        for i in rows:
            for j in columns:
                if i != j or keep_diagonal:
                    total += v[i] * v[j] * K[i, j]
                    weight += v[i] * v[j]
        return total / weight

    x = [i for i in range(N) if first[i]]
    y = [i for i in range(N) if not first[i]]
    return mean(x, x, biased) + mean(y, y, biased) - 2.0 * mean(x, y, True)


def hsic_loops(K: Array, L: Array, *, biased: bool) -> float:
    """The mean of k_ij l_ij + k_ij l_qr - 2 k_ij l_iq over all i, j, q, r; all different if unbiased."""
    n = len(K)
    total, count = 0.0, 0
    for i in range(n):
        for j in range(n):
            for q in range(n):
                for r in range(n):
                    if biased or len({i, j, q, r}) == 4:
                        total += K[i, j] * L[i, j] + K[i, j] * L[q, r] - 2.0 * K[i, j] * L[i, q]
                        count += 1
    return total / count


def energy_distance(X: Any, Y: Any) -> float:
    """2 E|x - y| - E|x - x'| - E|y - y'| over all pairs of rows."""
    X, Y = _points(X), _points(Y)

    def mean(A: Array, B: Array) -> float:
        return sum(math.dist(a, b) for a in A for b in B) / (len(A) * len(B))

    return 2.0 * mean(X, Y) - mean(X, X) - mean(Y, Y)


def turned_sums(K: Array, L: Array, left: Array, right: Array, *, diagonal: bool = False) -> Array:
    """Σ_{i≠j} K[left_i, left_j] L[right_{i+k}, right_{j+k}] for every turn k of a ring."""
    N = len(left)
    out = np.zeros(N)
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if i != j or diagonal:
                    a, b = right[(i + k) % N], right[(j + k) % N]
                    out[k] += K[left[i], left[j]] * L[a, b]
    return out


def paired_mmd2_loops(K: Array, signs: Sequence[float], *, biased: bool) -> float:
    """The mean of s_i s_j {k(x_i,x_j) + k(y_i,y_j) - k(x_i,y_j) - k(y_i,x_j)}, row n + i paired with i."""
    n = len(signs)
    total, count = 0.0, 0
    for i in range(n):
        for j in range(n):
            if i != j or biased:
                h = K[i, j] + K[n + i, n + j] - K[i, n + j] - K[n + i, j]
                total += signs[i] * signs[j] * h
                count += 1
    return total / count


def wild_mmd2_loops(K: Array, u: Sequence[float], w: Sequence[float]) -> float:
    """Σ u_i u_j k(x_i,x_j)/n² + Σ w_i w_j k(y_i,y_j)/m² - 2 Σ u_i w_j k(x_i,y_j)/nm."""
    n, m = len(u), len(w)
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += u[i] * u[j] * K[i, j] / n**2
    for i in range(m):
        for j in range(m):
            total += w[i] * w[j] * K[n + i, n + j] / m**2
    for i in range(n):
        for j in range(m):
            total -= 2.0 * u[i] * w[j] * K[i, n + j] / (n * m)
    return total


def wild_hsic_loops(K: Array, L: Array, w: Sequence[float]) -> float:
    """Σ w_i w_j K̃_ij L̃_ij / n², both matrices centred."""
    n = len(K)
    H = np.eye(n) - np.ones((n, n)) / n
    Kc, Lc = H @ K @ H, H @ L @ H
    return sum(w[i] * w[j] * Kc[i, j] * Lc[i, j] for i in range(n) for j in range(n)) / n**2


def wild_lack_loops(n: int, a: float, r: float) -> tuple[float, float]:
    """Σ_st r^|s-t| / n, and the mean of (Σ_t W_t x_t)² / n for centred W with a^|s-t| and x with r^|s-t|."""
    A, R = np.zeros((n, n)), np.zeros((n, n))
    for s in range(n):
        for t in range(n):
            A[s, t], R[s, t] = a ** abs(s - t), r ** abs(s - t)
    rows, whole = A.mean(axis=1), A.mean()
    drawn = 0.0
    for s in range(n):
        for t in range(n):
            drawn += (A[s, t] - rows[s] - rows[t] + whole) * R[s, t]
    return float(R.sum() / n), drawn / n


def persistence_loops(F: Array) -> tuple[list[float], list[float]]:
    """Shares of the variance of columns, and what each keeps of its last step, less the bias -(1 + 4r)/n."""
    n, p = F.shape
    squares, kept = [], []
    for k in range(p):
        column = [float(F[t, k]) for t in range(n)]
        mean = sum(column) / n
        square = sum((value - mean) ** 2 for value in column)
        r = sum((column[t] - mean) * (column[t + 1] - mean) for t in range(n - 1)) / square
        squares.append(square)
        kept.append(min(max(r + (1 + 4 * r) / n, -0.99), 0.99))
    return [square / sum(squares) for square in squares], kept


def weighted_variance_loops(F: Array, a: float) -> float:
    """Σ_st a^|s-t| c_s·c_t / Σ_t c_t·c_t / n of centred rows c."""
    n = len(F)
    c = F - F.mean(axis=0)
    total, squares = 0.0, 0.0
    for s in range(n):
        squares += float(c[s] @ c[s])
        for t in range(n):
            total += a ** abs(s - t) * float(c[s] @ c[t])
    return total / squares / n


def step_down_loops(observed: Sequence[float], draws: Array) -> list[float]:
    """Westfall & Young: a hypothesis against the largest of all that are no stronger, then made monotone."""
    B, D = draws.shape
    order = sorted(range(D), key=lambda d: -observed[d])
    adjusted, before = [0.0] * D, 0.0
    for place, d in enumerate(order):
        rest = order[place:]
        beaten = sum(max(draws[b, e] for e in rest) >= observed[d] for b in range(B))
        before = adjusted[d] = max(before, (1 + beaten) / (1 + B))
    return adjusted


def convolved_points(k: Kernel, U: Any, weights: Any) -> Kernel:
    """r(x, y) = Σ_u w_u k(x, u) k(u, y) under point masses."""
    U = _points(U)

    def r(x: Array, y: Array) -> Any:
        return sum(w * k(x, u) * k(u, y) for w, u in zip(weights, U, strict=True))

    return r


def witness(
    k: Kernel, r: Kernel, X: Any, Y: Any, Z: Any, points: Any, U: Any, pseudo: float = 4.0
) -> tuple[Array, Array]:
    """Mean and covariance of mu_X - mu_Y at points: two posteriors with the full noise, subtracted.

    The noise has `pseudo`/n times the feature covariance over the points U added to it.
    """
    extra = noise_full(k, U, Z) * (len(U) - 1) / len(U)
    mean, covariance = np.zeros(len(points)), np.zeros((len(points), len(points)))
    for data, sign in ((X, 1.0), (Y, -1.0)):
        noise = (noise_full(k, data, Z) + pseudo / len(data) * extra) / len(data)
        one = posterior(
            gram(r, Z, Z), gram(r, points, Z), gram(r, points, points), noise, empirical(k, data, Z)
        )
        mean, covariance = mean + sign * one[0], covariance + one[1]
    return mean, covariance


def total_sobol(
    w: Callable[[Array], float], rows: Array, other: Sequence[int], column: int, share: Sequence[float]
) -> float:
    """E{(w(s) - w(s'))^2} / 2 Var w, where s' takes one column from another; rows count by share."""
    values = [w(row) for row in rows]
    mean = sum(p * v for p, v in zip(share, values, strict=True))
    variance = sum(p * (v - mean) ** 2 for p, v in zip(share, values, strict=True))
    total = 0.0
    for i, row in enumerate(rows):
        changed = row.copy()
        changed[column] = rows[other[i]][column]
        total += share[i] * (w(changed) - values[i]) ** 2
    return total / (2.0 * variance)


def superiority(a: Array, b: Array) -> float:
    """P{A > B} + P{A = B}/2 over all pairs."""
    return sum((u > v) + 0.5 * (u == v) for u in a for v in b) / (len(a) * len(b))


# --------------------------------------------------------------------------------------
# Causal graphs: a DAG is a set of edges (a, b), a --> b, between the nodes 0, ..., p - 1
# --------------------------------------------------------------------------------------


def parents(dag: Any, node: int) -> set[int]:
    """The nodes with an edge into this one."""
    return {a for a, b in dag if b == node}


def ancestors(dag: Any, nodes: Any) -> set[int]:
    """The nodes themselves and everything above them."""
    found = set(nodes)
    while True:
        above = {a for a, b in dag if b in found} - found
        if not above:
            return found
        found |= above


def d_separated(dag: Any, i: int, j: int, given: Any) -> bool:
    """Whether no path is left in the moral graph of the ancestors of all these (Lauritzen et al. 1990)."""
    given = set(given)
    kept = ancestors(dag, {i, j} | given)
    inside = [(a, b) for a, b in dag if b in kept]
    moral = {frozenset(edge) for edge in inside}
    for child in kept:
        moral |= {frozenset(pair) for pair in combinations(parents(inside, child), 2)}
    reached, frontier = {i}, [i]
    while frontier:
        node = frontier.pop()
        for pair in moral:
            if node in pair:
                (other,) = pair - {node}
                if other not in given and other not in reached:
                    reached.add(other)
                    frontier.append(other)
    return j not in reached


def d_separated_by_paths(dag: Any, i: int, j: int, given: Any) -> bool:
    """Whether every path is blocked: at a given non-collider, or a collider with nothing given below it."""
    edges, given = set(dag), set(given)
    neighbours = {
        node: {b for a, b in edges if a == node} | parents(edges, node)
        for node in {i, j} | {v for edge in edges for v in edge}
    }
    open_collider = ancestors(edges, given) if given else set()

    def connects(path: list[int]) -> bool:
        if path[-1] == j:
            return True
        for step in neighbours[path[-1]] - set(path):
            if len(path) > 1:
                before, middle = path[-2], path[-1]
                collider = (before, middle) in edges and (step, middle) in edges
                if (collider and middle not in open_collider) or (not collider and middle in given):
                    continue
            if connects([*path, step]):
                return True
        return False

    return not connects([i])


def topological(dag: Any, p: int) -> list[int] | None:
    """The nodes, causes first; None if there is a cycle."""
    order: list[int] = []
    while len(order) < p:
        ready = [v for v in range(p) if v not in order and parents(dag, v) <= set(order)]
        if not ready:
            return None
        order.append(ready[0])
    return order


def unshielded_colliders(dag: Any) -> set[tuple[frozenset[int], int]]:
    """The pairs that are not adjacent and meet at a common child."""
    adjacent = {frozenset(edge) for edge in dag}
    return {
        (frozenset(pair), child)
        for child in {b for _, b in dag}
        for pair in combinations(parents(dag, child), 2)
        if frozenset(pair) not in adjacent
    }


def equivalent_dags(dag: Any, p: int) -> list[frozenset[tuple[int, int]]]:
    """Every DAG with the same adjacent pairs and the same unshielded colliders (Verma & Pearl 1990)."""
    edges, colliders = sorted(dag), unshielded_colliders(dag)
    found = []
    for turned in range(2 ** len(edges)):
        other = frozenset((b, a) if turned >> k & 1 else (a, b) for k, (a, b) in enumerate(edges))
        if topological(other, p) is not None and unshielded_colliders(other) == colliders:
            found.append(other)
    return found


def common_part(dags: Any, p: int) -> Array:
    """1 at [a, b] where some of the DAGs have a --> b: what they agree on is directed."""
    table = np.zeros((p, p), dtype=int)
    for dag in dags:
        for a, b in dag:
            table[a, b] = 1
    return table


def cpdag(dag: Any, p: int) -> Array:
    """The same for all equivalent DAGs, by labelling edges in order (Chickering 1995)."""
    rank = {node: place for place, node in enumerate(topological(dag, p) or [])}
    order = sorted(dag, key=lambda edge: (rank[edge[1]], -rank[edge[0]]))
    compelled: dict[tuple[int, int], bool] = {}
    for x, y in order:
        if (x, y) in compelled:
            continue
        into_y = [(z, y) for z in parents(dag, y)]
        settled = False
        for w in parents(dag, x):
            if compelled[(w, x)]:
                if (w, y) not in dag:
                    compelled.update(dict.fromkeys(into_y, True))
                    settled = True
                    break
                compelled[(w, y)] = True
        if not settled:
            strange = any(z != x and (z, x) not in dag for z in parents(dag, y))
            compelled.update({edge: strange for edge in into_y if edge not in compelled})
    table = np.zeros((p, p), dtype=int)
    for (a, b), fixed in compelled.items():
        table[a, b] = 1
        table[b, a] = 0 if fixed else 1
    return table


def random_dag(rng: Any, p: int, density: float) -> frozenset[tuple[int, int]]:
    """Each pair joined with this probability, in a random causal order."""
    order = rng.permutation(p).tolist()
    return frozenset(
        (order[i], order[j]) for i in range(p) for j in range(i + 1, p) if rng.uniform() < density
    )


# --------------------------------------------------------------------------------------
# Gaussian process regression and the conditional statistic, by loops


def gp_negative_log_likelihood(Z: Array, Y: Array, lengthscales: Any, ratio: float) -> float:
    """-log p(Y|Z) with the noise variance at its best value, but for constants."""
    n, k = Y.shape
    C = np.eye(n)
    for i in range(n):
        for j in range(n):
            away = sum((Z[i, c] - Z[j, c]) ** 2 / lengthscales[c] ** 2 for c in range(Z.shape[1]))
            C[i, j] += ratio * math.exp(-0.5 * away)
    inverse = np.linalg.inv(C)
    quadratic = sum(float(Y[:, t] @ inverse @ Y[:, t]) for t in range(k)) / (n * k)
    return 0.5 * n * k * math.log(quadratic) + 0.5 * k * float(np.linalg.slogdet(C)[1])


def gp_left_out(Z: Array, y: Array, lengthscales: Any, ratio: float) -> Array:
    """Each row less its prediction from all others: a constant by generalised least squares, then the GP."""
    n = len(y)
    out = np.empty(n)

    def k(a: Array, b: Array) -> float:
        return ratio * math.exp(-0.5 * sum(((a - b) / np.asarray(lengthscales)) ** 2))

    for i in range(n):
        rest = [j for j in range(n) if j != i]
        C = np.array([[k(Z[a], Z[b]) + (a == b) for b in rest] for a in rest])
        inverse = np.linalg.inv(C)
        one = np.ones(n - 1)
        mean = (one @ inverse @ y[rest]) / (one @ inverse @ one)
        across = np.array([k(Z[i], Z[b]) for b in rest])
        out[i] = y[i] - mean - across @ inverse @ (y[rest] - mean)
    return out


def product_statistic(A: Array, B: Array, signs: Any) -> float:
    """‖Σ_i ε_i a_i ⊗ b_i‖²/n² as a double sum over kernel entries."""
    n = len(A)
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += signs[i] * signs[j] * float(A[i] @ A[j]) * float(B[i] @ B[j])
    return total / n**2


if __name__ == "__main__":  # everything, the slow triple integrals too
    checks = [check for checks in self_checks(thorough=True).values() for check in checks]
    for name, gap, bound in checks:
        print(f"{'ok  ' if gap <= bound else 'FAIL'} {gap:8.1e} (<= {bound:.0e})  {name}")
    raise SystemExit(any(not gap <= bound for _, gap, bound in checks))


def surprise_loops(values: list[float], by_others: bool) -> list[float]:
    """-log p of each value by a gamma law with the mean, variance and skewness of all (or of the others).

    Wilson and Hilferty: with z standardised, g the skewness, k = 4/g², the cube root of 1 + zg/2 is normal
    with mean 1 - 1/(9k) and variance 1/(9k). A law that is skewed to the left is turned round.
    """
    out = []
    for c, value in enumerate(values):
        law = [other for d, other in enumerate(values) if not (by_others and d == c)]
        mean = sum(law) / len(law)
        variance = sum((v - mean) ** 2 for v in law) / len(law)
        g = sum((v - mean) ** 3 for v in law) / len(law) / variance**1.5
        z = (value - mean) / variance**0.5
        g = 1e-3 if abs(g) < 1e-3 else max(-(8.0**0.5), min(8.0**0.5, g))
        k = 4.0 / g**2
        base = max(1.0 + 0.5 * z * g, 1e-3)
        w = (base ** (1.0 / 3.0) - 1.0 + 1.0 / (9.0 * k)) * (9.0 * k) ** 0.5 * (1.0 if g > 0.0 else -1.0)
        out.append(-math.log(0.5 * math.erfc(w / math.sqrt(2.0))))
    return out


def moved_cross_products(a, b, rows, order):
    """Σ_i a_i ⊗ b_π(i): x of bin s meets y of bin order[s] at the same place; rows left over stay."""
    places, left = rows
    total = np.zeros((a.shape[1], b.shape[1]))
    for place in places:
        for s, row in enumerate(place):
            total += np.outer(a[row], b[place[order[s]]])
    for row in left:
        total += np.outer(a[row], b[row])
    return total


def pairing_covariance(a, b):
    """The covariance of Σ_i (a_i - ā) ⊗ (b_π(i) - b̄)/√n over all pairings π."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    found = [
        sum(np.outer(a[i], b[j]) for i, j in enumerate(order)).ravel() / np.sqrt(len(a))
        for order in permutations(range(len(a)))
    ]
    return np.mean([np.outer(one, one) for one in found], axis=0)


def signed_bin_norms(a, b, rows, signs):
    """‖Σ_i ε_bin(i) a_i ⊗ b_i‖²/n² for runs of `rows` rows with a sign each; the last run is what is left."""
    total = np.zeros((a.shape[1], b.shape[1]))
    for i in range(len(a)):
        total += signs[min(i // rows, len(signs) - 1)] * np.outer(a[i], b[i])
    return float((total**2).sum()) / len(a) ** 2


def ridge_residuals(B, f, penalty):
    """F less B c for the c that minimises |f - B c|² + penalty |c|², and tr B (BᵀB + penalty I)⁻¹ Bᵀ.

    As ordinary least squares of (f, 0) on the rows of B and √penalty times those of the identity.
    """
    p = B.shape[1]
    stacked = np.vstack([B, np.sqrt(penalty) * np.eye(p)])
    left = np.array(f, dtype=float)
    coefficients = np.linalg.lstsq(stacked, np.concatenate([left, np.zeros(p)]), rcond=None)[0]
    for i in range(len(left)):
        left[i] -= sum(B[i, k] * coefficients[k] for k in range(p))
    hat = np.linalg.pinv(stacked)[:, : len(left)]
    return left, sum(float(B[i] @ hat[:, i]) for i in range(len(left)))
