"""A permutation of any number of things that is never written out: where a number goes depends on it alone.

So rows can be put into random order, into bins or into a sample by their numbers, block by block, on any
machine, and every block agrees.
"""

import numpy as np

from kembed.core.backend import Int

ROUNDS = 6  # of the network; four are enough to be pseudorandom (Luby & Rackoff 1988)


def splitmix64(bits: np.ndarray) -> np.ndarray:
    """Random bits of every number of 64 bits: the finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def shuffled(numbers: Int[np.ndarray, " b"], size: int, key: int) -> Int[np.ndarray, " b"]:
    """Where a keyed permutation of 0, ..., size - 1 sends these numbers, each alone (a Feistel network).

    >>> sorted(shuffled(np.arange(10), 10, key=1).tolist()) == list(range(10))
    True
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    found = _network(numbers.astype(np.uint64), half, key)
    outside = np.flatnonzero(found >= size)
    while len(outside):  # the network permutes more numbers than there are: walk on until one is of ours
        found[outside] = _network(found[outside], half, key)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(numbers: Int[np.ndarray, " b"], half: int, key: int) -> Int[np.ndarray, " b"]:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> shift, numbers & mask
    for turn in range(ROUNDS):
        salt = np.uint64((0x9E3779B97F4A7C15 * (2 * key + 1) + turn * 0xD1B54A32D192ED03) % 2**64)
        left, right = right, left ^ (splitmix64(right + salt) & mask)
    return (left << shift) | right
