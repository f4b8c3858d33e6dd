"""Independence given other variables."""
