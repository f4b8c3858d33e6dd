"""What a person waits for at the command line: processor seconds of new processes, best of several.

Beside them the ratio to a bare process that imports NumPy, SciPy and polars and reads both files. Modules are
compiled once, as those of an installed package are: the first of the processes pays for it.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SEED, ROWS, COLUMNS, TIMES = 5, 1_000, 5, 3
BARE = "import numpy, scipy, polars as pl; pl.read_csv({!r}); pl.read_csv({!r})"


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(compiled: Path, *arguments: str) -> float:
    times = []
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(compiled)
    for _ in range(TIMES + 1):
        start = _used()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=kept)
        times.append(_used() - start)
    return min(times)


def _tables(folder: Path) -> tuple[str, str, str]:
    """Breast cancer (569 x 30), iris (150 x 4) and diabetes without outliers (333 x 4), from scikit-learn."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

    cancer, iris, diabetes = (
        load_breast_cancer(as_frame=True),
        load_iris(as_frame=True),
        load_diabetes(as_frame=True),
    )
    found = []
    for name, frame in (
        ("cancer", cancer.frame.rename(columns={"target": "diagnosis"})),
        ("iris", iris.data),
        ("diabetes", diabetes.data.iloc[:333][["age", "bmi", "bp", "s6"]]),
    ):
        frame.to_csv(folder / f"{name}.csv", index=False)
        found.append(str(folder / f"{name}.csv"))
    return found[0], found[1], found[2]


def main() -> None:
    rng = np.random.default_rng(SEED)
    header = ",".join(f"v{d}" for d in range(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("a.csv", "b.csv")]
        for file, shift in zip(files, (0.0, 0.2), strict=True):
            np.savetxt(
                file, rng.normal(shift, size=(ROWS, COLUMNS)), delimiter=",", header=header, comments=""
            )
        report = str(Path(folder) / "report.html")
        cancer, iris, diabetes = _tables(Path(folder))
        demo = str(Path(folder) / "demo")
        rows = {
            "NumPy, SciPy and polars imported, both files read": ("-c", BARE.format(*files)),
            "kembed --help": ("-m", "kembed", "--help"),
            "kembed test a.csv b.csv (target 1.0)": ("-m", "kembed", "test", *files),
            "kembed test a.csv b.csv --kernel bkl": ("-m", "kembed", "test", *files, "--kernel", "bkl"),
            "kembed report a.csv b.csv (target 5.0)": ("-m", "kembed", "report", *files, "-o", report),
            "kembed demo (target 6.0)": ("-m", "kembed", "demo", "-o", demo),
            "kembed report, 569 x 30 (target 15)": (
                *("-m", "kembed", "report", cancer, "--group", "diagnosis", "-o", report),
            ),
            "kembed learn --family auto, 150 x 4 (target 10)": (
                "-m",
                "kembed",
                "learn",
                iris,
                "--family",
                "auto",
            ),
            "kembed graph, 333 x 4 (target 8)": ("-m", "kembed", "graph", diabetes),
        }
        print(
            f"Two files of {ROWS:,} rows and {COLUMNS} columns, seed {SEED}; best of {TIMES} new processes.\n"
        )
        print("| command | processor seconds | times the bare process |")
        print("|---|---|---|")
        bare = None
        for name, arguments in rows.items():
            seconds = _seconds(Path(folder) / "compiled", *arguments)
            bare = seconds if bare is None else bare
            print(f"| {name} | {seconds:.2f} | {seconds / bare:.1f} |", flush=True)


if __name__ == "__main__":
    main()
