"""The experiments in small: what they measure, and that their files come whole."""

import importlib.util
import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

from kembed import Gaussian, learn_kernel, witness
from kembed.core.writing import write_text
from kembed.experiments import NAMES, QUICK_NOTE, figure2, figure3, output, ozone, reproduce
from kembed.experiments.mixtures import grid_sample, mixture_embedding, true_witness

PNG = b"\x89PNG\r\n\x1a\n"
END = b"IEND\xaeB`\x82"


def whole(path):
    content = path.read_bytes()
    return content.startswith(PNG) and content.endswith(END)


def test_reproduce_writes_whole_files_and_says_what_it_measured(tmp_path):
    said = []
    folder = tmp_path / "new" / "folder"
    paths = reproduce("figure1", folder, say=said.append)
    assert [path.name for path in paths] == ["figure1.png", "figure1.txt"]
    assert sorted(folder.iterdir()) == paths
    assert whole(paths[0])
    assert paths[1].read_text(encoding="utf-8").splitlines() == said
    # The paper: the posterior is slightly smoother than the empirical embedding, its interval goes below 0.
    smoother, below = (
        [float(share) for share in re.findall(pattern, "\n".join(said))]
        for pattern in (r"has ([\d.]+)% of the squared bend", r"below 0 on ([\d.]+)%")
    )
    assert len(smoother) == 2  # the text's lengthscale, and the caption's
    assert 90.0 < smoother[0] < 100.0
    assert 99.0 < smoother[1] < 101.0  # with the caption's lengthscale there is nothing left to smooth
    assert all(share > 20.0 for share in below)


def test_reproduce_prints_unless_told_otherwise(tmp_path, capsys):
    reproduce("figure1", tmp_path)
    assert "holds the true embedding on" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["figure4", "", "Figure1", None])
def test_another_name_is_refused(name, tmp_path):
    with pytest.raises(
        ValueError, match=r"name must be one of 'figure1', 'figure2', 'figure3', 'ozone', 'all'"
    ):
        reproduce(name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_is_every_name(tmp_path, monkeypatch):
    stub = SimpleNamespace(
        run=lambda progress, cache=None: progress, report=lambda result: [f"progress {result}"], FIGURES={}
    )
    monkeypatch.setattr("kembed.experiments.importlib.import_module", lambda name: stub)
    said = []
    paths = reproduce("all", tmp_path, progress=False, say=said.append)
    assert [path.name for path in paths] == [f"{name}.txt" for name in NAMES]
    assert said == ["progress False"] * len(NAMES)


def test_a_quick_run_uses_the_small_plan_and_says_so(tmp_path, monkeypatch):
    stub = SimpleNamespace(run=lambda progress, size=50: size, FIGURES={}, QUICK={"size": 5})
    stub.report = lambda size: [f"size {size}"]
    monkeypatch.setattr("kembed.experiments.importlib.import_module", lambda name: stub)
    said = []
    reproduce("figure2", tmp_path, quick=True, say=said.append)
    assert said == [f"{QUICK_NOTE}: figure2.", "size 5"]
    reproduce("figure2", tmp_path, say=said.append)
    assert said[2:] == ["size 50"]


@pytest.mark.parametrize("module", [figure2, figure3, ozone])
def test_every_quick_plan_is_one_that_the_figure_takes(module):
    inspect.signature(module.run).bind(progress=None, **module.QUICK)


def test_a_folder_that_takes_no_files_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("kembed.experiments.importlib.import_module", lambda name: pytest.fail("worked"))
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OSError, match=r"folder must take files, but '.*file' does not"):
        reproduce("figure1", file)
    assert file.read_text() == "mine"


def test_missing_numpyro_is_told_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'kembed\[bayes\]'"):
        reproduce("figure3", tmp_path)


def test_all_runs_what_is_installed_and_says_what_is_not(tmp_path, monkeypatch):
    stub = SimpleNamespace(run=lambda progress, cache=None: None, report=lambda result: [], FIGURES={})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("kembed.experiments.importlib.import_module", lambda name: stub)
    said = []
    paths = reproduce("all", tmp_path, say=said.append)
    assert [path.name for path in paths] == ["figure1.txt", "figure2.txt", "ozone.txt"]
    assert "figure3 is left out" in said[0]


def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")

    def fail(name):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        output.save(SimpleNamespace(savefig=fail), path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_mixture_embedding_is_the_mean_of_the_kernel():
    rng = np.random.default_rng(0)
    weights, means = np.array([0.3, 0.7]), np.array([[0.0, 1.0], [-1.0, 0.5]])
    roots = np.array([[[1.0, 0.0], [0.5, 0.3]], [[0.4, 0.1], [0.0, 0.8]]])
    covariances = roots @ roots.transpose(0, 2, 1)
    points = np.array([[0.0, 0.0], [1.0, -1.0], [-0.5, 2.0]])
    part = rng.choice(2, 200_000, p=weights)
    x = means[part] + np.einsum("nij,nj->ni", roots[part], rng.normal(size=(len(part), 2)))
    values = Gaussian(0.6).gram(points, x)
    error = values.std(axis=1) / np.sqrt(len(x))
    truth = mixture_embedding(points, 0.6, weights, means, covariances)
    assert (np.abs(values.mean(axis=1) - truth) < 4.0 * error).all()


def test_exact_components_are_equally_many():
    x = grid_sample(np.random.default_rng(0), 90, 1.0, exact=True)
    for half in (x[:90], x[90:]):
        _, counts = np.unique(np.round(half / 14.0), axis=0, return_counts=True)
        assert counts.tolist() == [10] * 9
    with pytest.raises(ValueError, match="multiple of 9"):
        grid_sample(np.random.default_rng(0), 100, exact=True)


def test_true_witness_is_that_of_a_large_sample():
    x = grid_sample(np.random.default_rng(2), 100_000, 4.0)
    points = np.array([[0.0, 0.0], [14.0, 14.0], [1.5, 1.5], [15.5, -12.5], [7.0, 7.0]])
    values = Gaussian(1.0).gram(points, x)
    found = values[:, :100_000].mean(axis=1) - values[:, 100_000:].mean(axis=1)
    # The kernel's values have a standard deviation of about 0.15; two means of 1e5 of them differ by 7e-4.
    np.testing.assert_allclose(found, true_witness(points, 1.0, 4.0), atol=2.8e-3)
    assert true_witness(points[:1], 1.0, 4.0) > 0.01
    np.testing.assert_allclose(true_witness(points, 1.0, 1.0), 0.0, atol=1e-15)


ROWS = 180


@pytest.fixture(scope="module")
def small():
    """Figure 2 with few points and few data sets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure2, "COUNTS", (100,))
        patch.setattr(figure2, "NOISES", (0.01, 1.0))
        result = figure2.run(progress=False, rows=ROWS, repetitions=2, epsilons=(1.0, 40.0), resamples=39)
        return result, figure2.report(result), figure2.plot(result)


def test_learned_kernel_sees_what_the_median_does_not(small):
    errors = small[0].errors
    assert errors.retained["paper", False, 40.0] == 0
    assert errors.retained["paper", True, 40.0] == 0
    # Equally many of each component: every relabeling unbalances them, so a wide kernel never rejects.
    assert errors.retained["median", True, 40.0] == 2
    assert errors.retained["median", True, 1.0] == 2
    assert {rule for rule, _, epsilon in errors.retained if epsilon == figure2.HARD} == {"bkl", "fused"}
    assert len(errors.lengthscales[True]) == len(errors.lengthscales[False]) == 4
    assert errors.share(("median", True, 1.0)) == (1.0, 0.0)


def test_witness_is_large_where_the_samples_differ(small):
    values, truth = small[0].witness, small[0].truth
    assert values.shape == truth.shape == (168, 168)
    there = np.abs(truth) > 0.05 * np.abs(truth).max()
    assert np.abs(values[there]).mean() > 2.0 * np.abs(values[~there]).mean()
    cells = [figure2.mean_cell(one).ravel() for one in (values, truth)]
    whole = np.corrcoef(values.ravel(), truth.ravel())[0, 1]
    assert np.corrcoef(*cells)[0, 1] > max(0.5, whole)


def test_figure2_is_drawn_and_told(small, tmp_path):
    result, sentences, figure = small
    assert whole(output.save(figure, tmp_path / "figure2.png"))
    assert "learned, exactly 20 of each: " in "\n".join(sentences)
    chosen = {noise: float(one.kernel.lengthscale) for noise, one in result.given.items()}
    assert chosen[0.01] > 10.0 * chosen[1.0]  # the optimum follows τ²


def test_figure3_in_small(tmp_path):
    plan = figure3.Plan(
        sizes=(40, 200),
        kernels=10,
        repeats=15,
        points=41,
        counts=(20,),
        lengthscales=np.geomspace(0.1, 100.0, 4),
        noises=np.geomspace(1e-8, 1.0, 5),
    )
    # The posterior by quadrature stands in for NUTS, which takes a minute.
    result = figure3.run(progress=False, plan=plan, sample=lambda x, **options: learn_kernel(x).posterior)
    lengthscale, _, _, (same, error) = result.local[20]
    assert lengthscale < 0.3 < result.witnesses[200].posterior.quantile(0.5)
    assert same - 3.0 * error > 0.2  # which would be right
    assert result.differ[40][0] < result.differ[200][0]
    assert np.unravel_index(result.ridge.argmax(), result.ridge.shape)[0] == 3  # the far end
    one = result.witnesses[200]
    expected = witness(
        one.witness.tables[0].values, one.witness.tables[1].values, kernel=one.posterior, n_kernels=10
    )
    np.testing.assert_allclose(one.bands.lower, expected.at(plan.grid, 0.8).lower)
    np.testing.assert_allclose(one.sampled.upper, one.bands.upper)  # both are the same here
    lower, upper = one.bands[2:4]
    assert one.excluded == np.mean((lower > 0.0) | (upper < 0.0), where=np.abs(plan.grid[:, 0]) <= 2.0)
    assert whole(output.save(figure3.plot(result), tmp_path / "figure3.png"))
    sentences = "\n".join(figure3.report(result))
    assert f"  the 80% band of the witness excludes 0 on {one.excluded:.0%} of [-2, 2];" in sentences
    assert "over 15 null data sets" in sentences
    assert "joint maximum is at ℓ = 2n(m - D) = 15,200" in sentences  # 400 pooled rows, 20 landmarks


def test_bands_exclude_zero_as_often_as_they_should():
    rng, plan = np.random.default_rng(0), figure3.Plan(points=41, repeats=60)
    share, error = figure3.excluded_share(100, False, figure3.band_of(Gaussian(1.0)), rng, plan)
    assert abs(share - 0.2) < 4.0 * error + 0.03  # the plug-in covariance is a little too small
    assert error < 0.05
