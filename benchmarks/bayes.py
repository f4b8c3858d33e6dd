"""The Bayes factor, the interval of the MMD, the posterior of a kernel: level, calibration, coverage.

    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.bayes PART [COUNT]

PART is one of these:

- `null`: share of labelings with BF > 20 and with e-value > 20, 2,000 labelings of COUNT (10) draws from each
  distribution of `SUITE` and `NULLS`, both samples from one.
- `calibration`: posterior probabilities against frequencies, over COUNT (1,000) cases of which half are null:
  drawn from the prior of the model, and from shifts, scales, correlations and rare rows.
- `growth`: log BF over n for two nulls and three alternatives, COUNT (20) draws.
- `coverage`: of the 90% interval of the MMD and of its 95% upper bound, COUNT (200) draws, 24 cells. The true
  MMD of normal columns and independent categories has a closed form.
- `quadrature`: the posterior of a lengthscale by quadrature beside NUTS, 4 chains of COUNT (1,500) draws, ten
  times as many of up to 200 rows: 5%, 50% and 95% of the lengthscale with the Monte-Carlo error of NUTS, and
  the 80% band of the witness over 1,000 kernels of either.
"""

import itertools
import sys
import time
import zlib

import numpy as np
import polars as pl

from benchmarks._workers import SEED, spread
from benchmarks.alternatives import NULLS, SUITE
from benchmarks.shapes import two_clusters
from kembed import bayes_factor, learn_kernel, mmd_test, sample_kernel, witness
from kembed.features.bayes_factor import SCALES, amplitudes
from kembed.features.bayes_factor import bayes_factor as member_of
from kembed.features.rows import Sample
from kembed.kernels.space import make_space
from kembed.learning.nuts import published_prior
from kembed.permutation.pool import make_pool
from kembed.tables.reader import read_tables
from kembed.testing.effect import effect_size, of_pool

LABELINGS = 2_000
GROWTH = (50, 200, 800, 3_200, 12_800)
ROWS = (50, 500, 5_000)
SHIFTS = (0.0, 0.3)
COLUMNS = {"D = 1": 1, "D = 5": 5, "D = 10": 10, "mixed": 2}
SHARES = np.array([0.6, 0.3, 0.1])  # of the categories of "mixed"
MOVED = np.array([-0.1, 0.0, 0.1])  # how they change with the shift
STRENGTH = {"shift": 0.5, "scale": 0.5, "correlation": 0.6, "rare rows": 0.15}


def seeded(*key: object) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(repr(key).encode())])


def null_labelings(job: tuple[str, int]) -> tuple[float, float, float]:
    """Shares of labelings with BF > 20 and with e > 20, and the largest log BF."""
    name, r = job
    rng = seeded("null", name, r)
    if name in NULLS:
        x, y = NULLS[name].draw(rng, 40)
    else:
        x, first = SUITE[name].draw(rng)[0], SUITE[name].draw(rng)[0]
        y = first[: len(first) // (1 + r % 2)]
    test = mmd_test(x, y, kernel="bkl", n_resamples=LABELINGS - 1, rng=r)
    logs = np.append(test.null_distribution, test.statistic)
    return (
        float((logs > np.log(20.0)).mean()),
        float((np.exp(logs) > 20.0 * np.exp(logs).mean()).mean()),
        logs.max(),
    )


def null(count: int) -> None:
    print(
        f"{count} draws, {LABELINGS} labelings each\n\n"
        "| set | P(BF > 20) | P(e > 20) | largest log BF |\n|---|---|---|---|"
    )
    for name in (*SUITE, *NULLS):
        factor, e_value, largest = np.array(spread(null_labelings, [(name, r) for r in range(count)])).T
        print(f"| {name} | {factor.mean():.4f} | {e_value.mean():.4f} | {largest.max():.1f} |", flush=True)


def prior_case(job: tuple[int, bool]) -> tuple[float, bool]:
    """A posterior probability where h is drawn from the prior, at 200 normal rows: P(label) = (1 + h/2)/2."""
    r, different = job
    rng = seeded("prior", r)
    rows = rng.normal(size=(200, 2))
    h = np.zeros(200)
    if different:
        sample = Sample(make_space(rows, np.zeros(2, dtype=bool)))
        member = member_of(sample, sample.peaks[0])
        s, c = rng.integers(len(SCALES)), rng.choice(amplitudes(50.0))
        table = sample.gaussian(member.features.lengthscales[s])
        features = (table - table.mean(axis=0)) @ member.whitening[s]
        h = features @ (np.sqrt(c * member.shares[s]) * rng.normal(size=features.shape[1]))
    labels = rng.random(200) < np.clip(0.5 + 0.25 * h, 0.0, 1.0)
    return bayes_factor(rows[labels], rows[~labels], n_resamples=1, rng=0).posterior_probability, different


def other_case(job: tuple[int, bool]) -> tuple[float, bool]:
    """The same for differences that are not from the prior, of a random kind, size and number of rows."""
    r, different = job
    rng = seeded("other", r)
    n = int(rng.choice([50, 100, 200, 400]))
    kind = rng.choice(list(STRENGTH))
    strength = STRENGTH[kind] * rng.random() * different
    x, y = rng.normal(size=(2, n, 2))
    if kind == "shift":
        y[:, 0] += strength
    elif kind == "scale":
        y *= 1.0 + strength
    elif kind == "correlation":
        y[:, 1] = strength * y[:, 0] + np.sqrt(1.0 - strength**2) * y[:, 1]
    else:
        y[rng.random(n) < strength] += 3.0
    return bayes_factor(x, y, n_resamples=1, rng=0).posterior_probability, different


def calibration(count: int) -> None:
    for title, case in (("from the prior", prior_case), ("other alternatives", other_case)):
        found = np.array(spread(case, [(r, r % 2 == 0) for r in range(count)]))
        print(
            f"\n{count} cases, {title}\n\n"
            "| posterior probability | cases | mean | share that differ (s.e.) |\n|---|---|---|---|"
        )
        edges = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.001]
        for low, high in itertools.pairwise(edges):
            inside = found[(found[:, 0] >= low) & (found[:, 0] < high)]
            if len(inside):
                mean, share = inside.mean(axis=0)
                error = np.sqrt(share * (1.0 - share) / len(inside))
                label = f"{low:g} to {min(high, 1.0):g}"
                print(f"| {label} | {len(inside)} | {mean:.3f} | {share:.3f} ({error:.3f}) |", flush=True)


def growing(job: tuple[str, int, int]) -> float:
    kind, n, r = job
    rng = seeded("growth", kind, n, r)
    x, y = rng.normal(size=(2, n, 2))
    if kind == "null, mixed":
        levels = rng.choice(list("abc"), size=(2, n))
        tables = [
            pl.DataFrame({"a": each[:, 0], "level": own}) for each, own in zip((x, y), levels, strict=True)
        ]
        return bayes_factor(*tables, n_resamples=1, rng=0).log_bayes_factor
    if kind == "shift of 0.2":
        y[:, 0] += 0.2
    elif kind == "Laplace":
        y = rng.laplace(scale=0.5**0.5, size=(n, 2))
    elif kind == "correlation 0.2":
        y[:, 1] = 0.2 * y[:, 0] + np.sqrt(0.96) * y[:, 1]
    return bayes_factor(x, y, n_resamples=1, rng=0).log_bayes_factor


def growth(count: int) -> None:
    print(f"mean log BF (s.e.), {count} draws\n\n| | " + " | ".join(f"n = {n}" for n in GROWTH) + " |")
    print("|---|" + "---|" * len(GROWTH))
    for kind in ("null, normal", "null, mixed", "shift of 0.2", "Laplace", "correlation 0.2"):
        cells = []
        for n in GROWTH:
            logs = np.array(spread(growing, [(kind, n, r) for r in range(count)]))
            cells.append(f"{logs.mean():.2f} ({logs.std(ddof=1) / np.sqrt(count):.2f})")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


def expected_kernel(lengthscale: np.ndarray, gap: np.ndarray) -> float:
    """E k(x, x') of a Gaussian for normal columns of variance 1 whose means are `gap` apart."""
    width = lengthscale**2 + 2.0
    return float(np.prod(lengthscale / np.sqrt(width) * np.exp(-0.5 * gap**2 / width)))


def true_mmd(kernel: object, D: int, shift: float, mixed: bool) -> float:
    gaussian, penalty = kernel, 0.0
    if mixed:
        gaussian, penalty = kernel.kernels[0].kernel, float(kernel.kernels[1].kernel.penalty[0])
    scale = np.broadcast_to(np.asarray(gaussian.lengthscale, dtype=float), (D,))
    p, q = SHARES, SHARES + MOVED * (shift > 0.0)
    total = 0.0
    for a, b, gap, sign in ((p, p, 0.0, 1.0), (q, q, 0.0, 1.0), (p, q, shift, -2.0)):
        same = float(a @ b) if mixed else 1.0
        total += (
            sign
            * expected_kernel(scale, np.append(gap, np.zeros(D - 1)))
            * (same + (1.0 - same) * np.exp(-0.5 * penalty**2))
        )
    return float(np.sqrt(max(total, 0.0)))


def covered(job: tuple[str, int, float, int]) -> tuple[bool, bool, float]:
    name, n, shift, _ = job
    rng = seeded("coverage", *job)
    D, mixed = COLUMNS[name], name == "mixed"
    x, y = rng.normal(size=(2, n, D))
    y[:, 0] += shift
    tables = [pl.DataFrame(x), pl.DataFrame(y)]
    if mixed:
        shares = SHARES, SHARES + MOVED * (shift > 0.0)
        tables = [
            table.with_columns(level=pl.Series(rng.choice(list("abc"), n, p=own)))
            for table, own in zip(tables, shares, strict=True)
        ]
    read, _ = read_tables({"x": tables[0], "y": tables[1]}, "raise", minimum=2)
    effect = effect_size(of_pool(make_pool(list(read), None, "none")))
    truth, (low, high) = true_mmd(effect.kernel, D, shift, mixed), effect.interval
    return low <= truth <= high, truth <= high, high - low


def coverage(count: int) -> None:
    print(
        f"{count} draws, s.e. at most {0.5 / np.sqrt(count):.3f}\n\n"
        "| columns | shift | n | 90% interval | 95% upper bound | width |\n|---|---|---|---|---|---|"
    )
    for name in COLUMNS:
        for shift in SHIFTS:
            for n in ROWS:
                found = np.array(spread(covered, [(name, n, shift, r) for r in range(count)]))
                inside, below, width = found.mean(axis=0)
                print(f"| {name} | {shift:g} | {n} | {inside:.3f} | {below:.3f} | {width:.3f} |", flush=True)


def two_samples(name: str) -> np.ndarray:
    """Two samples of one size."""
    rng = seeded("quadrature", name)
    if name.startswith("N(0, 1) and Laplace"):
        n = int(name.split()[-1])
        return np.stack([rng.normal(size=(n, 1)), rng.laplace(0.0, 0.5**0.5, (n, 1))])
    if name == "normal, D = 3":
        return rng.normal(size=(2, 100, 3)) + np.array([0.0, 0.5])[:, None, None]
    return rng.permutation(two_clusters(rng, 100)).reshape(2, 100, 1)


def quadrature(draws: int) -> None:
    """NUTS over quadrature: quantiles of the lengthscale, widths and centres of the witness's band."""
    import arviz

    print(
        "NUTS less quadrature in %, Monte-Carlo error of NUTS in brackets\n\n"
        "| data | objective | draws | CPU s | R-hat | 5% | 50% | 95% | widths of bands | "
        "centres, of half a width |"
    )
    print("|---" * 10 + "|")
    first, *rest = (
        "N(0, 1) and Laplace, n = 50",
        "N(0, 1) and Laplace, n = 400",
        "normal, D = 3",
        "two clusters",
    )
    published = {"objective": "paper", "noise": 1.0, "landmarks": 20, "prior": published_prior}
    for name, how in [(first, {}), *((other, {}) for other in rest), (first, published)]:
        x, y = two_samples(name)
        rows, start = np.concatenate([x, y]), time.process_time()
        exact, middle = learn_kernel(rows, **how).posterior, time.process_time()
        count = draws if len(rows) > 200 else 10 * draws
        samples = sample_kernel(rows, n_draws=count, progress=False, **how)
        taken = f"{middle - start:.2f}, {time.process_time() - middle:.0f}"
        cells = []
        for q in (0.05, 0.5, 0.95):
            truth, found = float(exact.quantile(q)), float(np.quantile(samples.lengthscale, q))
            errors = arviz.mcse(samples.to_arviz(), method="quantile", prob=q)
            error = max(float(np.max(each.values)) for each in errors.values())
            cells.append(f"{100 * (found / truth - 1):+.1f} ({100 * error / truth:.1f})")
        points = np.quantile(rows, np.linspace(0.02, 0.98, 81), axis=0)
        bands = [witness(x, y, kernel=one, n_kernels=1_000, level=0.8).at(points) for one in (exact, samples)]
        widths = [band.upper - band.lower for band in bands]
        centres = [band.upper + band.lower for band in bands]
        changes = 100 * (widths[1] / widths[0] - 1.0), 100 * (centres[1] - centres[0]) / widths[0]
        cells += [f"{change.min():+.1f} to {change.max():+.1f}" for change in changes]
        objective = "published, τ² = 1" if how else "leave-one-out"
        print(
            f"| {name} | {objective} | {4 * count:,} | {taken} | {samples.rhat:.3f} | {' | '.join(cells)} |",
            flush=True,
        )


PARTS = {
    "null": (null, 10),
    "calibration": (calibration, 1_000),
    "growth": (growth, 20),
    "coverage": (coverage, 200),
    "quadrature": (quadrature, 1_500),
}


def main() -> None:
    run, usual = PARTS[sys.argv[1]]
    run(int(sys.argv[2]) if len(sys.argv) > 2 else usual)


if __name__ == "__main__":
    main()
