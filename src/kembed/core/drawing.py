"""How a result draws itself, or becomes a page, without importing plotting and reporting.

A class that derives from `Drawn` is drawn by the function that `kembed.plotting` keeps under the name of the
class (or of the nearest one it derives from).
"""

import html
import importlib
from collections.abc import Sequence
from typing import Any


class Shown:
    """A result that notebooks show: the first line of its text, then a table if it has one, else the rest."""

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]] | None:
        """The names of columns, and rows of text; None where the text says it best."""
        return None

    def _repr_html_(self) -> str:
        first, _, rest = repr(self).partition("\n")
        parts = [f"<p><b>{html.escape(first)}</b></p>"]
        if (table := self._table()) is not None:
            header, rows = table
            cells = [("th", header), *(("td", row) for row in rows)]
            lines = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in cells]
            parts.append(f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>")
        elif rest:
            parts.append(f"<pre>{html.escape(rest)}</pre>")
        return f"<div>{''.join(parts)}</div>"


class Drawn(Shown):
    """A result with a picture."""

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the result with matplotlib, in the axes `ax` or new ones, and return the axes.

        Options are those of the function in `kembed.plotting` that draws this kind of result.
        """
        plots = below("plotting").PLOTS
        draw = next(plots[cls.__name__] for cls in type(self).__mro__ if cls.__name__ in plots)
        return draw(self, ax, **options)


def below(package: str) -> Any:
    """A package of the presentation layer, imported when a result is to be shown."""
    return importlib.import_module(f"kembed.{package}")
