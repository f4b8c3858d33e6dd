"""The marginal pseudolikelihood as published, Eq. (15), with its sums over rows."""
