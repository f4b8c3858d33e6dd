"""Some rows of a source, drawn at random by their numbers: what pictures and scales are made of."""

import numpy as np

from kembed.core.shuffling import shuffled
from kembed.core.text import rows as counted_rows
from kembed.data.tables import Table
from kembed.engines.memory import as_table
from kembed.engines.source import Block, Source, Stacked

ROWS = 50_000  # a scale, a band and a picture are known well enough from so many
KEY = 0  # of the draw: the same source gives the same rows


def sampled_table(source: Source, count: int = ROWS, key: int = KEY) -> tuple[Table, str]:
    """So many rows of a source (all, if there are fewer) as a table, and what to say of it."""
    table = as_table(source, source.map_sum(take_drawn, source.size, min(count, source.size), key).table)
    if source.size <= count:
        return table, ""
    drawn = f"{counted_rows(count)} drawn at random of the {source.size:,} of {source.label}"
    return table, f"regions, pictures and summaries rest on {drawn}; the test on all"


def take_drawn(block: Block, size: int, count: int, key: int) -> Stacked:
    """The rows of a block that are drawn."""
    numbers = np.arange(block.first, block.first + len(block.values))
    return Stacked((block.values[shuffled(numbers, size, key) < count],))
