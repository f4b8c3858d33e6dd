"""The shape of the package: layers, import time, what is public."""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kembed

SOURCE = Path(kembed.__file__).parent
# From the top down: a file imports only from its own package and from those above it, in functions too.
PACKAGES = [
    "core",
    "tables",
    "kernels",
    "embeddings",
    "learning",
    "features",
    "permutation",
    "testing",
    "conditional",
    "graphs",
    "comparing",
    "plotting",
    "report",
    "estimators",
    "cli",
]
# What lies beside the packages: the public names, which only presentation may use, and two entries to them.
ENTRIES = ("__init__.py", "__main__.py", "adapters.py")
PRESENTATION = PACKAGES[PACKAGES.index("estimators") :]


def modules():
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE]


def module_name(path: Path) -> str:
    parts = ("kembed", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, *, anywhere: bool = True) -> list[tuple[str, list[str]]]:
    """Modules of ours that a file imports, with the names it takes from them; those in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree) if anywhere else tree.body:
        if isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, [alias.name for alias in node.names]))
    return [(name, names) for name, names in found if name.split(".")[0] == "kembed"]


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_files_look_only_upwards(path):
    package = path.relative_to(SOURCE).parts[0]
    assert package in PACKAGES, f"{package} is no package"
    for name, names in imported(path):
        parts = name.split(".")
        if len(parts) == 1 and not set(names) & set(PACKAGES):  # public names
            assert names == ["__version__"] or package in PRESENTATION, (
                f"{path} takes {names} from the public names"
            )
            continue
        for other in parts[1:2] or names:
            assert PACKAGES.index(other) <= PACKAGES.index(package), (
                f"{module_name(path)} imports {name} from below"
            )


def test_no_cycles_of_files():
    paths = {module_name(path): path for path in modules()}
    edges = {name: set() for name in paths}
    for name, path in paths.items():
        for other, names in imported(path):
            taken = {f"{other}.{one}" for one in names} & set(paths)
            edges[name] |= taken or ({other} & set(paths))
    order = graphlib.TopologicalSorter(
        {name: {other for other in others if other != name} for name, others in edges.items()}
    )
    order.prepare()  # raises CycleError, which names the cycle


def test_only_packages_and_entries():
    found = {path.name for path in SOURCE.iterdir() if not path.name.startswith(("__pycache__", "."))}
    assert found == {*PACKAGES, *ENTRIES, "py.typed"}


def test_no_file_hides_behind_an_underscore():
    assert [path.name for path in modules() if path.name.startswith("_") and path.stem != "__init__"] == []


def test_every_package_has_its_tests():
    here = Path(__file__).parent
    assert [package for package in PACKAGES if not list((here / package).rglob("test_*.py"))] == []


def test_every_file_is_of_readable_size():
    long = {module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_is_light():
    heavy = run(
        "import kembed, sys; print([m for m in ('numpy', 'jax', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    assert heavy == "[]"


def test_embedding_needs_no_jax():
    code = (
        "import sys, numpy as np, kembed\n"
        "e = kembed.fit_embedding(np.arange(9.0), kembed.Gaussian(1.0))\n"
        "e.mean([[0.0]]); e.sample([[0.0], [1.0]], 3, 0); e.distance(e); e.norm()\n"
        "print('jax' in sys.modules)"
    )
    assert run(code) == "False"


def test_public_names_resolve_and_are_documented():
    for name in kembed.__all__:
        value = getattr(kembed, name)
        assert name == "__version__" or value.__doc__, name
    assert set(kembed.__all__) <= set(dir(kembed))
    with pytest.raises(AttributeError, match="no attribute 'median'"):
        _ = kembed.median


def test_the_architecture_page_names_every_package_and_its_files_exist():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `")]
    named = [part for line in table for part in re.findall(r"`(\w+)/`", line.split("|")[1])]
    assert named == PACKAGES
    assert len(page.splitlines()) <= 150
    files = re.findall(r"`((?:\w+/)*\w+\.py)`", page)
    known = {str(path.relative_to(SOURCE)) for path in modules()}
    outside = {str(path) for path in Path(__file__).parent.rglob("*.py")} | {"kembed/__init__.py"}
    assert [name for name in files if not any(each.endswith(name) for each in known | outside)] == []


def test_documentation_has_every_public_name_once():
    pages = (SOURCE.parents[1] / "docs" / "api").glob("*.md")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in pages}
    public = {name for name in kembed.__all__ if not name.startswith("_")}
    index = texts.pop("index")
    whole = "\n".join(texts.values())
    assert {name: whole.count(f":: kembed.{name}\n") for name in public} == dict.fromkeys(public, 1)
    assert [name for name in public if f"`{name}`" not in index] == []
    assert [page for page in texts if f"({page}.md)" not in index or f"\n{page}\n" not in index] == []
