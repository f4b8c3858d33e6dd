"""The experiments in small: what they measure, and what is written."""

import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest
from experiments.mixtures import grid_sample, mixture_embedding, true_witness

from experiments import __main__ as command
from experiments import figure2, figure3, ozone
from kembed import Gaussian, learn_kernel, witness


def drawn(figure, path):
    figure.savefig(path)
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_figure_is_a_picture_and_the_sentences_that_are_printed(tmp_path, capsys):
    command.main(["figure1", "--output", str(tmp_path / "new" / "folder")])
    said = capsys.readouterr().out
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert [file.name for file in files] == ["figure1.png", "figure1.txt"]
    assert files[1].read_text(encoding="utf-8") == said
    # The paper: the posterior is slightly smoother than the empirical embedding, its interval goes below 0.
    smoother, below = (
        [float(share) for share in re.findall(pattern, said)]
        for pattern in (r"has ([\d.]+)% of the squared bend", r"below 0 on ([\d.]+)%")
    )
    assert len(smoother) == 2  # the text's lengthscale, and the caption's
    assert 90.0 < smoother[0] < 100.0
    assert 99.0 < smoother[1] < 101.0  # with the caption's lengthscale there is nothing left to smooth
    assert all(share > 20.0 for share in below)


def test_all_is_every_name_and_quick_says_so(tmp_path, monkeypatch, capsys):
    figure = SimpleNamespace(savefig=lambda path: path.write_text("drawn"))
    stub = SimpleNamespace(run=lambda size=50, cache=None: size, plot=lambda size: figure, QUICK={"size": 5})
    stub.report = lambda size: [f"size {size}"]
    monkeypatch.setattr(command.importlib, "import_module", lambda name: stub)
    command.main(["all", "--output", str(tmp_path)])
    assert capsys.readouterr().out.split("\n")[:-1] == ["size 50"] * len(command.NAMES)
    assert sorted(file.stem for file in tmp_path.glob("*.png")) == sorted(command.NAMES)
    command.main(["figure2", "--quick", "--output", str(tmp_path)])
    assert capsys.readouterr().out == f"{command.QUICK_NOTE}: figure2.\nsize 5\n"


def test_another_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["figure4"])
    assert "invalid choice: 'figure4'" in capsys.readouterr().err


@pytest.mark.parametrize("module", [figure2, figure3, ozone])
def test_every_quick_plan_is_one_that_the_figure_takes(module):
    inspect.signature(module.run).bind(**module.QUICK)


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
        result = figure2.run(rows=ROWS, repetitions=2, epsilons=(1.0, 40.0), resamples=39)
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
    assert drawn(figure, tmp_path / "figure2.png")
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
    result = figure3.run(plan=plan, sample=lambda x, **options: learn_kernel(x).posterior)
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
    assert drawn(figure3.plot(result), tmp_path / "figure3.png")
    sentences = "\n".join(figure3.report(result))
    assert f"  the 80% band of the witness excludes 0 on {one.excluded:.0%} of [-2, 2];" in sentences
    assert "over 15 null data sets" in sentences
    assert "joint maximum is at ℓ = 2n(m - D) = 15,200" in sentences  # 400 pooled rows, 20 landmarks


def test_bands_exclude_zero_as_often_as_they_should():
    rng, plan = np.random.default_rng(0), figure3.Plan(points=41, repeats=60)
    share, error = figure3.excluded_share(100, False, figure3.band_of(Gaussian(1.0)), rng, plan)
    assert abs(share - 0.2) < 4.0 * error + 0.03  # the plug-in covariance is a little too small
    assert error < 0.05
