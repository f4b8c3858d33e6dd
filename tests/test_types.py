"""What a type checker sees of the public names, which are imported when they are first used."""

import ast
import os
from pathlib import Path

import kembed

SOURCE = Path(kembed.__file__)
# A line that ends in "# wrong" must be reported, and no other line.
SCRIPT = """
import numpy as np

import kembed
from kembed import ConditionalTester, adapters

x = np.zeros((9, 2))
outcome = kembed.mmd_test(x, x, kernel="median")
pvalue: float = outcome.pvalue
kembed.mmd_test(x, x, kernal="median")  # wrong
kembed.mmd_tset(x, x)  # wrong
outcome.p_value  # wrong
kembed.compare(x, x).plot()
kembed.hsic_test(x, x, n_resample=99)  # wrong
kembed.conditional_test(x, x, z=x)  # wrong
ConditionalTester(x, alfa=0.1)  # wrong
kembed.KernelLearner(familiy="gaussian")  # wrong
kembed.pc(x, alfa=0.1)  # wrong
kembed.fit_embedding(x, kembed.Gaussian(lengthscale=1.0))
kembed.Gaussian(lenghtscale=1.0)  # wrong
adapters.causal_learn(x, "kernel", "more")  # wrong
"""


def test_wrong_names_and_keywords_are_type_errors(tmp_path, monkeypatch):
    from mypy import api

    path = tmp_path / "user.py"
    path.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", os.fspath(SOURCE.parents[1]))
    # Without the other libraries, whose names are then Any, a run takes one second instead of six.
    options = ["--strict", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    output, errors, _ = api.run(
        ["--config-file=", f"--cache-dir={tmp_path}", *options, "--no-error-summary", os.fspath(path)]
    )
    assert errors == ""
    reported = {int(line.split(":")[1]) for line in output.splitlines() if ": error: " in line}
    wrong = {number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# wrong")}
    assert reported == wrong, output


def test_type_checkers_import_every_name_from_where_it_is():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (checking,) = [node for node in tree.body if isinstance(node, ast.If)]
    static = {
        alias.asname: node.module.removeprefix("kembed.")
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert static == kembed._HOME
