"""Run every benchmark and print its table: `python -m benchmarks [name ...]`."""

import importlib
import sys

NAMES = [
    "pseudolikelihood",
    "imports",
    "coverage",
    "scales",
    "stability",
    "shapes",
    "families",
    "densities",
    "where",
    "learning_speed",
    "sampling",
    "agreement",
    "level",
    "power",
    "dependence",
    "third",
    "processor",
    "speed",
    "bands",
    "calibration",
    "dropin",
    "closed",
    "notes",
    "auc",
    "labels",
    "single",
    "single_held_out",
    "startup",
    "conditional",
    "conditional_hard",
    "conditional_thresholds",
    "oracle_pc",
    "graphs",
    "engines",
]


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise SystemExit(f"unknown benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    for name in names or NAMES:
        print(f"\n## {name}\n\n`python -m benchmarks {name}`\n", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
