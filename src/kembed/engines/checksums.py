"""Checksums of Parquet pages: damage that would otherwise be read as other numbers.

A flipped bit in an uncompressed page is a number like any other. Files that carry a checksum for every page
(pyarrow writes them with `write_page_checksum=True`) are verified in the first pass, by pyarrow, if it is
installed: Polars does not look. A file without checksums cannot be checked by anybody.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

FIRST = 4  # where the first page of a file begins, after the letters PAR1
HEADER = 32  # bytes of a page's header that hold its first four fields
INTEGER = 0x15  # how the next field begins, if it is a number of 32 bits (Thrift's compact protocol)
BATCH = 2**16  # rows that are decoded at a time


def verify_rows(path: str, first: int, rows: int, columns: tuple[str, ...]) -> None:
    """Verify the row groups of a file that begin among these rows; nothing where there are no checksums."""
    about = Path(path).stat()
    starts = group_starts(path, (about.st_size, about.st_mtime_ns))
    groups = [number for number, start in enumerate(starts) if first <= start < first + rows]
    if not groups:
        return
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, page_checksum_verification=True) as file:
        for _ in file.iter_batches(BATCH, row_groups=groups, columns=list(columns), use_threads=False):
            pass


@lru_cache(maxsize=64)
def group_starts(path: str, version: tuple[int, int]) -> tuple[int, ...]:
    """The first row of every row group of a file whose pages have checksums; () for any other.

    A file that is written anew has another `version` and is looked at again.
    """
    with Path(path).open("rb") as stream:
        stream.seek(FIRST)
        if not has_checksum(stream.read(HEADER)):
            return ()
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        return ()
    with ParquetFile(path) as file:
        about: Any = file.metadata
    sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    return tuple(sum(sizes[:number]) for number in range(len(sizes)))


def has_checksum(header: bytes) -> bool:
    """Whether a page's header has its fourth field: after the page's type and two lengths, the checksum.

    >>> has_checksum(bytes([0x15, 0, 0x15, 200, 1, 0x15, 7, 0x15, 9])), has_checksum(bytes([0x15, 0]))
    (True, False)
    """
    place = 0
    for _ in range(3):
        if place >= len(header) or header[place] != INTEGER:
            return False
        place += 1
        while place < len(header) and header[place] & 0x80:  # a number goes on while the highest bit is set
            place += 1
        place += 1
    return place < len(header) and header[place] == INTEGER
