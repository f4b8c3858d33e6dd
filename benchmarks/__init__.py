"""Measurements: speed, memory, coverage. Not part of the tests; `make bench` runs them all."""
