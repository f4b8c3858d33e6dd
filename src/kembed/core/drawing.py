"""The one door from results down to the rooms of people: how a result draws itself, or becomes a page.

Results stand above `plotting` and `report` and know nothing of them. A class that says `Drawn` is drawn by
the function that `kembed.plotting` keeps under the name of the class (or of the nearest one it derives from).
"""

import importlib
from typing import Any


class Drawn:
    """A result with a picture."""

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the result with matplotlib, in the axes `ax` or new ones, and return the axes.

        Options are those of the function in `kembed.plotting` that draws this kind of result.
        """
        plots = below("plotting").PLOTS
        draw = next(plots[cls.__name__] for cls in type(self).__mro__ if cls.__name__ in plots)
        return draw(self, ax, **options)


def below(room: str) -> Any:
    """A room of people, imported when a result is to be shown."""
    return importlib.import_module(f"kembed.{room}")
