"""What JAX compiled is kept for the next process, where that is wanted and possible."""

import os
import subprocess
import sys

import pytest

LEARN = """
import numpy as np, kembed
kembed.learn_kernel(np.random.default_rng(0).normal(size=(60, 17)), kembed.Gaussian(np.ones(17)))
"""


COMPILE = """
import jax
from kembed.core.backend import keep_compiled
keep_compiled()
jax.jit(lambda x: x + 1.0)(1.0)
"""


def in_a_new_process(code, home, **more):
    env = {**os.environ, "XDG_CACHE_HOME": str(home), "KEMBED_KEEP_COMPILED": "1", **more}
    env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=env)


def test_programs_are_kept_and_used_again(tmp_path):
    folder = tmp_path / "kembed" / "compiled"
    folder.mkdir(parents=True)
    for k in range(250):  # the oldest go
        (folder / f"{k:03}").touch()
        os.utime(folder / f"{k:03}", (k, k))
    in_a_new_process(LEARN, tmp_path)
    kept = {path.name for path in folder.iterdir()}
    programs = {name for name in kept if "objective" in name}
    assert programs
    assert {name for name in kept if len(name) == 3} == {f"{k:03}" for k in range(50, 250)}
    in_a_new_process(LEARN, tmp_path)
    assert {path.name for path in folder.iterdir() if "objective" in path.name} == programs


@pytest.mark.parametrize("why", ["unwanted", "no folder", "one of JAX"])
def test_programs_are_not_kept(tmp_path, why):
    home, other = tmp_path / "home", tmp_path / "other"
    if why == "no folder":
        home.write_text("a file where the folder should be")
        return in_a_new_process(COMPILE, home)
    more = {"KEMBED_KEEP_COMPILED": "0"} if why == "unwanted" else {"JAX_COMPILATION_CACHE_DIR": str(other)}
    in_a_new_process(COMPILE, home, **more)
    assert not (home / "kembed").exists()
    return None
