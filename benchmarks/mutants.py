"""Mutation testing: how many small faults, put into one file at a time, the tests of its room notice.

`python -m benchmarks.mutants [FILE ...]` makes faults in a copy of the package (a sign, a comparison, a
number, a condition, a maximum for a minimum), runs the tests named in TARGETS on each until one fails, and
prints the share that was noticed and every fault that was not; KEMBED_MUTANTS=20 of a file, by a seed.
"""

import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
SEED, COUNT, SECONDS = 17, int(os.environ.get("KEMBED_MUTANTS", "20")), 240
ROOM = "tests/permutation/"
# A file of src/kembed: the tests that are to notice, the most likely first.
TARGETS = {
    "permutation/statistics.py": [ROOM + "test_statistics.py"],
    "permutation/nulls.py": [ROOM + "test_nulls.py"],
    "permutation/fusion.py": [ROOM + "test_fusion.py"],
    "permutation/labelings.py": [
        ROOM + "test_statistics.py",
        ROOM + "test_rings.py",
        ROOM + "test_blocks.py",
    ],
    "permutation/bins.py": [ROOM + "test_bins.py"],
    "learning/objective.py": ["tests/learning/test_objective.py"],
}
OTHER = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
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
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHER:
        return [{"op": OTHER[type(node.op)]()}]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        return [{"ops": [OTHER[type(node.ops[0])](), *node.ops[1:]]}]
    if isinstance(node, ast.UnaryOp):
        return [{"op": ast.UAdd()}] if isinstance(node.op, ast.USub) else []
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [{"test": ast.UnaryOp(ast.Not(), node.test)}]
    if isinstance(node, ast.AugAssign) and type(node.op) in OTHER:
        return [{"op": OTHER[type(node.op)]()}]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return [{"attr": NAMES[node.attr]}]
    if isinstance(node, ast.Name) and node.id in NAMES:
        return [{"id": NAMES[node.id]}]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = node.value
        return [{"value": not value if isinstance(value, bool) else value + 1 if value < 1e3 else 2 * value}]
    return []


def mutants(source: str) -> list[tuple[int, str, str, str]]:
    """Every fault: its line, the line before and after, and the whole file with it."""
    count = len(list(places(ast.parse(source))))
    found = []
    plain = ast.unparse(ast.parse(source)).splitlines()
    for number in range(count):
        for option in range(len(faults(list(places(ast.parse(source)))[number]))):
            tree = ast.parse(source)
            node = list(places(tree))[number]
            for name, value in copy.deepcopy(faults(node)[option]).items():
                setattr(node, name, value)
            text = ast.unparse(ast.fix_missing_locations(tree))
            changed = [(a, b) for a, b in zip(plain, text.splitlines(), strict=False) if a != b]
            if changed:
                found.append((getattr(node, "lineno", 0), changed[0][0].strip(), changed[0][1].strip(), text))
    return found


def noticed(package: Path, file: str, text: str, tests: list[str]) -> bool:
    """Whether a test fails, or nothing ends."""
    path = package / "kembed" / file
    before = path.read_text()
    path.write_text(text)
    more = {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(before)
    return done.returncode != 0


def main(files: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
        print(f"Seed {SEED}, at most {COUNT} faults a file.\n\n| file | faults there are | tried | noticed |")
        print("|---|---|---|---|", flush=True)
        left = []
        for file in files or TARGETS:
            source = (package / "kembed" / file).read_text()
            if noticed(package, file, source, TARGETS[file]):
                raise SystemExit(f"the tests of {file} fail without any fault")
            every = mutants(source)
            chosen = np.random.default_rng(SEED).permutation(len(every))[:COUNT]
            found = [noticed(package, file, every[k][3], TARGETS[file]) for k in chosen]
            share = np.mean(found)
            print(f"| `{file}` | {len(every)} | {len(chosen)} | {sum(found)} ({share:.0%}) |", flush=True)
            left += [(file, every[k]) for k, was in zip(chosen, found, strict=True) if not was]
        print("\nNot noticed:\n")
        for file, (line, before, after, _) in left:
            print(f"- `{file}`, line {line}: `{before}` became `{after}`")


if __name__ == "__main__":
    main(sys.argv[1:])
