"""The README says what is so."""

import doctest
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_it_says():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 10
    assert results.failed == 0


@pytest.mark.parametrize(("page", "least"), [("quickstart", 5), ("testing", 2)])
def test_the_pages_with_examples_run(page, least):
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / f"{page}.md").read_text(), re.S)
    assert len(blocks) >= least
    exec("\n".join(blocks), {})
