"""The mean embedding μ: empirical, shrunk, and its posterior; landmarks and rules of thumb."""
