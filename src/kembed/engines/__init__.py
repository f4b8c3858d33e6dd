"""Sums over rows, wherever the rows are."""
