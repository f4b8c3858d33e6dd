"""What a command prints: the answer on standard output, remarks on standard error, or one JSON object."""

import json
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kembed import __version__
from kembed.cli.words import readable, to_nowhere
from kembed.core.progress import watched
from kembed.core.text import label, printable, visible
from kembed.core.writing import SCHEMA, jsonable

ESTIMATED = 0.3  # share of the work after which the time left is estimated


class _Pipe(Console):
    """A console that does not mind when its reader leaves."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        to_nowhere(sys.stdout)


def complain(message: str) -> None:
    """One line on standard error: what was wrong."""
    _aside(Console(stderr=True, highlight=False), "kembed: ", "bold red", message)


def _aside(console: Console, start: str, style: str, message: str) -> None:
    try:
        console.print(Text.assemble((start, style), visible(message)), soft_wrap=True)
    except OSError:  # standard error is full: remarks go nowhere, the answer stands
        to_nowhere(sys.stderr)


def _cell(value: Any, form: str) -> str:
    return value if isinstance(value, str) else "" if value is None else format(value, form)


class Screen:
    """The output of one command: for people, for people in a hurry (`quiet`), or for machines (`json`)."""

    def __init__(self, arguments: Sequence[str], *, quiet: bool = False, json: bool = False) -> None:
        self.arguments, self.json, self.quiet = arguments, json, quiet
        self.out, self.err = _Pipe(highlight=False), Console(stderr=True, highlight=False)
        self.notes: list[str] = []
        self.resources = ExitStack()  # what is let go when the command ends, such as workers
        # The library's warnings are notes; what calls a command puts Python's own way back.
        warnings.showwarning = lambda message, *_, **__: self.note(readable(Warning(message)))

    def note(self, message: str) -> None:
        """One line on standard error: what the reader should know; it is also part of the JSON."""
        self.notes.append(visible(message))
        _aside(self.err, "note: ", "yellow", message)

    def remark(self, notes: Sequence[str]) -> None:
        """The notes of a result, each once."""
        for note in dict.fromkeys(map(visible, notes)):
            if note not in self.notes:
                self.note(note)

    @contextmanager
    def waiting(self, what: str) -> Iterator[bool]:
        """A line on a terminal with the stage, how much is done and the time left, where that is known.

        It makes room for bars; yields whether the library may draw them.
        """
        if self.quiet or not self.err.is_terminal or self.err.is_dumb_terminal:
            yield False
            return
        from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

        columns = SpinnerColumn("line"), "{task.description}", TimeElapsedColumn()
        how: Any = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
        spinner = Progress(*columns, console=self.err, **how)
        title = escape(printable(what))
        task, start = spinner.add_task(title, total=None), time.monotonic()

        def on_stage(now: str, share: float) -> None:
            left = (time.monotonic() - start) * (1.0 / share - 1.0) if share >= ESTIMATED else 0.0
            rest = f" ({share:.0%}, about {max(left, 1.0):.0f} s left)" if left else ""
            spinner.update(task, description=f"{title}: {escape(now)}{rest}")

        @contextmanager
        def aside() -> Iterator[None]:
            spinner.stop()
            yield
            spinner.start()

        with spinner, watched(aside, on_stage):
            yield True

    def say(self, sentence: str, style: str = "bold") -> None:
        """One line of the answer; cut by the terminal and not by us, so that a pipe gets it whole."""
        if not self.json:
            self.out.print(Text(printable(sentence), style), soft_wrap=not self.out.is_terminal)

    def more(self, *sentences: str, style: str = "") -> None:
        """A paragraph for those who have the time."""
        if not (self.json or self.quiet):
            self.out.print()
            for sentence in sentences:
                self.say(sentence, style)

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and values, one pair a line."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True, max_width=30)
        table.add_column(overflow="fold")
        self._table(table, rows)

    def table(self, header: dict[str, str], rows: Sequence[Sequence[Any]]) -> None:
        """A table of columns with their formats: none for words, ">" for text set as numbers are."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, form in header.items():
            table.add_column(Text(name), justify="right" if form else "left", overflow="fold")
        self._table(table, [list(map(_cell, row, header.values())) for row in rows])

    def _table(self, table: Table, rows: Sequence[Sequence[str]]) -> None:
        if self.json or self.quiet or not rows:
            return
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        with self.out.capture() as captured:
            self.out.print(table)
        self.out.print()
        for line in captured.get().splitlines():  # Rich fills lines with spaces, which do not copy well
            self.out.print(Text.from_ansi(line.rstrip()), soft_wrap=True)

    def wrote(self, files: Sequence[Path]) -> None:
        """Name the files that were written."""
        self.more(*(f"wrote {label(file)}" for file in files))

    def finish(self, payload: dict[str, Any], how: str = "", *, repeatable: bool = True) -> None:
        """What was written, and how to get the same again; with `--json`, the one object."""
        if payload.get("output") is not None:
            self.wrote([payload["output"]])
        if repeatable:
            seed = payload.get("seed")  # None where nothing is drawn
            title = f"kembed {__version__}{'' if seed is None else f', seed {seed}'}{how}. To repeat:"
            self.more(title, f"  {self.repeated(seed)}", style="dim")
        if self.json:
            try:
                sys.stdout.write(self.as_json(payload) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                to_nowhere(sys.stdout)

    def repeated(self, seed: int | None) -> str:
        """The command that gives the same again."""
        seeded = seed is None or any(word.partition("=")[0] == "--seed" for word in self.arguments)
        end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)  # of options
        added = [] if seeded else ["--seed", str(seed)]
        return shlex.join(["kembed", *self.arguments[:end], *added, *self.arguments[end:]])

    def as_json(self, payload: dict[str, Any]) -> str:
        """The object as text, with the versions, the command and all notes; docs/json.md has every key."""
        common = {"kembed": __version__, "schema": SCHEMA, "command": self.arguments[0]}
        payload = {key: value for key, value in payload.items() if key != "notes"}  # these are among ours
        text = json.dumps(jsonable({**common, **payload, "notes": self.notes}), allow_nan=False)
        return text.replace(
            "\x7f", "\\u007f"
        )  # the one character of ASCII that JSON lets through to terminals
