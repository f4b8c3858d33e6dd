"""What a table is: columns, tables, files, the space its rows live in, two samples pooled and unordered."""
