"""A plain installation has no JAX: every main call and command works without it, or names the remedy."""

import json
import subprocess
import sys

import pytest

# One process for all: it blocks JAX as if it were not installed, and writes down what each call said.
PROLOGUE = """
import contextlib, importlib.abc, io, json, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "numpyro", "arviz"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import kembed
from kembed.cli import run

rng = np.random.default_rng(0)
x, y = rng.normal(size=(40, 3)), rng.normal(0.5, size=(30, 3))
for name, table in (("a.csv", x), ("b.csv", y)):
    np.savetxt(name, table, delimiter=",", header="u,v,w", comments="")
said = {}

def tried(name, call):
    try:
        call()
        said[name] = "done"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"

def command(*arguments):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run(arguments)
    if code:
        raise RuntimeError(errors.getvalue())
"""
CALLS = {
    "import *": "[getattr(kembed, one) for one in kembed.__all__]",
    "mmd_test": "kembed.mmd_test(x, y, rng=0, n_resamples=49)",
    "bkl": "kembed.mmd_test(x, y, kernel='bkl', rng=0, n_resamples=49)",
    "ard": "kembed.mmd_test(x, y, kernel='ard', rng=0, n_resamples=49)",
    "hsic_test": "kembed.hsic_test(x[:, :1], x[:, 1:], rng=0, n_resamples=49)",
    "k_sample_test": "kembed.k_sample_test(x, y, x[:20], rng=0, n_resamples=49)",
    "conditional_test": "kembed.conditional_test(x[:, 0], x[:, 1], x[:, 2], rng=0)",
    "pc": "kembed.pc(x, rng=0, n_resamples=49)",
    "compare": "kembed.compare(x, y, n_resamples=49)",
    "witness": "kembed.witness(x, y).where()",
    "learn_kernel": "kembed.learn_kernel(x)",
    "density": "kembed.learn_kernel(x[:, :1]).log_density([[0.0]])",
    "families": "kembed.learn_kernel(x, 'auto')",
    "prior": "kembed.learn_kernel(x, prior=lambda kernel: -kernel.lengthscale)",
    "many numbers": "kembed.learn_kernel(rng.normal(size=(40, 18)), kembed.Gaussian(np.ones(18)))",
    "objective='paper'": "kembed.learn_kernel(x, objective='paper', noise=1.0)",
    "ARD by objective='paper'": (
        "kembed.learn_kernel(x, kembed.Gaussian(np.ones(3)), objective='paper', noise=1.0)"
    ),
    "log_pseudolikelihood": (
        "kembed.log_pseudolikelihood(x, kernel=kembed.Gaussian(), noise=1.0, landmarks=x[:9])"
    ),
    "paper": "kembed.mmd_test(x, y, kernel='paper', rng=0, n_resamples=49)",
    "hsic paper": "kembed.hsic_test(x[:, :1], x[:, 1:], kernel='paper', rng=0, n_resamples=49)",
    "witness paper": "kembed.witness(x, y, kernel='paper').where()",
    "k samples paper": "kembed.k_sample_test(x, y, x[:20], kernel='paper', rng=0, n_resamples=49)",
    "conditional paper": "kembed.conditional_test(x[:, 0], x[:, 1], x[:, 2], kernel='paper', rng=0)",
    "compare paper": "kembed.compare(x, y, kernel='paper', n_resamples=49)",
    "bayes_factor": "kembed.bayes_factor(x, y, n_resamples=49)",
    "posterior": "kembed.learn_kernel(x).posterior.quantile(0.5)",
    "posterior of two numbers": (
        "kembed.learn_kernel(x[:, :2], kembed.Gaussian(np.ones(2))).posterior.kernels(5)"
    ),
    "posterior of the paper": "kembed.learn_kernel(x, objective='paper', noise=1.0).posterior",
    "witness posterior": "kembed.witness(x, y, kernel='posterior').where()",
    "KernelLearner": "kembed.KernelLearner().fit(x).transform(x)",
    "MeanEmbedding": "kembed.MeanEmbedding().fit([x, y]).transform([x, y])",
    "bayes_factor of mixed columns": (
        "kembed.bayes_factor({'a': x[:, 0], 'b': ['u', 'v'] * 20}, {'a': y[:, 0], 'b': ['u'] * 30}, "
        "n_resamples=49)"
    ),
    "the size of a difference": "kembed.compare(x, y, n_resamples=49).effect.interval[1]",
    "DistributionRegressor": "kembed.DistributionRegressor().fit([x, y, x[:9]], [0, 1, 2]).predict([x])",
    "bags in one table": (
        "kembed.DistributionRegressor(bags='bag').fit({'u': x[:, 0], 'bag': np.arange(40) // 5}, "
        "np.arange(8.0)).predict({'u': y[:, 0], 'bag': np.arange(30) // 5}, return_std=True)"
    ),
    "Sketch": "kembed.mmd_test(kembed.Sketch.of(x), y, rng=0)",
    "fit_embedding": "kembed.fit_embedding(x, kembed.Gaussian(1.0)).interval(x[:2])",
    "convolved": "kembed.Matern32().convolved(kembed.GaussianMeasure(np.zeros(3), np.eye(3))).gram(x, x)",
    "kembed test": "command('test', 'a.csv', 'b.csv', '--resamples', '49')",
    "kembed witness": "command('witness', 'a.csv', 'b.csv')",
    "--bayes": "command('test', 'a.csv', 'b.csv', '--bayes', '--resamples', '49')",
    "witness --kernel paper": "command('witness', 'a.csv', 'b.csv', '--kernel', 'paper')",
    "independence --kernel paper": (
        "command('independence', 'a.csv', '--x', 'u', '--y', 'v', '--kernel', 'paper', '--resamples', '49')"
    ),
    "--kernel paper": "command('test', 'a.csv', 'b.csv', '--kernel', 'paper', '--resamples', '49')",
    "kembed report": "command('report', 'a.csv', 'b.csv', '-o', 'page.html', '--resamples', '49')",
    "kembed independence": "command('independence', 'a.csv', '--x', 'u', '--y', 'v', '--resamples', '49')",
    "kembed graph": "command('graph', 'a.csv', '--resamples', '49')",
    "kembed learn": "command('learn', 'a.csv', '--family', 'auto')",
}
REFUSED = {
    "sample_kernel": ("kembed.sample_kernel(x)", "kembed[bayes]"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    calls = CALLS | {name: call for name, (call, _) in REFUSED.items()}
    code = [PROLOGUE]
    code += [f"tried({name!r}, lambda: {call})" for name, call in calls.items()]
    code.append("print(json.dumps(said))")
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join(code)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CALLS)
def test_works_without_jax(name, said):
    assert said[name] == "done"


@pytest.mark.parametrize("name", REFUSED)
def test_says_what_to_install(name, said):
    assert "Error" in said[name]
    assert "ModuleNotFoundError" not in said[name]
    assert f"pip install '{REFUSED[name][1]}'" in said[name]
