"""The public tests: validate, choose kernels, compute, compare."""
