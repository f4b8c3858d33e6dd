"""Causal graphs: PC, what is known beforehand, our test inside other libraries."""
