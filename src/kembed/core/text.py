"""Numbers as people write them."""

from __future__ import annotations

import math


def plain(value: float, digits: int = 4) -> str:
    """So many digits that count, without powers of ten where people need none.

    >>> plain(47012.3), plain(1116.0), plain(0.0123456), plain(-2.0), plain(3.2e-9), plain(0.0)
    ('47012', '1116', '0.01235', '-2', '3.2e-09', '0')
    """
    size = abs(value)
    if value == 0.0 or not 1e-4 <= size < 1e7:  # nan and infinity too
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
