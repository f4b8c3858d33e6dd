"""What a command prints: the answer on standard output, remarks on standard error, or one JSON object."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kembed import __version__
from kembed.cli.spinner import Spinner
from kembed.cli.words import printable, readable
from kembed.data.files import label

# An exact test of more rows than this may take minutes.
LONG = 20_000


class _Pipe(Console):
    """A console that does not mind when its reader leaves."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _close_pipe()


def _close_pipe() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str) -> None:
    """One line on standard error: what was wrong."""
    _aside("kembed: ", "bold red", message)


def _aside(start: str, style: str, message: str) -> None:
    line = Text.assemble((start, style), " ".join(message.split()))
    Console(stderr=True, highlight=False, soft_wrap=True).print(line)


class Screen:
    """The output of one command: for people, for people in a hurry (`quiet`), or for machines (`json`)."""

    def __init__(self, *, json: bool, quiet: bool) -> None:
        self.json, self.quiet = json, quiet
        self.out = _Pipe(highlight=False)
        self.notes: list[str] = []
        self.spinner: Spinner | None = None
        # The library's warnings are notes; what calls a command puts Python's own way back.
        warnings.showwarning = lambda message, *_, **__: self.note(readable(Warning(message)))

    def note(self, message: str) -> None:
        """One line on standard error: what the reader should know; it is also part of the JSON."""
        self.notes.append(" ".join(message.split()))
        if not self.quiet:
            with nullcontext() if self.spinner is None else self.spinner.aside():
                _aside("note: ", "yellow", message)

    def patience(self, rows: int, fast: bool) -> None:
        """Tell that an exact statistic of so many rows takes long, and what does not."""
        if rows > LONG and not fast:
            self.note(f"{rows:,} rows may take minutes; --fast takes a time linear in the rows")

    @contextmanager
    def waiting(self, what: str) -> Iterator[bool]:
        """A spinner on a terminal; yields whether the library may draw a bar there."""
        console = Console(stderr=True)
        if self.quiet or not console.is_terminal or console.is_dumb_terminal:
            yield False
            return
        with Spinner(printable(what)) as self.spinner:
            try:
                yield True
            finally:
                self.spinner = None

    def say(self, sentence: str, style: str = "bold") -> None:
        """One line of the answer; cut by the terminal and not by us, so that a pipe gets it whole."""
        if not self.json:
            self.out.print(Text(sentence, style), soft_wrap=not self.out.is_terminal)

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one pair a line."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True, max_width=30)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self._table(table)

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], words: Collection[int] = (0,)
    ) -> None:
        """A table; the columns in these places hold words, the others numbers."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for place, name in enumerate(header):
            table.add_column(Text(name), justify="left" if place in words else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._table(table)

    def _table(self, table: Table) -> None:
        if self.json or self.quiet:
            return
        with self.out.capture() as captured:
            self.out.print(table)
        self.out.print()
        for line in captured.get().splitlines():  # Rich fills lines with spaces, which do not copy well
            self.out.print(Text.from_ansi(line.rstrip()), soft_wrap=True)

    def wrote(self, files: Sequence[Path]) -> None:
        """Name the files that were written."""
        if not (self.json or self.quiet):
            self.out.print()
            for file in files:
                self.say(f"wrote {label(file)}", "")

    def repeat(self, arguments: Sequence[str], seed: int, how: str = "") -> None:
        """How to get the same again."""
        if self.json or self.quiet:
            return
        again = [*arguments] if _has_seed(arguments) else [*arguments, "--seed", str(seed)]
        self.out.print()
        self.say(f"kembed {__version__}, seed {seed}{how}. To repeat:", "dim")
        self.say(f"  {printable(shlex.join(['kembed', *again]))}", "dim")

    def finish(self, payload: dict[str, Any]) -> None:
        """With `--json`, the one object; numbers that JSON does not know become null."""
        if not self.json:
            return
        try:
            sys.stdout.write(self.as_json(payload) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            _close_pipe()

    def as_json(self, payload: dict[str, Any]) -> str:
        """The object as text, with the version and all notes."""
        return json.dumps(_plain({"kembed": __version__, **payload, "notes": self.notes}), allow_nan=False)


def _has_seed(arguments: Sequence[str]) -> bool:
    return any(word == "--seed" or word.startswith("--seed=") for word in arguments)


def _plain(value: Any) -> Any:
    """What the json module knows, from NumPy's scalars and arrays too."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
