"""Data that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

OZONE = Path(__file__).parent / "ozone.csv"
OZONE_VARIABLES = (
    "ozone",
    "temp",
    "inv_base_height",
    "pressure_gradient",
    "visibility",
    "height",
    "humidity",
    "inv_base_temp",
    "wind",
)


def load_ozone() -> pl.DataFrame:
    """Ozone and weather in Los Angeles on 330 days of 1976, as a polars data frame.

    Columns: `date`, `doy` (day of the year), `weekday` (1 is Monday), and the nine variables of
    `OZONE_VARIABLES`, described as in mlbench:

    - `ozone`: the day's largest one-hour average
    - `temp`: temperature at Sandburg, °F
    - `inv_base_height`: inversion base height at the airport (LAX), feet
    - `pressure_gradient`: pressure gradient from LAX to Daggett, mm Hg
    - `visibility`: visibility at LAX, miles
    - `height`: height of the 500 millibar level at Vandenberg, metres
    - `humidity`: humidity at LAX, %
    - `inv_base_temp`: inversion base temperature at LAX, °F
    - `wind`: wind speed at LAX, miles an hour

    Notes
    -----
    L. Breiman and J. H. Friedman (1985), Estimating optimal transformations for multiple regression and
    correlation, Journal of the American Statistical Association 80, 580-598. The values come from Debian's
    r-cran-mlbench (`Ozone`, the rows that are complete in all columns but V9, without V9) and equal
    r-cran-gclus `ozone`.

    Examples
    --------
    >>> from kembed.tables.datasets import OZONE_VARIABLES, load_ozone
    >>> table = load_ozone()
    >>> table.shape
    (330, 12)
    >>> table.select("date", "ozone", "temp").row(0)
    (datetime.date(1976, 1, 3), 3, 40)
    >>> table.select(OZONE_VARIABLES).null_count().row(0)
    (0, 0, 0, 0, 0, 0, 0, 0, 0)

    """
    import polars as pl

    return pl.read_csv(OZONE, try_parse_dates=True)
