"""Changes in series: level, power, location and intervals, beside KernelCPD of ruptures (1.1.10).

Null series have 120 rows; those in blocks are autoregressions of 400. Series with one change have 200 rows of
three columns, those with two 300. The penalty of ruptures is the one that finds a change in 5% of 400 null
series of the same shape, which its users do not have; columns are standardised for it.
"""

import time

import numpy as np
import polars as pl

from kembed import change_points

SEED, RESAMPLES, LEVEL = 32, 199, 0.05
NULLS, REPETITIONS, CALIBRATION = 400, 120, 400


def normal(rng, n=120):
    return rng.normal(size=(n, 2))


def heavy(rng, n=120):
    return rng.standard_t(2, size=(n, 2))


def mixed(rng, n=120):
    town = rng.choice(["Bern", "Oslo", "Rome"], n, p=[0.6, 0.3, 0.1])
    return pl.DataFrame({"amount": rng.lognormal(size=n), "count": rng.poisson(2.0, n), "town": town})


def autoregression(rng, n=400, memory=0.5):
    noise = rng.normal(size=(n + 50, 2))
    for i in range(1, len(noise)):
        noise[i] += memory * noise[i - 1]
    return noise[50:]


NULL = {
    "normal": (normal, 1),
    "t, 2 degrees of freedom": (heavy, 1),
    "two numbers and a category": (mixed, 1),
    "AR(1) .5, block=1": (autoregression, 1),
    "AR(1) .5, block=10": (autoregression, 10),
    "AR(1) .5, block=20": (autoregression, 20),
}
ONE = {
    "mean, .75 sd in one of three": ("mean", 70),
    "mean, 2 sd in one of three": ("far", 100),
    "spread, twice in one of three": ("spread", 70),
    "correlation, 0 to .7": ("correlation", 100),
    "heavy tails, median by 1": ("tails", 100),
}


def changed(rng, kind, at, n=200):
    x = rng.standard_t(2, size=(n, 3)) if kind == "tails" else rng.normal(size=(n, 3))
    if kind in ("mean", "far", "tails"):
        x[at:, 0] += {"mean": 0.75, "far": 2.0, "tails": 1.0}[kind]
    if kind == "spread":
        x[at:, 0] *= 2.0
    if kind == "correlation":
        x[at:, 1] = 0.7 * x[at:, 0] + np.sqrt(0.51) * x[at:, 1]
    return x


def rate(hits):
    share = float(np.mean(hits))
    return f"{share:.3f} ({np.sqrt(share * (1.0 - share) / len(hits)):.3f})"


def mean(values):
    return (
        f"{np.mean(values):.1f} ({np.std(values, ddof=1) / np.sqrt(len(values)):.1f})"
        if len(values) > 1
        else "-"
    )


def level():
    print(f"\n### Level\n\n{NULLS} null series each, B = 99, level {LEVEL}\n")
    print("| series | a change found (s.e.) |\n|---|---|")
    for name, (draw, block) in NULL.items():
        hits = []
        for trial in range(NULLS):
            x = draw(np.random.default_rng([SEED, trial]))
            hits.append(change_points(x, block=block, n_resamples=99, rng=trial).changed)
        print(f"| {name} | {rate(hits)} |", flush=True)


def kernel_cpd(x):
    """The best position of one change, and by how much it lowers the cost."""
    import ruptures

    z = (x - x.mean(axis=0)) / x.std(axis=0)
    fitted = ruptures.KernelCPD(kernel="rbf", min_size=5).fit(z)
    at = fitted.predict(n_bkps=1)[0]
    cost = fitted.cost.error
    return at, cost(0, len(z)) - cost(0, at) - cost(at, len(z))


def penalty(draw):
    gains = [kernel_cpd(draw(np.random.default_rng([SEED + 1, trial])))[1] for trial in range(CALIBRATION)]
    return float(np.quantile(gains, 1.0 - LEVEL))


def one_change():
    print(f"\n### One change in 200 rows\n\n{REPETITIONS} series each, B = {RESAMPLES}, level {LEVEL}\n")
    print(
        "| change | power | ruptures | error in rows | ruptures | interval covers | width | several found |"
    )
    print("|---|---|---|---|---|---|---|---|")
    normal_penalty = penalty(lambda rng: rng.normal(size=(200, 3)))
    heavy_penalty = penalty(lambda rng: rng.standard_t(2, size=(200, 3)))
    for name, (kind, at) in ONE.items():
        limit = heavy_penalty if kind == "tails" else normal_penalty
        power, error, covers, width, several, rival, rival_error = [], [], [], [], [], [], []
        for trial in range(REPETITIONS):
            x = changed(np.random.default_rng([SEED + 2, trial]), kind, at)
            found = change_points(x, n_resamples=RESAMPLES, rng=trial).changes
            power.append(bool(found))
            several.append(len(found) > 1)
            place, gain = kernel_cpd(x)
            rival.append(gain > limit)
            rival_error += [abs(place - at)] if rival[-1] else []
            if found:
                best = min(found, key=lambda one: abs(one.position - at))
                low, high = best.interval
                error.append(abs(best.position - at))
                covers.append(low <= at <= high)
                width.append(high - low)
        cells = [
            rate(power),
            rate(rival),
            mean(error),
            mean(rival_error),
            rate(covers),
            f"{np.median(width):.0f}",
        ]
        print(f"| {name} | {' | '.join(cells)} | {rate(several)} |", flush=True)


def two_changes():
    print(
        f"\n### Two changes in 300 rows\n\n{REPETITIONS // 2} series each, B = {RESAMPLES}, level {LEVEL}\n"
    )
    print("| changes | found 0 | 1 | 2 | more | both within 15 rows |\n|---|---|---|---|---|---|")
    for name, back in (
        ("mean up by 1.5 sd and back", True),
        ("mean up by 1.5 sd, then another column", False),
    ):
        counts, near = [], []
        for trial in range(REPETITIONS // 2):
            x = np.random.default_rng([SEED + 3, trial]).normal(size=(300, 2))
            x[100 : 200 if back else 300, 0] += 1.5
            x[200:, 1] += 0.0 if back else 1.5
            at = [one.position for one in change_points(x, n_resamples=RESAMPLES, rng=trial).changes]
            counts.append(min(len(at), 3))
            near.append(len(at) > 0 and all(min(abs(one - true) for one in at) <= 15 for true in (100, 200)))
        shares = " | ".join(rate(np.array(counts) == k) for k in range(4))
        print(f"| {name} | {shares} | {rate(near)} |", flush=True)


def main() -> None:
    start = time.process_time()
    print(f"seed {SEED}; standard errors in brackets")
    level()
    one_change()
    two_changes()
    print(f"\n{(time.process_time() - start) / 60.0:.0f} minutes of one processor")


if __name__ == "__main__":
    main()
