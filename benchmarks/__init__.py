"""Measurements: speed, memory, coverage. Not part of the tests; `python -m benchmarks` lists them."""
