"""What a person waits for at the command line, in new processes: best of five."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SEED, ROWS, COLUMNS, TIMES = 5, 1_000, 5, 5


def _seconds(*arguments: str) -> float:
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


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
        rows = {
            "python -c pass": ("-c", "pass"),
            "kembed --help (limit 0.5 s)": ("-m", "kembed", "--help"),
            "kembed test a.csv b.csv (limit 6 s)": ("-m", "kembed", "test", *files),
            "kembed test a.csv b.csv --kernel bkl": ("-m", "kembed", "test", *files, "--kernel", "bkl"),
            "kembed report a.csv b.csv": ("-m", "kembed", "report", *files, "-o", report),
        }
        print(
            f"Two files of {ROWS:,} rows and {COLUMNS} columns, seed {SEED}; best of {TIMES} new processes.\n"
        )
        print("| command | seconds |")
        print("|---|---|")
        for name, arguments in rows.items():
            print(f"| {name} | {_seconds(*arguments):.2f} |", flush=True)


if __name__ == "__main__":
    main()
