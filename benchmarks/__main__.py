"""List the benchmarks, or run some and print their tables: `python -m benchmarks [NAME ...]`.

Those that need arguments are run as modules: `python -m benchmarks.NAME ARGUMENT ...`.
"""

import ast
import importlib
import sys
from pathlib import Path


def benchmarks() -> dict[str, str]:
    """The files that can be run, and what they measure."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        if "__main__" in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
    return found


def main(names: list[str]) -> None:
    known = benchmarks()
    for name in names:
        if name not in known:
            raise SystemExit(f"unknown benchmark {name!r}; there are {', '.join(known)}")
        print(f"\n## {name}\n\n`python -m benchmarks {name}`\n", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    for name, title in () if names else known.items():
        print(f"{name:24}{title}")


if __name__ == "__main__":
    main(sys.argv[1:])
