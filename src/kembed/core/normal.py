"""The normal distribution function in NumPy alone: SciPy's takes a third of a second to import.

With x = |z|/√2, (1 + 2x) exp(x²) erfc(x) is a smooth function of t = (x - 3)/(x + 3) for all x ≥ 0
(Shepherd & Laframboise 1981), and a polynomial of degree 22 has it to all digits.
"""

from typing import Any

import numpy as np

MIDDLE = 3.0  # the x at which t is 0: of 1.5 to 4.5 the one whose polynomial converges fastest
FAR = 37.0  # what lies beyond has a probability below 1e-299, which is soon no number
# t times the first plus the second runs from -1 to 1 while z does from 0 to FAR: where the polynomial lives.
SCALE, SHIFT = 1.1146659645167374, 0.11466596451673744
# Powers of that, the highest first: interpolated at Chebyshev's points with forty digits of mpmath.
POWERS = (
    *(-3.761504316110005e-10, 1.0754900880345989e-10, 4.618771082851334e-09, 1.5527016067951278e-09),
    *(-3.3258910931903417e-08, -3.808210245948025e-08, 1.9655101510505183e-07, 4.2562764731496525e-07),
    *(-1.1455872559061016e-06, -3.793809293711144e-06, 8.023190583676283e-06, 3.126520085128282e-05),
    *(-8.010674006301161e-05, -0.0002264676292289349, 0.0010652562234421768, 0.00032565519175040413),
    *(-0.013015099774248124, 0.0484758945378302, -0.10251719476790191, 0.13464648860436004),
    *(-0.07720798271223749, -0.10869670095292022, 1.2663008129821003),
)


def normal_cdf(z: Any) -> Any:
    """The probability Φ(z) = ½ erfc(-z/√2) that a normal number is below z.

    >>> normal_cdf(np.array([-1.0, 0.0, 1.0])).round(6).tolist()
    [0.158655, 0.5, 0.841345]
    """
    shape, z = np.shape(z), np.atleast_1d(np.asarray(z, dtype=float))
    x = np.abs(z)
    place = np.minimum(x, FAR)
    x *= 0.5**0.5
    place *= 0.5**0.5
    np.divide(place - MIDDLE, place + MIDDLE, out=place)
    place *= SCALE
    place += SHIFT
    found = np.full_like(place, POWERS[0])
    for power in POWERS[1:]:
        found *= place
        found += power
    np.multiply(x, 4.0, out=place)
    place += 2.0
    found /= place  # ½ exp(x²) erfc(x)
    np.multiply(x, x, out=x)
    np.negative(x, out=x)
    with np.errstate(under="ignore"):
        found *= np.exp(x, out=x)
    return np.where(z > 0.0, 1.0 - found, found).reshape(shape)
