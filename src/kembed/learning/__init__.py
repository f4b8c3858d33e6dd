"""Which kernel: the normalised objective, its search and its sampler; the published one in `paper`."""
