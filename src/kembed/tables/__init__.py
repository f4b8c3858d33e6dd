"""Tables: what a column is, one reader for every source, rows in memory or in batches."""
