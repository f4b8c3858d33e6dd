"""Mutation testing: how many small faults, put into one file at a time, the tests of its package notice.

`python -m benchmarks.mutants [FILE ...]` makes faults in a copy of the project (a sign, a comparison, a
number, a condition, a maximum for a minimum, a call left out), runs the tests named in TARGETS on each until
one fails, and prints the share that was noticed and every fault that was not. All faults of a file, or
KEMBED_MUTANTS=60 of them by a seed; a process is forked for each, with all but the package imported already,
and the tests that noticed the last faults come first, so that most faults take little time.
"""

import ast
import compileall
import copy
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
SEED, COUNT = 17, int(os.environ.get("KEMBED_MUTANTS", "10000"))
SECONDS = 5, 3  # processor seconds: what takes five more than three times as long as no fault is noticed
MEMORY = 2**33  # bytes of addresses: what asks for more is noticed
PERMUTATION = "tests/permutation/"
# A file of src/kembed: the tests that are to notice.
TARGETS = {
    "permutation/nulls.py": [PERMUTATION + "test_nulls.py"],
    "permutation/fusion.py": [PERMUTATION + "test_fusion.py"],
    "permutation/designs.py": [PERMUTATION + "test_designs.py", "tests/laws/test_relabelings.py"],
    "permutation/sums.py": [PERMUTATION + "test_sums.py", "tests/laws/test_sums.py"],
    "permutation/bins.py": [PERMUTATION + "test_bins.py"],
    "permutation/series.py": [PERMUTATION + "test_series.py"],
    "testing/dense.py": ["tests/testing/test_dense.py", "tests/testing/test_several.py"],
    "conditional/products.py": ["tests/conditional/test_products.py"],
    "learning/objective.py": [
        "tests/learning/test_objective.py",
        "tests/learning/test_learn.py::test_auto_compares_families_and_says_so",
    ],
}
# Imported once, before the first fork: none of them starts a thread.
HEAVY = ["pytest", "scipy.stats", "scipy.signal", "scipy.integrate", "scipy.sparse", "polars"]
HEAVY += ["sklearn.linear_model", "pandas", "jax.numpy", "tqdm.auto"]
OTHER = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any"}
NAMES |= {"argmax": "argmin", "argmin": "argmax", "ceil": "floor", "floor": "ceil", "log1p": "log"}
Fault = tuple[int, str, str, str]  # its line, the line before and after, and the whole file with it


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that runs: no annotations, no docstrings, no words of errors."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.Raise | ast.Assert):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(
                node, ast.JoinedStr | ast.Import | ast.ImportFrom
            ):
                yield node
                yield from places(node)


def faults(node: ast.AST) -> list[dict]:
    """What may be changed in a node: attributes with their new values."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OTHER:
        return [{"op": OTHER[type(node.op)]()}]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        return [{"ops": [OTHER[type(node.ops[0])](), *node.ops[1:]]}]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [{"op": ast.UAdd()}]
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [{"test": ast.UnaryOp(ast.Not(), node.test)}]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return [{"attr": NAMES[node.attr]}]
    if isinstance(node, ast.Name) and node.id in NAMES:
        return [{"id": NAMES[node.id]}]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [{"value": ast.Constant(None)}]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = node.value
        return [{"value": not value if isinstance(value, bool) else value + 1 if value < 1e3 else 2 * value}]
    return []


def mutants(source: str) -> list[Fault]:
    """Every fault there is."""
    found = []
    plain = ast.unparse(ast.parse(source)).splitlines()
    for number, original in enumerate(places(ast.parse(source))):
        for option in range(len(faults(original))):
            tree = ast.parse(source)
            node = list(places(tree))[number]
            for name, value in copy.deepcopy(faults(node)[option]).items():
                setattr(node, name, value)
            text = ast.unparse(ast.fix_missing_locations(tree))
            changed = [(a, b) for a, b in zip(plain, text.splitlines(), strict=False) if a != b]
            if changed:
                found.append((getattr(node, "lineno", 0), changed[0][0].strip(), changed[0][1].strip(), text))
    return found


class Watched:
    """A plugin of pytest: tests in a chosen order, and how long each took."""

    def __init__(self, order: dict[str, float]) -> None:
        self.order, self.seconds, self.failed = order, {}, []

    def pytest_collection_modifyitems(self, items: list) -> None:
        """The order."""
        items.sort(key=lambda item: self.order.get(item.nodeid, np.inf))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The time, and whether it failed."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


def run_tests(package: Path, tests: list[str], order: dict[str, float], limit: float) -> tuple[int, dict]:
    """Run them in a fork until one fails or the time is up: what it ended with, and what was watched."""
    seen = package.parent / "watched.json"
    seen.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        status = 99
        try:
            import pytest

            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1), os.dup2(silent, 2)
            os.chdir(package.parent)
            sys.path[:0] = [str(package)]
            os.environ["PYTHONPATH"] = str(package)
            watched = Watched(order)
            options = ["-o", "addopts=", "--import-mode=importlib", "-x", "-q"]
            options += ["-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "no:threadexception"]
            status = int(pytest.main([*options, *tests], plugins=[watched]))
            seen.write_text(json.dumps({"seconds": watched.seconds, "failed": watched.failed}))
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    watched = json.loads(seen.read_text()) if seen.exists() else {"seconds": {}, "failed": []}
    return os.waitstatus_to_exitcode(status), watched | {"limit": SECONDS[0] + SECONDS[1] * used.ru_utime}


def look(package: Path, file: str, tests: list[str]) -> tuple[int, list[Fault], list[Fault]]:
    """Faults there are in a file, those that were tried, and those that nobody noticed."""
    path = package / "kembed" / file
    source = path.read_text()
    status, watched = run_tests(package, tests, {}, 3600.0)
    if status:
        raise SystemExit(f"the tests of {file} fail without any fault: {watched['failed']}")
    limit, order = watched["limit"], watched["seconds"]
    path.write_text("raise RuntimeError\n")
    if not run_tests(package, tests, {}, limit)[0]:
        raise SystemExit(f"{file} is not what the tests import")
    every = mutants(source)
    chosen = np.random.default_rng(SEED).permutation(len(every))[:COUNT]
    left = []
    for k in chosen:
        path.write_text(every[k][3])
        status, watched = run_tests(package, tests, order, limit)
        for test in watched["failed"]:
            order[test] = min(order.values()) - 1.0  # first, the next time
        if status == 0:
            left.append(every[k])
            print(f"  line {every[k][0]}: {every[k][2]}", file=sys.stderr, flush=True)
    path.write_text(source)
    return len(every), [every[k] for k in chosen], left


def main(files: list[str]) -> None:
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "KEMBED_KEEP_COMPILED": "0"}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    for name in HEAVY:
        __import__(name)
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, package.parent / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        compileall.compile_dir(package, quiet=1)
        print(f"Seed {SEED}, at most {COUNT} faults a file.\n\n| file | faults there are | tried | noticed |")
        print("|---|---|---|---|", flush=True)
        unnoticed = {}
        for file in files or TARGETS:
            every, tried, unnoticed[file] = look(package, file, TARGETS[file])
            found = len(tried) - len(unnoticed[file])
            print(f"| `{file}` | {every} | {len(tried)} | {found} ({found / len(tried):.1%}) |", flush=True)
        print("\nNot noticed:\n")
        for file, left in unnoticed.items():
            for line, before, after, _ in sorted(left):
                print(f"- `{file}`, line {line}: `{before}` became `{after}`")


if __name__ == "__main__":
    main(sys.argv[1:])
