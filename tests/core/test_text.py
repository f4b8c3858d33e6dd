"""Numbers and names for people: digits that count are kept, and nothing is longer than asked."""

import math

import numpy as np
import pytest

from kembed.core.text import listing, plain, printable, rows, shortened

VALUES = [*np.random.default_rng(0).lognormal(sigma=8.0, size=200).tolist(), 1.0, 9.9999, 999_999.5, 0.001]


@pytest.mark.parametrize("digits", [2, 3, 6])
@pytest.mark.parametrize("powers", [False, True])
def test_a_number_is_right_to_its_digits(digits, powers):
    for value in VALUES:
        text = plain(value, digits, thousands=True, powers=powers)
        base, _, power = text.replace(",", "").partition("×10")
        power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        if base.startswith("10") and set(base[2:]) & set("⁻⁰¹²³⁴⁵⁶⁷⁸⁹"):
            power, base = base[2:].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")), "1"
        shown = float(base) * 10.0 ** int(power or 0)
        assert shown == pytest.approx(value, rel=0.5000001 * 10.0 ** (1 - digits)), text
        assert plain(-value, digits, thousands=True, powers=powers, minus="~").startswith("~")


def test_what_is_no_number():
    assert [plain(value) for value in (math.nan, math.inf, -math.inf, -0.0)] == ["nan", "inf", "-inf", "0"]
    assert plain(-math.inf, powers=True, minus="−") == "−inf"


@pytest.mark.parametrize("width", [2, 3, 7, 16, 24])
def test_shortened_keeps_both_ends(width):
    text = "abcdefghijklmnopqrstuvwxyz"
    short = shortened(text, width)
    head, tail = short.split("…")
    assert len(short) == width
    assert text.startswith(head)
    assert text.endswith(tail)
    assert shortened(text[:width], width) == text[:width]


def test_names_and_counts():
    assert listing([f"v{k}" for k in range(8)]).endswith("'v7'")
    assert listing([f"v{k}" for k in range(20)]).endswith("'v7' and 12 more")
    assert listing([]) == ""
    assert (rows(0), rows(1), rows(1_000)) == ("0 rows", "1 row", "1,000 rows")
    assert printable("\x1b[31mred") == "\\x1b[31mred"
