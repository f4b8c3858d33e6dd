"""The README says what is so."""

import doctest
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_it_says():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 10
    assert results.failed == 0


def test_the_quick_start_runs():
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "quickstart.md").read_text(), re.S)
    assert len(blocks) >= 4
    exec("\n".join(blocks), {})
