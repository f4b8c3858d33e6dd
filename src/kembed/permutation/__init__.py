"""Designs, bins and their sums, pairings, fusion and null distributions."""
