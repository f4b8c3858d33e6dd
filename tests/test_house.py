"""The shape of the house: layers, import time, what is public."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kembed

SOURCE = Path(kembed.__file__).parent
# From the top of the house down; a module imports only from rows above its own, or from its own.
ROOMS = [
    ["kembed"],
    ["kembed._backend", "kembed._progress", "kembed._writing", "kembed._words"],
    ["kembed._validation"],
    ["kembed._columns"],
    ["kembed._tables"],
    ["kembed._linalg"],
    ["kembed.measures"],
    ["kembed.kernels.base", "kembed.kernels.scale_mixtures"],
    ["kembed.kernels.stationary", "kembed.kernels.composite", "kembed.kernels.discrete"],
    ["kembed.kernels.convolution"],
    ["kembed.kernels"],
    ["kembed.landmarks"],
    ["kembed.heuristics"],
    ["kembed.embedding"],
    ["kembed.spectral_shrinkage", "kembed.posterior"],
    ["kembed._volumes"],
    ["kembed._gaussian_sums"],
    ["kembed.feature_sums"],
    ["kembed.pseudolikelihood"],
    ["kembed._frame", "kembed._elimination"],
    ["kembed._integration"],
    ["kembed.normalised"],
    ["kembed._families"],
    ["kembed._problem"],
    ["kembed._search"],
    ["kembed.learned"],
    ["kembed.learning"],
    ["kembed._evidence_scan"],
    ["kembed._pairs"],
    ["kembed._factors", "kembed._sample_space"],
    ["kembed._rings", "kembed._random_features", "kembed._fused_kernels", "kembed._pool"],
    ["kembed._labelings", "kembed._choice"],
    ["kembed.statistics", "kembed.nulls", "kembed.results"],
    ["kembed._fusion", "kembed._linear_time"],
    ["kembed.two_sample", "kembed.independence"],
    ["kembed._regression", "kembed._store", "kembed._multipliers"],
    ["kembed._conditioning", "kembed.prewhitening"],
    ["kembed._residuals", "kembed._residual_kernels"],
    ["kembed._sides"],
    ["kembed.conditional_tester"],
    ["kembed.conditional"],
    ["kembed._decisions", "kembed.background"],
    ["kembed._skeleton"],
    ["kembed._orientation"],
    ["kembed.causal_graph"],
    ["kembed.causal"],
    ["kembed.adapters", "kembed._workers"],
    ["kembed.datasets"],
    ["kembed.samples"],
    ["kembed.sampling"],
    ["kembed._bands", "kembed._separation", "kembed._summaries"],
    ["kembed._regions"],
    ["kembed.witnessed"],
    ["kembed.witnessing"],
    ["kembed.comparison"],
    ["kembed.plotting._style"],
    ["kembed.plotting._plane"],
    [
        "kembed.plotting.columns",
        "kembed.plotting.embedding",
        "kembed.plotting.evidence",
        "kembed.plotting.graphs",
        "kembed.plotting.hyperparameters",
        "kembed.plotting.null",
        "kembed.plotting.witness",
    ],
    ["kembed.plotting.comparison"],
    ["kembed.plotting"],
    ["kembed.report.words"],
    ["kembed.report.figures", "kembed.report.glyphs"],
    ["kembed.report"],
    ["kembed.report.page"],
    ["kembed.estimators._random", "kembed.estimators._coordinates"],
    ["kembed.estimators.drift", "kembed.estimators.kernel_learner", "kembed.estimators.mean_embedding"],
    ["kembed.estimators"],
    ["kembed.experiments", "kembed.experiments._output", "kembed.experiments._truth"],
    ["kembed.experiments._grid", "kembed.experiments._published"],
    ["kembed.experiments._errors", "kembed.experiments.figure2_defects"],
    ["kembed.experiments._ozone_study"],
    [
        "kembed.experiments.figure1",
        "kembed.experiments.figure2",
        "kembed.experiments.figure3",
        "kembed.experiments.ozone",
    ],
    ["kembed._files"],
    ["kembed.cli", "kembed.cli.words", "kembed.cli.spinner", "kembed.cli.options"],
    ["kembed.cli.screen", "kembed.cli.outputs", "kembed.cli.inputs"],
    ["kembed.cli.one_sample", "kembed.cli.two_samples", "kembed.cli.graphs"],
    ["kembed.cli.demo", "kembed.cli.figures", "kembed.cli.app"],
    ["kembed.__main__"],
]
RANK = {module: rank for rank, room in enumerate(ROOMS) for module in room}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("kembed", *path.relative_to(SOURCE).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports when it is imported (imports inside functions are lazy)."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in RANK else node.module)
    return {name for name in found if name.split(".")[0] == "kembed"}


@pytest.mark.parametrize(("module", "path"), list(modules()))
def test_every_module_has_a_room_and_looks_only_upwards(module, path):
    assert module in RANK, f"{module} has no room in ROOMS"
    for other in imported(path):
        assert RANK[other] <= RANK[module], f"{module} imports {other} from below"


def test_every_file_is_of_readable_size():
    long = {path.name: len(path.read_text().splitlines()) for _, path in modules()}
    assert {name: lines for name, lines in long.items() if lines > 400} == {}


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


def test_documentation_lists_every_public_name():
    api = (SOURCE.parents[1] / "docs" / "api.md").read_text()
    missing = [name for name in kembed.__all__ if not name.startswith("_") and f"kembed.{name}\n" not in api]
    assert missing == []
