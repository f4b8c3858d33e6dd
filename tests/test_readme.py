"""What the README and the pages say is so.

In a page every `python` block runs, in order and in one namespace, and so does a `console` block whose
command is `kembed`. What they print must be what the page shows: in the `text` block after the Python, or
under the command. `python tests/test_readme.py [PAGE ...]` writes what was really seen into the pages, and
also runs `py` blocks, which take too long for a test.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [
    "quickstart",
    "howto/drift",
    "howto/decisions",
    "howto/when",
    "howto/ab-test",
    "howto/shift",
    "howto/independence",
    "howto/causal",
    "howto/kernels",
    "howto/large-data",
    "howto/data",
    "howto/bags",
    "howto/estimators",
]
WIDTH = "96"
BLOCK = re.compile(
    r"^```(?P<kind>python|py|console)\n(?P<code>.*?)^```\n(?P<shown>\n```text\n.*?^```\n)?", re.S | re.M
)


def test_the_example_prints_what_it_says():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 10
    assert results.failed == 0


def test_the_blocks_of_the_testing_page_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.S)
    assert len(blocks) >= 2
    exec("\n".join(blocks), {})


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_code_prints(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert text.count("\n```text\n") >= (1 if page == "howto/data" else 3)
    assert seen(text) == text


def test_a_page_that_shows_something_else_is_noticed():
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert seen(page) == page.replace("3", "2")


def seen(page: str, slow: bool = False) -> str:
    """The page with the output that its code really gives; with `slow` that of `py` blocks as well."""
    namespace: dict = {}
    of_slow: dict = {}  # names that `py` blocks made: later ones see them, `python` blocks do not

    def run(block: re.Match) -> str:
        code = block["code"]
        command = block["kind"] == "console"
        if (command and not code.startswith("$ kembed ")) or (block["kind"] == "py" and not slow):
            return block[0]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if command:
                _run_command(code.splitlines()[0])
            else:
                # What a slow block sets must not change what comes after it, since tests leave it out.
                names = {**namespace, **of_slow} if block["kind"] == "py" else namespace
                exec(code, names)
                if block["kind"] == "py":
                    of_slow.update((key, value) for key, value in names.items() if key not in namespace)
        output = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
        if command:
            return f"```console\n{code.splitlines()[0]}\n{output}```\n"
        shown = "" if block["shown"] is None else f"\n```text\n{output}```\n"
        return f"```{block['kind']}\n{code}```\n{shown}"

    return BLOCK.sub(run, page)


def _run_command(line: str) -> None:
    from kembed.cli import run

    assert run(shlex.split(line)[2:]) == 0


if __name__ == "__main__":
    os.environ["COLUMNS"] = WIDTH
    for name in sys.argv[1:] or PAGES:
        path = ROOT / "docs" / f"{name}.md"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(seen(path.read_text(), slow=True))
