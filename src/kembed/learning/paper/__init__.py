"""The marginal pseudolikelihood as published, Eq. (13), with its sums over rows."""
