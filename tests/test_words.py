"""The field's words: names and sentences of the private language do not come back; prose lines are short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PRIVATE = re.compile(
    r"foretel|foretold|\bsurpris|\bloud(est)?\b|\bvoices?\b|\bstrangers\b|\bdoubt(less)?\b"
    r"|(?<!almost )\bsurely\b|\btold\b|\bset aside\b|\bfounder\b|speaks? for themselves|in company\b",
    re.IGNORECASE,
)
LONGEST = 120


@pytest.mark.parametrize("path", [*PAGES, *sorted((ROOT / "src").rglob("*.py"))], ids=lambda path: path.name)
def test_no_private_words(path):
    text = path.read_text(encoding="utf-8")
    found = [f"{number}: {line}" for number, line in enumerate(text.splitlines(), 1) if PRIVATE.search(line)]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_prose_lines_are_short(path):
    code, long = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            code = not code
        elif not code and len(line) > LONGEST and not line.startswith(("|", "<", "![")):
            long.append(f"{number}: {line}")
    assert long == []


def test_a_private_word_is_noticed():
    assert PRIVATE.search("every row is foretold from the others")
    assert not PRIVATE.search("draws almost surely lie outside")
