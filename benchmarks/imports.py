"""How long a user waits for the first line: imports in a fresh process, best of five."""

import subprocess
import sys
import time

CASES = {
    "python -c pass": "pass",
    "import numpy": "import numpy",
    "import kembed (limit 0.3 s)": "import kembed",
    "kembed.Gaussian(1.0).gram on 1,000 rows": (
        "import kembed, numpy as np; kembed.Gaussian(1.0).gram(np.zeros((1000, 2)))"
    ),
    "import jax": "import jax",
}


def seconds(code: str) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print("| in a new process | seconds |\n|---|---|")
    for name, code in CASES.items():
        print(f"| {name} | {seconds(code):.2f} |", flush=True)


if __name__ == "__main__":
    main()
