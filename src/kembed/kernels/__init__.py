"""Kernels as pytrees: squared exponentials and everything that is a mixture of them."""

from kembed.kernels import composite, convolution  # noqa: F401 - what +, * and `convolved` make
