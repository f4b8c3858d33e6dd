"""Drop-in value: the learned lengthscale against γ="scale", the median rule and cross-validation.

Every rule becomes a division of X by lengthscales, after which all estimators run with gamma=0.5, so that
nothing but the rule differs. Everything (scaler, principal components, lengthscale) is fitted on training
rows alone. `SVC` (C=1) and `KernelPCA` (two components, then five nearest neighbours) are scored on held-out
folds, `SpectralClustering` on subsamples. No parameter here was tuned on the outcomes.
"""

import time
import warnings

import numpy as np

from benchmarks._workers import spread

SEED, SPLITS, REPEATS, SUBSAMPLES, SHARE = 0, 5, 2, 5, 0.8
WIDE, COMPONENTS = 20, 10  # beyond so many columns, so many principal components: the learner's own advice
GRID = np.logspace(-2, 2, 9)  # what cross-validation tries, in multiples of γ="scale"
RULES = ("scale", "median", "learned", "learned ARD", "cross-validation")
CLASSES = ("iris", "wine", "breast cancer", "digits", "moons", "circles", "unequal blobs", "classification")


def load(name: str):
    from sklearn import datasets

    if name == "digits":  # a third of it: kernel PCA inside cross-validation is cubic
        X, y = datasets.load_digits(return_X_y=True)
        rows = np.random.default_rng(SEED).choice(len(X), 600, replace=False)
        return X[rows], y[rows]
    if name == "moons":
        return datasets.make_moons(400, noise=0.2, random_state=SEED)
    if name == "circles":
        return datasets.make_circles(400, noise=0.1, factor=0.4, random_state=SEED)
    if name == "unequal blobs":
        centres = [[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]]
        return datasets.make_blobs(
            [250, 100, 50], centers=centres, cluster_std=[1, 0.5, 0.25], random_state=SEED
        )
    if name == "classification":
        return datasets.make_classification(
            400, 10, n_informative=4, n_redundant=2, n_classes=3, n_clusters_per_class=1, random_state=SEED
        )
    return getattr(datasets, "load_" + name.replace(" ", "_"))(return_X_y=True)


def prepared(X):
    """The fitted preprocessing of training rows: standardised; principal components where there are many."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = [PCA(COMPONENTS, random_state=SEED)] if X.shape[1] > WIDE else []
    return make_pipeline(StandardScaler(), *steps).fit(X)


def lengthscales(rule: str, X):
    """ℓ by a rule that sees no labels."""
    from kembed import KernelLearner, median_lengthscale

    if rule == "scale":
        return np.sqrt(0.5 * X.shape[1] * X.var())  # γ = 1/(D var X)
    if rule == "median":
        return median_lengthscale(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a rough fit is what a user would get too
        return KernelLearner("ard" if rule == "learned ARD" else "isotropic").fit(X).lengthscale_


def models(regression: bool):
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.decomposition import KernelPCA
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if regression:
        ridge = TransformedTargetRegressor(KernelRidge(kernel="rbf", gamma=0.5), transformer=StandardScaler())
        return {"ridge": (ridge, "regressor__gamma")}
    pca = KernelPCA(2, kernel="rbf", gamma=0.5, random_state=SEED)
    return {
        "SVC": (SVC(gamma=0.5), "gamma"),
        "PCA": (make_pipeline(pca, KNeighborsClassifier(5)), "kernelpca__gamma"),
    }


def clock() -> float:
    """Seconds of CPU, which other work on the machine does not stretch; workers have one thread."""
    return time.process_time()


def fold(name: str, index: int):
    """(task, rule) → score and seconds of one held-out fold."""
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, RepeatedKFold, RepeatedStratifiedKFold

    X, y = load(name)
    regression = name == "diabetes"
    splitter = RepeatedKFold if regression else RepeatedStratifiedKFold
    splits = splitter(n_splits=SPLITS, n_repeats=REPEATS, random_state=SEED).split(X, y)
    train, test = list(splits)[index]
    before = prepared(X[train])
    inside, outside = before.transform(X[train]), before.transform(X[test])
    out = {}
    for rule in RULES[:-1]:
        started = clock()
        ell = lengthscales(rule, inside)
        chosen = clock() - started
        for task, (model, _) in models(regression).items():
            started = clock()
            score = clone(model).fit(inside / ell, y[train]).score(outside / ell, y[test])
            out[task, rule] = score, chosen, chosen + clock() - started
    ell = lengthscales("scale", inside)
    for task, (model, gamma) in models(regression).items():
        started = clock()
        search = GridSearchCV(model, {gamma: 0.5 * GRID}, cv=SPLITS).fit(inside / ell, y[train])
        score = search.score(outside / ell, y[test])
        taken = clock() - started
        out[task, RULES[-1]] = score, taken, taken
    return out


def clusters(name: str, index: int):
    """(task, rule) → adjusted Rand index and seconds on one subsample; no rule sees the classes."""
    from sklearn.cluster import SpectralClustering
    from sklearn.metrics import adjusted_rand_score

    X, y = load(name)
    rows = np.random.default_rng([SEED, index]).choice(len(X), int(SHARE * len(X)), replace=False)
    X, y = prepared(X[rows]).transform(X[rows]), y[rows]
    k = len(np.unique(y))

    def ari(scaled, gamma: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the graph of a small lengthscale falls apart
            found = SpectralClustering(k, gamma=gamma, random_state=SEED).fit_predict(scaled)
        return adjusted_rand_score(y, found)

    out = {}
    for rule in RULES[:-1]:
        started = clock()
        ell = lengthscales(rule, X)
        chosen = clock() - started
        out["clusters", rule] = ari(X / ell, 0.5), chosen, clock() - started
    scaled = X / lengthscales("scale", X)
    # Without labels there is nothing to validate; what the best γ of the grid would give is the ceiling.
    out["clusters", RULES[-1]] = max(ari(scaled, 0.5 * factor) for factor in GRID), np.nan, np.nan
    return out


def run(job):
    kind, name, index = job
    return (fold if kind == "fold" else clusters)(name, index)


def gathered(results, jobs, name: str, task: str):
    """(runs, rules, [score, seconds to choose, seconds in all]) of one data set and task."""
    kind = "cluster" if task == "clusters" else "fold"
    mine = [result for result, job in zip(results, jobs, strict=True) if job[:2] == (kind, name)]
    return np.array([[result[task, rule] for rule in RULES] for result in mine])


def standard_error(scores):
    """Of a mean over repeated folds, whose training sets overlap (Nadeau & Bengio 2003)."""
    return np.sqrt((1.0 / len(scores) + 1.0 / (SPLITS - 1.0)) * scores.var(axis=0, ddof=1))


def table(title: str, results, jobs, names, task: str) -> None:
    ceiling = "best of the grid (sees classes)" if task == "clusters" else RULES[-1]
    header = ["data", *RULES[:-1], ceiling, "learned against: scale", "median"]
    header += [] if task == "clusters" else ["cross-validation"]
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    against = (0, 1) if task == "clusters" else (0, 1, 4)
    tally = {RULES[other]: [0, 0, 0] for other in against}
    for name in names:
        scores = gathered(results, jobs, name, task)[:, :, 0]
        spread_of = scores.std(axis=0, ddof=1) if task == "clusters" else standard_error(scores)
        cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(scores.mean(axis=0), spread_of, strict=True)]
        for other in against:
            gap = scores[:, 2] - scores[:, other]
            error = gap.std(ddof=1) if task == "clusters" else standard_error(gap)
            word = 1 if abs(gap.mean()) <= 2.0 * error else 0 if gap.mean() > 0 else 2
            tally[RULES[other]][word] += 1
            cells.append(f"{('better', 'same', 'worse')[word]} ({gap.mean():+.3f})")
        print(f"| {name} | {' | '.join(cells)} |")
    for other, (better, same, worse) in tally.items():
        print(f"\nlearned against {other}: better on {better}, same on {same}, worse on {worse}.")


def times(results, jobs, names) -> None:
    print("\n**Choosing**, CPU seconds, median over folds; the slowest fold compiles\n")
    columns = ["scale", "median", "learned", "learned ARD", "cross-validation, SVC", "learned, slowest fold"]
    print(f"| data | rows x columns | {' | '.join(columns)} |\n|{'---|' * 8}")
    for name in names:
        X, _ = load(name)
        task = "ridge" if name == "diabetes" else "SVC"
        taken = gathered(results, jobs, name, task)[:, :, 1]
        size = f"{len(X)} x {X.shape[1]}" + (f" -> {COMPONENTS}" if X.shape[1] > WIDE else "")
        cells = [f"{value:.4f}" if value < 0.01 else f"{value:.2f}" for value in np.median(taken, axis=0)]
        print(f"| {name} | {size} | {' | '.join(cells)} | {taken[:, 2].max():.1f} |")


def main(names=CLASSES, regression=("diabetes",)) -> None:
    folds = SPLITS * REPEATS
    jobs = [("fold", name, i) for name in (*names, *regression) for i in range(folds)]
    jobs += [("cluster", name, i) for name in names for i in range(SUBSAMPLES)]
    started = time.perf_counter()
    results = spread(run, jobs)
    print(
        f"Seed {SEED}; {REPEATS} x {SPLITS} folds, ± standard error corrected for overlapping training sets; "
        f"clusterings on {SUBSAMPLES} subsamples of {SHARE:.0%}, ± their standard deviation. Better or "
        f"worse: by more than two of these, in paired differences. "
        f"All: {time.perf_counter() - started:.0f} s."
    )
    table("**SVC**, accuracy", results, jobs, names, "SVC")
    table("**KernelPCA**, 2 components, accuracy of 5 neighbours", results, jobs, names, "PCA")
    table("**SpectralClustering**, adjusted Rand index", results, jobs, names, "clusters")
    table("**KernelRidge** (alpha=1), R²", results, jobs, regression, "ridge")
    times(results, jobs, (*names, *regression))


if __name__ == "__main__":
    main()
