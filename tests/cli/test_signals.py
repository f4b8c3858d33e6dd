"""Ctrl-C and SIGTERM in a real process: the exit code says so, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
# XLA has threads of its own once something has run; they crash if Python takes itself down under them.
LOADED = """
import sys, jax, jax.numpy as jnp
jax.jit(lambda a: a @ a)(jnp.ones((300, 300))).block_until_ready()
sys.stderr.write("ready\\n"); sys.stderr.flush()
from kembed.cli import main
main()
"""
WRITING = """
import sys, time
from pathlib import Path
from kembed.cli import listen
from kembed.core.writing import write_whole
def slowly(draft):
    draft.write_text("half")
    sys.stderr.write("ready\\n"); sys.stderr.flush()
    while True:
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            if len(sys.argv) > 1 and not swallowed:
                swallowed.append(1)  # as callbacks of libraries do
                continue
            raise
swallowed = []
listen(again=1.0)
write_whole("page.html", slowly)
"""


# A signal that comes while Python collects garbage is raised in a callback of the collector (JAX has one).
COLLECTING = """
import gc, os, signal, sys
def callback(phase, info):
    if "typer" in sys.modules:
        gc.callbacks.remove(callback)
        os.kill(os.getpid(), signal.SIGINT)
gc.set_threshold(10)
gc.callbacks.append(callback)
from kembed.cli import main
main()
"""


# Says when the workers are there, and then waits.
WORKING = """
import sys, time
from kembed.tables import dask
def waits(client):
    sys.stderr.write("ready\\n"); sys.stderr.flush()
    time.sleep(60)
dask.Dask = waits
from kembed.cli import main
main()
"""


def stopped(folder, number: int, *command: str) -> tuple[int, str]:
    """Send a signal once the process is ready: its exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "KEMBED_KEEP_COMPILED": "0"},
    )
    with process:
        said = process.stderr.readline()
        assert said == "ready\n", said + process.stderr.read()
        time.sleep(0.5)  # until it waits for its input
        process.send_signal(number)
        code = process.wait(60)
        return code, process.stderr.read()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_once_jax_is_loaded(tmp_path, number, code):
    (tmp_path / "b.csv").write_text("a\n1\n2\n3\n")
    found, said = stopped(tmp_path, number, "-c", LOADED, "test", "-", "b.csv")
    assert found == code
    assert "Traceback" not in said


@pytest.mark.parametrize("swallowed", [(), ("swallowed",)], ids=["at once", "swallowed"])
def test_no_draft_is_left(tmp_path, swallowed):
    code, _ = stopped(tmp_path, signal.SIGTERM, "-c", WRITING, *swallowed)
    assert code != 0
    assert list(tmp_path.iterdir()) == []


def test_a_signal_in_a_callback_of_the_collector_is_not_lost(tmp_path):
    """Python says that it ignores what a callback raises: the signal comes again, and nothing is said."""
    (tmp_path / "b.csv").write_text("a\n1\n2\n3\n")
    process = subprocess.Popen(
        [sys.executable, "-c", COLLECTING, "test", "-", "b.csv"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,  # nothing comes: it waits until it is stopped
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        said = process.stderr.read()
        assert process.wait(60) == 130
        assert "Traceback" not in said


def test_an_interrupt_says_nothing_of_workers(tmp_path):
    """A terminal sends Ctrl-C to the whole process group: to the workers of `--scheduler local` too."""
    rows = "\n".join(map(str, range(50)))
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"u\n{rows}\n")
    process = subprocess.Popen(
        [sys.executable, "-c", WORKING, "test", "a.csv", "b.csv", "--scheduler", "local:1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a process group of its own
    )
    with process:
        assert process.stderr.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert said == "kembed: interrupted\n"
